#include "bench/wake_up.h"

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "bench/clock.h"

namespace longshore::bench {

namespace {

constexpr std::uint32_t kWakes = 200;
constexpr double kBetweenUs = 150;  // long enough for the core to fall asleep
constexpr double kTimeMaxUs = 1e6;

bool bind_to(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

}  // namespace

std::vector<double> wake_up_latencies(int core, int other) {
    cpu_set_t before;
    if (sched_getaffinity(0, sizeof before, &before) != 0 || !bind_to(core)) return {};
    constexpr std::uint32_t kStop = UINT32_MAX;
    std::atomic<std::uint32_t> rung{0}, answered{0};
    std::atomic<double> woke{0};
    std::atomic<int> bound{-1};
    std::thread sleeper([&] {
        bound = bind_to(other) ? 1 : 0;
        for (std::uint32_t seen = 0; bound == 1;) {
            rung.wait(seen);
            woke = now_us();
            seen = rung;
            if (seen == kStop) return;
            answered = seen;
        }
    });
    while (bound < 0) std::this_thread::yield();
    std::vector<double> latencies;
    const double begin = now_us();
    for (std::uint32_t i = 1; bound == 1 && i <= kWakes && now_us() - begin < kTimeMaxUs; ++i) {
        sleep_us(kBetweenUs);
        const double start = now_us();
        rung = i;
        rung.notify_one();
        while (answered != i) {
        }
        latencies.push_back(woke - start);
    }
    rung = kStop;
    rung.notify_one();
    sleeper.join();
    sched_setaffinity(0, sizeof before, &before);
    return latencies;
}

}  // namespace longshore::bench
