// A rank whose service processes run on its own node: it posts in the node's memory itself, and while it
// waits it copies what it can claim of its operation (host/node_operations.cc). Who waits for long sleeps, as
// in mpi/requests/waiter.cc.
#pragma once

#include "model/simulated_rank.h"

namespace longshore::timed {

class NodeRank final : public SimulatedRank {
  public:
    using SimulatedRank::SimulatedRank;
    void ring() override;
    bool has_to_be_woken() const override;
    // Whether its core has something to do.
    bool runs() const { return runs_; }
    // Somebody else had its core: what it does ends later.
    void lose_core(Time time);
    Time lost() const { return lost_; }

  private:
    static constexpr uint64_t kPost = 1, kWait = 2, kLook = 3;  // events
    void on_event(uint64_t what) override;
    void on_arrival(uint64_t tag) override;
    void enter();
    void post();
    void look();
    void look_after(Time time);
    Time wake(const WakeSet& wake);

    Copy copy_;
    Time worked_ = 0;     // when it copied last, or began to wait
    bool rests_ = false;  // it waits, and has found nothing to do
    bool runs_ = false;
    Time lost_ = 0, lost_now_ = 0;  // in all; of what it does now
};

}  // namespace longshore::timed
