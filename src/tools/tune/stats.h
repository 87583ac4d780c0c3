// A table for the next run of a program out of the statistics of one: calls that are nonblocking in form only
// get the rules of blocking ones. docs/selection.md says when and why.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/selection.h"

namespace longshore::tools {

// Nonblocking calls of one kind, and how many of them were waited for at once.
struct WaitedCalls {
    Selected collective{};
    uint64_t nodes = 1, ranks_per_node = 1;
    SelectionRange bytes;  // everything, where rules take none
    uint64_t calls = 0, at_once = 0;
};

struct WaitedStatistics {
    std::vector<WaitedCalls> calls;        // none of a call that was persistent
    bool persistent[kSelectedCount] = {};  // the program has persistent calls of the collective
};
// False: `error` says what is wrong with the text.
bool read_waited(const std::string& text, WaitedStatistics* out, std::string* error);

// Whether so many were waited for at once that they are to be treated as blocking ones.
bool are_blocking_in_effect(const WaitedCalls& calls);

// `rules`, which are whole, but for nonblocking calls such as `calls` what they have for blocking ones. Equal
// to `rules` if that is the same.
std::vector<SelectionRule> as_blocking(const std::vector<SelectionRule>& rules, const WaitedCalls& calls);

// "alltoall, 2 nodes, 4 ranks per node, 64K-128K bytes: 20 of 20 calls were waited for at once"
std::string describe(const WaitedCalls& calls);

// Changes `selection` by all of the statistics; says about each kind of calls what became of it and why, in
// the order of their number.
std::vector<std::string> apply_waited(const WaitedStatistics& statistics, Selection* selection);

}  // namespace longshore::tools
