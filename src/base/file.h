// Reading the files that users write. Used inside foreign processes too, as settings.h.
#pragma once

#include <cstddef>
#include <string>

namespace longshore {

// All of a file, or its first bytes_max + 1 bytes: then it is longer, which the caller has to say. False, and
// why, with the path before it: it cannot be read.
bool read_file(const std::string& path, size_t bytes_max, std::string* text, std::string* error);

}  // namespace longshore
