// When a service process sleeps, for how long, and when it is time for the engine's tick. It sleeps only
// after a whole turn in which nothing was done: what the engine said at that turn's end is still true, as the
// fabric does not sleep if somebody rang since it was polled at the turn's beginning. Pure: the loop says
// what time it is.
#pragma once

#include <algorithm>
#include <cstdint>

namespace longshore {

class Pace {
  public:
    // What the engine and the fabric have, before a turn.
    struct Outlook {
        bool is_blocked;   // something waits for room at a peer, which does not ring when it has some
        bool is_active;    // the engine has operations to watch
        bool has_yielded;  // blocks are left to ranks that wait; a rank that stops waiting does not ring,
                           // either
    };
    // How long the loop turns without work before it sleeps.
    void set_spin(uint64_t ns) { spin_ns_ = ns; }

    void begin_turn(uint64_t now_ns) {
        if (!begun_) last_tick_ns_ = last_work_ns_ = now_ns;
        begun_ = true;
    }
    // The last turn did nothing, but not for so long yet that this one sleeps.
    bool spins(uint64_t now_ns) const { return !worked_ && now_ns - last_work_ns_ < spin_ns_; }
    // How long this turn may sleep; 0: not at all.
    uint64_t take_wait_ns(uint64_t now_ns, const Outlook& outlook) {
        if (worked_ || spins(now_ns)) return 0;
        const uint64_t wait_ns = outlook.is_blocked  ? kBlockedWaitNs
                                 : outlook.is_active ? kTickNs
                                                     : kIdleWaitNs;
        if (!outlook.has_yielded) return wait_ns;
        const uint64_t yielded_wait_ns = yielded_wait_ns_;
        yielded_wait_ns_ = std::min(2 * yielded_wait_ns_, kYieldedWaitMaxNs);
        return std::min(wait_ns, yielded_wait_ns);
    }
    // True about every kTickNs while the engine is active.
    bool take_tick(uint64_t now_ns, bool is_active) {
        if (!is_active || now_ns - last_tick_ns_ < kTickNs) return false;
        last_tick_ns_ = now_ns;
        return true;
    }
    // The last turn found nothing but blocks of ranks that wait and move them themselves.
    bool leaves_all_to_ranks() const { return yielding_; }
    void end_turn(bool worked, bool has_yielded, uint64_t now_ns) {
        worked_ = worked;
        yielding_ = !worked && has_yielded;
        if (!yielding_) yielded_wait_ns_ = kYieldedWaitNs;
        if (worked) last_work_ns_ = now_ns;
    }

    static constexpr uint64_t kTickNs = 50'000'000;
    static constexpr uint64_t kIdleWaitNs = 1'000'000'000;
    static constexpr uint64_t kBlockedWaitNs = 200'000;
    static constexpr uint64_t kYieldedWaitNs = 100'000;
    static constexpr uint64_t kYieldedWaitMaxNs = 3'200'000;

  private:
    uint64_t spin_ns_ = 0, last_work_ns_ = 0, last_tick_ns_ = 0;
    uint64_t yielded_wait_ns_ = kYieldedWaitNs;  // twice as long each time that nothing comes of it
    bool begun_ = false;
    bool worked_ = false;  // in the last turn
    bool yielding_ = false;
};

}  // namespace longshore
