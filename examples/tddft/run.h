// One run: all steps from the begin, and where the ranks' time went.
#pragma once

#include <vector>

#include "checks.h"
#include "options.h"

// Of all ranks, on every rank. Seconds.
struct Run {
    double wall = 0;  // of the slowest rank
    MpiTimes mpi;     // mean of ranks, as computing and late
    double computing = 0, late = 0;
    bool one_clock = false;  // the ranks are on one machine, so that entries and exits can be compared
    // An entry per allgather. Avoidable: mean over the ranks of exit - last entry of any rank.
    std::vector<double> avoidable, entry_spread, exit_spread;
    std::uint64_t checksum = 0, wrong_words = 0;
    std::vector<Observed> observed;
};

Run run_once(Propagator& propagator, Exchanges& exchanges, const Options& options, int repeat);
