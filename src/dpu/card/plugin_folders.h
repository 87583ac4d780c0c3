// Which plug-ins of tasks a DPU loads: those in folders that its configuration lists, which nobody but root
// can put there or change.
#pragma once

#include <string>
#include <vector>

namespace longshore {

// The path of the plug-in of that name ("name.so") in the first of the folders that has one. Empty, with the
// reason: there is none, or it could be another's than root's.
std::string find_trusted_plugin(const std::vector<std::string>& folders, const std::string& name,
                                std::string* error);

// Those variables of "NAME=VALUE" that a task process on a DPU is given: they say how its threads run, and
// nothing by which a library is found or a file is written.
std::vector<std::string> harmless_variables(const std::vector<std::string>& variables);

}  // namespace longshore
