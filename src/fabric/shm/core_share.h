// For who polls where it could sleep, on a core that it takes for its own. It may not be: another job's
// service process may poll there, or a thread of the program work. The kernel lets who polls keep a core for
// milliseconds, and as long all wait who wait for the other. So the core is offered between two polls; and
// where it was taken for long, there is no polling for a while: who sleeps gets a core at once when it is
// woken.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstdint>

#include "base/atomic.h"
#include "fabric/shm/system.h"

namespace longshore {

class CoreShare {
  public:
    bool may_poll(uint64_t now_ns) const { return now_ns >= poll_from_ns_; }
    // Between two polls that found nothing, at `before_ns`. Returns a later time where that was given away.
    uint64_t offer(uint64_t before_ns) {
        if (before_ns - offered_ns_ < kOfferEveryNs) {
            cpu_relax();
            return before_ns;
        }
        sched_yield();
        offered_ns_ = now_ns();
        came_back(before_ns, offered_ns_);
        return offered_ns_;
    }
    // The core, which was offered then, has come back.
    void came_back(uint64_t offered_ns, uint64_t now_ns) {
        if (now_ns - offered_ns < kTakenNs) return;
        const bool again = offered_ns < poll_from_ns_ + pause_ns_;
        pause_ns_ = again ? std::min(2 * pause_ns_, kPauseMaxNs) : kPauseNs;
        poll_from_ns_ = now_ns + pause_ns_;
    }

    // Longer than an interrupt takes it, or who has a message to carry.
    static constexpr uint64_t kTakenNs = 200'000;
    static constexpr uint64_t kPauseNs = 100'000'000;
    static constexpr uint64_t kPauseMaxNs = 3'200'000'000;

  private:
    static constexpr uint64_t kOfferEveryNs = 2'000;  // an offer that nobody takes costs some 300 ns
    uint64_t offered_ns_ = 0;
    uint64_t poll_from_ns_ = 0, pause_ns_ = 0;
};

}  // namespace longshore
