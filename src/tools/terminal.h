// Text for people: on terminals that are narrower than its lines, and how many bytes there are.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace longshore::tools {

// Columns of the terminal that `file` is; 0 where it is none, or does not say.
size_t terminal_columns(FILE* file);

// The text with lines broken at blanks so that they fit `columns`; 0 leaves it as it is. What goes on stands
// below the beginning of the line's last column (after two blanks or more), or of its first word.
std::string wrapped(const std::string& text, size_t columns);

// "512 B", "4.2 MB", "25.2 GB": of 1000, as the summaries of jobs count.
std::string bytes_text(uint64_t bytes);

}  // namespace longshore::tools
