// Where a service process's time goes, turn by turn. Pure: the loop says what time it is.
#pragma once

#include <algorithm>
#include <cstdint>

namespace longshore {

class TimeBook {
  public:
    // Since the process began. Of busy_ns: copy_ns in copies on the node, network_ns in what is said to and
    // comes from other service processes.
    struct Times {
        uint64_t busy_ns = 0, copy_ns = 0, network_ns = 0, idle_ns = 0, sleeps = 0;
    };
    const Times& times() const { return times_; }

    void begin_turn(uint64_t now_ns) {
        if (mark_ns_ == 0) mark_ns_ = now_ns;
        polled_ns_ = 0;
    }
    // The turn has looked at the fabric without sleeping: work if the turn does any.
    void add_poll(uint64_t ns) { polled_ns_ = ns; }
    // The turn has slept, and worked for so long of that on what came from other nodes.
    void add_sleep(uint64_t begin_ns, uint64_t end_ns, uint64_t worked_ns) {
        times_.network_ns += worked_ns;
        times_.busy_ns += worked_ns;
        times_.idle_ns += end_ns - begin_ns - std::min(worked_ns, end_ns - begin_ns);
        ++times_.sleeps;
        mark_ns_ = end_ns;
    }
    void add_action(bool moves_on_node, uint64_t ns) {
        (moves_on_node ? times_.copy_ns : times_.network_ns) += ns;
    }
    void end_turn(bool worked, uint64_t now_ns) {
        (worked ? times_.busy_ns : times_.idle_ns) += now_ns - mark_ns_;
        if (worked) times_.network_ns += polled_ns_;
        mark_ns_ = now_ns;
    }

  private:
    Times times_;
    uint64_t mark_ns_ = 0;    // up to here time is booked
    uint64_t polled_ns_ = 0;  // of this turn
};

}  // namespace longshore
