// What the product's and the host MPI's simulations share: iterations in which all ranks enter and are done,
// the jitter of their steps, and what is counted meanwhile.
#pragma once

#include <functional>

#include "base/prng.h"
#include "model/job.h"
#include "model/wires.h"

namespace longshore::timed {

class Timing {
  public:
    Timing(const Job& job, EventQueue& queue, const Wires& wires, Watcher* watcher)
        : job_(job),
          queue_(queue),
          wires_(wires),
          watcher_(watcher),
          prng_(mix64(job.seed)),
          sums_(job.timed_ranks()) {}

    struct Hooks {
        // Lets a rank enter the operation of this sequence number at this time.
        std::function<void(uint32_t rank, Time at, uint64_t sequence)> enter;
        // The part of an iteration's work that has been done since the simulation began, in iterations.
        std::function<double()> work_done;
        std::function<void()> begin_counting;
    };
    Outcome run(const Hooks& hooks);

    void rank_is_done(uint32_t rank, Time latency);
    // A step of a program that takes `mean`, with its jitter.
    Time step_time(Time mean);

  private:
    Time entry_after();
    void iterate(const Hooks& hooks, uint32_t number);
    const Job& job_;
    EventQueue& queue_;
    const Wires& wires_;
    Watcher* watcher_;
    Prng prng_;
    uint32_t ranks_done_ = 0;
    std::vector<Time> sums_;                    // by rank, of the counted iterations
    Time sum_ = 0, least_ = kNever, most_ = 0;  // of the iteration that runs
};

}  // namespace longshore::timed
