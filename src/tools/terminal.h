// Text for people, on terminals that are narrower than its lines.
#pragma once

#include <cstdio>
#include <string>

namespace longshore::tools {

// Columns of the terminal that `file` is; 0 where it is none, or does not say.
size_t terminal_columns(FILE* file);

// The text with lines broken at blanks so that they fit `columns`; 0 leaves it as it is. What goes on stands
// below the beginning of the line's last column (after two blanks or more), or of its first word.
std::string wrapped(const std::string& text, size_t columns);

}  // namespace longshore::tools
