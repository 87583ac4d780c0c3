// Contenders that are measured in turns, so that what the machine does meanwhile falls upon all of them.
#pragma once

#include <algorithm>
#include <cstddef>

#include "bench/session.h"
#include "bench/statistics.h"

namespace longshore::bench {

// Collective. Calls take(which, turn) for each of `contenders`, turn by turn, until the wanted number of
// turns or the row's time since `start` (now_us) is over. Who goes first changes, so that nobody always
// follows the other. Returns the number of turns.
template <class Take>
int take_turns(const Session& session, std::size_t contenders, double start, const Take& take) {
    const Options& options = session.options;
    int turn = 0;
    while (turn < options.samples) {
        for (std::size_t i = 0; i < contenders; ++i) take(turn % 2 ? contenders - 1 - i : i, turn);
        ++turn;
        if (from_root(now_us() - start) > options.time_limit_s * 1e6) break;
    }
    return turn;
}

// Collective. How many iterations make a turn, by the contender whose warm-up takes longest: warm_up(which)
// runs the wanted number of iterations for that. `parts`: how often a contender iterates in its turn.
template <class WarmUp>
int iterations_of_turn(const Session& session, std::size_t contenders, const WarmUp& warm_up, int parts = 1) {
    const Options& options = session.options;
    double slowest = 0;
    for (std::size_t which = 0; which < contenders; ++which) {
        const double start = now_us();
        warm_up(which);
        slowest = std::max(slowest, (now_us() - start) / options.warmup);
    }
    const int batches = options.samples * int(contenders) * parts;
    return int(from_root(affordable_iterations(options.iterations, slowest, options.time_limit_s, batches)));
}

}  // namespace longshore::bench
