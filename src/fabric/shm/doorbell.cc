#include "fabric/shm/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#include <bit>
#include <climits>

namespace longshore {

namespace {
// Only the first who finds it sleeping pays for the system call. It sets the flag anew before it sleeps
// again.
bool first_to_wake(Atomic<uint32_t>& sleeping) {
    uint32_t asleep = 1;
    return sleeping.compare_exchange_strong(asleep, kBeingWoken, std::memory_order_acq_rel,
                                            std::memory_order_relaxed);
}
}  // namespace

void ring_eventfd(int fd) {
    const uint64_t one = 1;
    // It fails only when the count is at its maximum: then the sleeper is being woken already.
    [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof one);
}

void Doorbell::ring(const WakeSet& sleepers) const {
    for (uint32_t services = sleepers.services; services != 0; services &= services - 1) {
        const auto service = static_cast<size_t>(std::countr_zero(services));
        if (service < eventfds_.size() &&
            first_to_wake(memory_.service(ServiceId{static_cast<uint16_t>(service)}).sleeping))
            ring_eventfd(eventfds_[service].get());
    }
    for (unsigned word = 0; word < kRanksPerNodeMax / 64; ++word) {
        for (uint64_t ranks = sleepers.ranks[word]; ranks != 0; ranks &= ranks - 1) {
            const auto rank =
                static_cast<uint16_t>(word * 64 + static_cast<unsigned>(std::countr_zero(ranks)));
            if (rank < memory_.limits().ranks_max && first_to_wake(memory_.rank(LocalRank{rank}).sleeping))
                syscall(SYS_futex, &memory_.rank(LocalRank{rank}).events, FUTEX_WAKE, INT_MAX, nullptr,
                        nullptr, 0);
        }
    }
}

uint32_t sleep_rank(RankSlot& slot, uint32_t seen, uint64_t timeout_ns) {
    slot.sleeping.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (slot.events.load(std::memory_order_acquire) == seen) {
        const timespec timeout{static_cast<time_t>(timeout_ns / 1000000000u),
                               static_cast<long>(timeout_ns % 1000000000u)};
        syscall(SYS_futex, &slot.events, FUTEX_WAIT, seen, &timeout, nullptr, 0);
    }
    slot.sleeping.store(0, std::memory_order_relaxed);
    return slot.events.load(std::memory_order_acquire);
}

}  // namespace longshore
