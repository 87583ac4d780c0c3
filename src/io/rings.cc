#include "io/rings.h"

#include <linux/futex.h>
#include <sys/syscall.h>

namespace longshore::io {

bool Ring::map(int file, uint64_t bytes) {
    if (!is_memory_file(file, bytes, nullptr)) return false;
    void* const room =
        mmap(nullptr, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return false;
    base_ = static_cast<std::byte*>(room);
    bytes_ = bytes;
    for (std::byte* half : {base_, base_ + bytes}) {
        if (mmap(half, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, 0) !=
            static_cast<void*>(half))
            return false;
    }
    return true;
}

bool Ring::take_memory(uint64_t position, uint64_t bytes) {
    return madvise(base_ + position % bytes_, bytes, MADV_POPULATE_WRITE) == 0;
}

Ring::~Ring() {
    if (base_ != nullptr) munmap(base_, 2 * bytes_);
}

void wake(Atomic<uint32_t>& word) {
    word.fetch_add(1, std::memory_order_seq_cst);
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

void sleep_on(Atomic<uint32_t>& word, uint32_t seen, uint64_t timeout_ns) {
    constexpr uint64_t kSecondNs = 1'000'000'000;
    const timespec timeout{static_cast<time_t>(timeout_ns / kSecondNs),
                           static_cast<long>(timeout_ns % kSecondNs)};
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

}  // namespace longshore::io
