// A rank of a job that the product carries, as the rest of a simulation knows it: its engine, and what it
// posts. Who runs that engine is the rank itself (node_rank.h), or its stand-in on a DPU (rank_process.h).
#pragma once

#include "model/offload.h"

namespace longshore::timed {

class SimulatedRank : protected Actor, protected Arrivals {
  public:
    SimulatedRank(Offload& world, uint32_t rank);
    virtual ~SimulatedRank() = default;

    void enter_at(Time time, uint64_t sequence);
    // Its doorbell rang while it slept.
    virtual void ring() = 0;
    // Whether it takes a call to the system to wake it, and does not look itself.
    virtual bool has_to_be_woken() const = 0;

  protected:
    static constexpr uint64_t kEnter = 0;  // an event
    // What it posts next. What it gives is copied into its arena where it is small.
    OperationArguments prepare(WakeSet* wake);
    uint64_t copied_bytes() const;
    // How long the call takes that starts the collective.
    Time post_time();
    uint64_t arrays_given() const;
    uint64_t now_ns() const { return world_.queue().now() / kNanosecond; }

    Offload& world_;
    const uint32_t rank_, node_;
    const LocalRank local_;
    scale::Mapped block_;
    RankEngine engine_;
    RankSlot& slot_;
    uint64_t sequence_ = 0;
    RecordId record_;
    Time entered_ = 0;

  private:
    uint64_t copy_ = 0, copy_bytes_ = 0;  // of small blocks, in the arena
};

}  // namespace longshore::timed
