#include "statistics/communicators.h"

#include <algorithm>
#include <cstring>

namespace longshore::statistics {

CommCounts& CommCounts::operator+=(const CommCounts& more) {
    calls += more.calls;
    offloaded += more.offloaded;
    bytes += more.bytes;
    bytes_host += more.bytes_host;
    for (int t = 0; t < kCallTimeCount; ++t) time_ns[t] += more.time_ns[t];
    return *this;
}

uint64_t CommCounts::in_calls_ns() const {
    return time_ns[static_cast<int>(CallTime::kPosting)] + time_ns[static_cast<int>(CallTime::kWaiting)] +
           time_ns[static_cast<int>(CallTime::kTesting)] + time_ns[static_cast<int>(CallTime::kMpi)];
}

void set_comm_name(char (&to)[kCommNameBytes], const char* name) {
    // Open MPI gives names of its own to those that the program has not named.
    if (strncmp(name, "MPI COMMUNICATOR ", 17) == 0) name = "";
    size_t length = 0;
    for (; name[length] != 0 && length + 1 < kCommNameBytes; ++length)
        to[length] = name[length] >= ' ' && name[length] < 127 ? name[length] : '?';
    to[length] = 0;
}

std::string shown_name(const CommRow& row) {
    return row.name[0] == 0 ? "(no name)" : row.name;
}

CommRow row_of(const CommFigures& figures) {
    CommRow row;
    memcpy(row.name, figures.name, sizeof row.name);
    row.ranks = figures.ranks;
    for (int i = 0; i < kCallCount; ++i) {
        uint64_t words[kCommWords];
        for (size_t w = 0; w < kCommWords; ++w)
            words[w] = figures.words[i][w].load(std::memory_order_relaxed);
        memcpy(&row.call[i], words, sizeof words);
    }
    return row;
}

std::vector<CommRow> merged(const std::vector<CommRow>& rows) {
    std::vector<CommRow> out;
    for (const CommRow& row : rows) {
        const auto same = std::find_if(out.begin(), out.end(), [&](const CommRow& other) {
            return strcmp(other.name, row.name) == 0 && other.ranks == row.ranks;
        });
        if (same == out.end()) {
            out.push_back(row);
            continue;
        }
        for (int i = 0; i < kCallCount; ++i) same->call[i] += row.call[i];
    }
    const auto time_of_row = [](const CommRow& row) {
        uint64_t sum = 0;
        for (const CommCounts& counts : row.call) sum += counts.in_calls_ns();
        return sum;
    };
    std::stable_sort(out.begin(), out.end(),
                     [&](const CommRow& a, const CommRow& b) { return time_of_row(a) > time_of_row(b); });
    return out;
}

}  // namespace longshore::statistics
