// All ranks of a job in the host's MPI, the wires between them, and the clock.
#pragma once

#include <memory>

#include "model/host_mpi.h"
#include "model/timing.h"

namespace longshore::timed {

class HostRank;

class HostWorld final {
  public:
    HostWorld(const Job& job, const HostAlgorithm& algorithm, Watcher* watcher);
    ~HostWorld();
    Outcome run();

    const Job& job() const { return job_; }
    const Machine& machine() const { return job_.machine; }
    // What a rank does in a round, by the numbers of all ranks.
    void round(uint32_t rank, uint32_t number, Round* out) const;
    uint32_t rounds() const { return rounds_; }
    EventQueue& queue() { return queue_; }
    Wires& wires() { return wires_; }
    HostRank& rank(uint32_t number) { return *ranks_[number]; }
    void message_is_over() { ++messages_; }
    void rank_is_done(uint32_t rank, Time latency) { timing_.rank_is_done(rank, latency); }
    Time step_time(Time mean) { return timing_.step_time(mean); }

  private:
    uint64_t messages_of_all() const;
    const Job job_;
    const Job group_;  // one group of it, as if it were all
    const HostAlgorithm& algorithm_;
    const uint32_t rounds_;
    EventQueue queue_;
    Wires wires_;
    Timing timing_;
    std::vector<std::unique_ptr<HostRank>> ranks_;
    uint64_t messages_ = 0;
};

}  // namespace longshore::timed
