// Machine files: TOML, a table for each part of a machine, and each value with its unit and where it comes
// from.
//   pcie.rate = { value = 13.92, unit = "GB/s", source = "measured by longshore device" }
#pragma once

#include <string>

#include "model/machine.h"

namespace longshore::timed {

// Returns "", or what is wrong: file, line, and what is expected there.
std::string read_machine(const std::string& path, Machine* out);
// The same of text that came from a file of that name.
std::string parse_machine(std::string_view text, const std::string& name, Machine* out);

// A file that says all of this machine; read again it gives the same one.
std::string write_machine(const Machine& machine);

}  // namespace longshore::timed
