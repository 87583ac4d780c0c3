#include <algorithm>
#include <atomic>

#include "fabric/shm/system.h"

namespace longshore {

uint64_t awake_ns() {
    static std::atomic<uint64_t> asked_ns{0}, sum_ns{1};  // 0 is no time
    const uint64_t now = now_ns(), before = asked_ns.exchange(now, std::memory_order_relaxed);
    const uint64_t step = std::min(now - std::min(now, before), kAwakeNs);
    return sum_ns.fetch_add(step, std::memory_order_relaxed) + step;
}

int awake_wait_ms(uint64_t end_ns) {
    const uint64_t now = awake_ns();
    return now < end_ns ? static_cast<int>(std::min(end_ns - now, kAwakeNs / 2) / 1'000'000) + 1 : 0;
}

}  // namespace longshore
