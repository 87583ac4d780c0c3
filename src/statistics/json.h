// Just enough JSON for the two files, the summary and the trace, and how they are written.
#pragma once

#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <string>

namespace longshore::statistics {

__attribute__((format(printf, 2, 3))) inline void append(std::string* out, const char* format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length > 0) out->append(text, std::min(static_cast<size_t>(length), sizeof text - 1));
}

// Says so if it fails.
void write_file(const std::string& path, const std::string& text);

}  // namespace longshore::statistics
