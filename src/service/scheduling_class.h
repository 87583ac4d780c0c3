// In which scheduling class a service process runs. One without a core of its own takes only time that nobody
// else wants. But what it has claimed may be waited for: while it holds a chunk and some rank of the node
// waits, it is a process like any other ("raised"), or a preempted one would keep that rank waiting for
// milliseconds. While all of them compute it would take a core from one of them, which the kernel then puts
// on another's. But with more ranks than cores ("crowded") somebody always computes there, also when one that
// has begun to wait sleeps: what is claimed would not move for long (15 s went into copies of 0.3 s in a run
// of examples/fft with four ranks on two cores). Where a change is not permitted (no privilege, RLIMIT_NICE)
// the process stays as it is.
#pragma once

#include <cstdint>

namespace longshore {

class SchedulingClass {
  public:
    // Changes this process's class; false: it is not permitted.
    using Change = bool (*)(bool raised);
    static bool change_this_process(bool raised);

    explicit SchedulingClass(Change change = &change_this_process) : change_(change) {}
    // The process is in the class of its place, not raised.
    void set_place(bool only_idle, bool crowded) {
        only_idle_ = only_idle;
        crowded_ = crowded;
        raised_ = false;
    }
    // Whether it runs only when nobody else wants the core, unless it is raised.
    bool only_idle() const { return only_idle_; }
    // It is about to claim a chunk, or has one. `somebody_waits`: asked only where that matters.
    template <class SomebodyWaits>
    void hold(const SomebodyWaits& somebody_waits, uint64_t now_ns) {
        if (only_idle_) become(crowded_ || somebody_waits(), now_ns);
    }
    // It has none.
    void let_go(uint64_t now_ns) {
        if (only_idle_) become(false, now_ns);
    }
    // As let_go, but only if it was raised a while ago: small chunks share a change of class.
    void let_go_in_time(uint64_t now_ns) {
        if (now_ns - raised_at_ns_ >= kRaisedNs) let_go(now_ns);
    }

  private:
    static constexpr uint64_t kRaisedNs = 100'000;  // about a chunk's time
    void become(bool raised, uint64_t now_ns);

    const Change change_;
    bool only_idle_ = false, crowded_ = false, raised_ = false;
    uint64_t raised_at_ns_ = 0;
};

}  // namespace longshore
