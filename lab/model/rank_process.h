// A rank on its host and its stand-in on the DPU. The rank enters a collective, computes, waits, and copies
// what it is told to copy while it waits; the stand-in has the rank's engine.
#pragma once

#include <deque>

#include "engine/hand_over.h"
#include "model/simulated_rank.h"

namespace longshore::timed {

class RankProcess final : public SimulatedRank {
  public:
    using SimulatedRank::SimulatedRank;
    void ring() override;  // of its stand-in
    bool has_to_be_woken() const override { return true; }
    // It is in a call that waits for its collective, and can copy.
    bool is_waiting() const;
    // It copies, and then tells `by`.
    void hand_copy(uint64_t bytes, Arrivals* by, uint64_t tag);

  private:
    static constexpr uint64_t kPost = 1, kLook = 2, kDone = 3, kStandIn = 4, kWaits = 5,
                              kPatient = 6;  // events
    // Arrivals; others than the first two with a number.
    static constexpr uint64_t kPosted = 0, kComplete = 1, kHanded = 2, kCopied = 3, kAnswered = 4,
                              kAttends = 5, kKinds = 6;
    struct HandedCopy {
        uint64_t bytes;
        Arrivals* by;
        uint64_t tag;
    };
    void on_event(uint64_t what) override;
    void on_arrival(uint64_t tag) override;
    void enter();
    void post();
    void look();
    uint64_t keep(const HandedCopy& copy);
    void start_copy();
    void hand_over();
    void step_of_stand_in();
    void choose_copier();
    void look_when_patience_ends();

    Time wait_begins_ = kNever;
    bool looks_ = false;  // a look is under way
    std::vector<HandedCopy> handed_;
    std::vector<uint64_t> free_handed_;
    std::deque<uint64_t> to_copy_;  // numbers; the first is being copied
    // The stand-in's end of copies that its rank makes.
    HandOver hand_over_;
    std::deque<uint32_t> answered_;  // by number
    bool is_open_ = false, hands_over_ = false, left_ = false;
    Patience patience_;
    bool works_ = false;  // its core is at it
};

}  // namespace longshore::timed
