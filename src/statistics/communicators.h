// Calls by communicator: the communicators that a rank has made calls on, by name, in its figures, and those
// of all ranks together.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "statistics/call.h"

namespace longshore::statistics {

constexpr size_t kCommsMax = 16;  // names that a rank counts by; the last counts for all communicators beyond
constexpr size_t kCommNameBytes = 40;

// All uint64_t: a rank's threads count in atomic words of the same layout.
struct CommCounts {
    uint64_t calls, offloaded, bytes, bytes_host;
    uint64_t time_ns[kCallTimeCount];  // by CallTime

    CommCounts& operator+=(const CommCounts& more);
    uint64_t in_calls_ns() const;
};
constexpr size_t kCommWords = sizeof(CommCounts) / sizeof(uint64_t);

// Communicators of one name and size. In the figures.
struct CommFigures {
    char name[kCommNameBytes];  // as the program has set it; "": it has none
    uint32_t ranks;
    std::atomic<uint64_t> words[kCallCount][kCommWords];
};

// The same of several ranks.
struct CommRow {
    char name[kCommNameBytes] = {};
    uint32_t ranks = 0;
    CommCounts call[kCallCount] = {};
};

// Where a communicator counts in a rank's figures.
enum class CommIndex : uint16_t { kNone = 0xffff };

// One line, in ASCII, without control characters, shortened if need be.
void set_comm_name(char (&to)[kCommNameBytes], const char* name);
// How people read it: "rows", or "(no name)".
std::string shown_name(const CommRow& row);

CommRow row_of(const CommFigures& figures);
// Rows of one name and size become one; those with most time in calls first.
std::vector<CommRow> merged(const std::vector<CommRow>& rows);

}  // namespace longshore::statistics
