// Reading and showing what users write: numbers, sizes, words in messages. Used inside foreign processes too,
// as settings.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace longshore {

// Decimal digits and nothing else.
std::optional<uint64_t> read_number(std::string_view text);

// "4096", "64K", "64k", "64KB", "64KiB" (all of them 65536), "256M", "1G".
std::optional<uint64_t> read_size(std::string_view text);
// `pattern` with %j, %h and %p replaced, and %% by one; any other % stays as it is.
std::string fill_in_name(std::string_view pattern, std::string_view job, std::string_view host,
                         std::string_view process);

// With the largest suffix that divides it: "1536", "64K".
std::string show_size(uint64_t bytes);

// As printf writes it, at the end of `out`, whatever its length. Its numbers have a decimal point also where
// the program has chosen a locale with a comma: all numbers that Longshore writes within a program's process
// come from here.
__attribute__((format(printf, 2, 3))) void append(std::string* out, const char* format, ...);

// User text for a message: one line, of bounded length.
std::string shown(std::string_view text);

// Runs `work`, which may run out of memory: inside someone else's process that is a failure, never an
// exception.
template <typename Work>
bool without_throwing(Work work) {
    try {
        return work();
    } catch (...) {
        return false;
    }
}

}  // namespace longshore
