// Time in calls of the engine, by the processor's own counter: calls take less than asking the system does.
#pragma once

#include <time.h>

#include <cstdint>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace longshore::scale {

inline uint64_t ticks() {
#if defined(__x86_64__)
    return __rdtsc();
#elif defined(__aarch64__)
    uint64_t now;
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(now));
    return now;
#else
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
#endif
}

inline uint64_t clock_ns(clockid_t clock) {
    timespec t;
    clock_gettime(clock, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

// Calls and the ticks that they took.
struct Calls {
    uint64_t count = 0, ticks_taken = 0;
    template <class F>
    auto time(F&& call) {
        struct Stop {
            Calls* calls;
            uint64_t begin = ticks();
            ~Stop() { calls->ticks_taken += ticks() - begin; }
        };
        ++count;
        const Stop stop{this};
        return call();
    }
};

// From ticks to time on a core, for all that was timed between start() and stop(): while others had the core
// the ticks went on, as often in a timed call as its share of the whole says.
class Calibration {
  public:
    void start();
    void stop();
    double ns(const Calls& calls) const;

  private:
    uint64_t ticks_ = 0, cpu_ns_ = 0;
    double ns_per_tick_ = 0, ticks_of_none_ = 0;
};

}  // namespace longshore::scale
