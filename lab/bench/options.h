// The command line of the benchmark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/lateness.h"

namespace longshore::bench {

enum class Compute { kSleep, kSpin, kWork };
enum class ProgressStyle { kAuto, kBar, kBarAmongRows, kLines, kNone };
enum class Mode { kRows, kCopyLimit, kFirstUse, kBreakdown, kOverhead, kLate, kImbalance };

struct Options {
    Mode mode = Mode::kRows;
    std::vector<std::string> collectives;  // names in the table of collectives
    std::vector<std::size_t> sizes;        // bytes per pair, ascending
    Compute compute = Compute::kSleep;
    double compute_us = 0;  // 0: derived from the measured operation
    int samples = 10;       // turns of each contender
    int iterations = 20;    // operations in a turn, at most
    int warmup = 5;
    double time_limit_s = 3;  // per row
    int buffers = 1;
    bool host = true, longshore = true, copy_limit = false;
    std::vector<std::string> algorithms;  // further contenders: Longshore with this one forced
    bool cooperative = true;
    double late_ms = 0;
    std::uint64_t seed = 1;          // --imbalance: of who is late, and by how much
    double late_share = kLateShare;  // of the ranks, in each iteration
    std::string json;
    bool json_append = false;
    ProgressStyle progress = ProgressStyle::kAuto;
    bool narrow = false;  // the columns that matter most, within 80
};

const char* to_string(Compute compute);

// Returns -1 to go on, else the exit status. `collectives`: the names that there are. Only a rank with
// `speak` prints help and errors.
int parse(int argc, char** argv, const std::vector<std::string>& collectives, bool speak, Options& options);

}  // namespace longshore::bench
