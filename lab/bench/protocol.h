// Verifies and measures one row: one collective at one size, all contenders in turns.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/compute.h"
#include "bench/copy_limit.h"
#include "bench/exchange.h"
#include "bench/session.h"

namespace longshore::bench {

// What one contender showed in a row, in microseconds. An entry per iteration, the maximum over the ranks;
// rank 0.
struct Measured {
    Contender contender{};
    std::vector<double> pure;
    // Nonblocking collectives only:
    std::vector<double> overall, exposed, post, wait, compute, cpu;
    std::vector<double> post_mean, wait_mean;  // over the ranks, as OSU has them
    std::vector<double> compute_alone;         // --compute work: the same work with nothing in flight
    double compute_length = 0;
    // Sums over all ranks and turns; of a nonblocking collective over the iterations with computing.
    double service_bytes = 0;    // moved by service processes
    double moved_bytes = 0;      // that had to be moved
    double offloaded_calls = 0;  // handed to Longshore
    double calls = 0;
};

struct Row {
    const Collective* collective = nullptr;
    std::size_t bytes = 0;
    int iterations = 0;             // per turn, after the time limit
    std::vector<double> t_sp;       // empty where it was not measured
    std::vector<double> t_sp_seen;  // ... until the ranks, which sleep between their looks, have seen it
    // Bytes per us, rank 0: of a service process while it copies, and of memcpy on one core alone, from a
    // send buffer into a receive buffer of this row. Empty where it was not measured.
    std::vector<double> service_rate, memcpy_rate;
    std::vector<Measured> results;  // one per contender
    double seconds = 0;
};

// Collective. What the contenders of a row exchange: the ranks' own memory, but for the copy limit.
class Buffers {
  public:
    Buffers(const Session& session, const Collective& collective, std::size_t bytes);
    Exchange& of(const Contender& contender) { return contender.is_limit ? *shared_ : own_; }
    Exchange& own() { return own_; }
    const Exchange& own() const { return own_; }

  private:
    Exchange own_;
    std::unique_ptr<Exchange> shared_;  // null where nobody needs it
};

// Collective. Fails (on all ranks, after saying why) where a result is wrong: then nothing was timed.
std::optional<Row> measure_row(Session& session, Computation& computation, const Collective& collective,
                               std::size_t bytes);

// Collective. Runs the exchange with fresh patterns and checks every byte; false on all ranks if one is
// wrong. `renewed`: each time with buffers that were never used before.
bool verify(const Session& session, Exchange& exchange, const Contender& contender,
            std::uint64_t first_iteration, bool renewed = false);

}  // namespace longshore::bench
