// What the summary and the trace are written with.
#pragma once

#include <cinttypes>
#include <string>

#include "base/text.h"

namespace longshore::statistics {

// Says so if it fails.
void write_file(const std::string& path, const std::string& text);

}  // namespace longshore::statistics
