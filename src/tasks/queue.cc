#include "tasks/queue.h"

#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include <new>

namespace longshore::tasks {
namespace {

long futex(Atomic<uint32_t>& word, int what, uint32_t value, const timespec* timeout) {
    return syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), what, value, timeout, nullptr, 0);
}

}  // namespace

Fd make_queue_file() {
    return make_memory_file("longshore-tasks", sizeof(Queue));
}

Queue* map_queue(const Fd& file, Mapping* mapping) {
    if (!is_memory_file(file.get(), sizeof(Queue), nullptr)) return nullptr;
    *mapping = Mapping::window(file.get(), 0, sizeof(Queue));
    return *mapping ? reinterpret_cast<Queue*>(mapping->data()) : nullptr;
}

// The count before the look at the sleeper, which sets its flag before it looks at the count.
void tell_rank(Queue& queue) {
    queue.events.fetch_add(1, std::memory_order_seq_cst);
    if (queue.rank_sleeps.load(std::memory_order_seq_cst) != 0)
        futex(queue.events, FUTEX_WAKE, INT32_MAX, nullptr);
}

void wait_for_process(Queue& queue, uint32_t seen, uint64_t timeout_ns) {
    constexpr uint64_t kSecondNs = 1'000'000'000;
    const timespec timeout{static_cast<time_t>(timeout_ns / kSecondNs),
                           static_cast<long>(timeout_ns % kSecondNs)};
    queue.rank_sleeps.store(1, std::memory_order_seq_cst);
    if (queue.events.load(std::memory_order_seq_cst) == seen) futex(queue.events, FUTEX_WAIT, seen, &timeout);
    queue.rank_sleeps.store(0, std::memory_order_relaxed);
}

void finish_lost(Queue& queue, const char* text) {
    const uint64_t started = queue.started.load(std::memory_order_acquire);
    if (queue.finished.load(std::memory_order_relaxed) == started) return;
    Outcome& outcome = queue.place(started - 1).outcome;
    outcome.result = LONGSHORE_ERR_LOST;
    snprintf(outcome.text, sizeof outcome.text, "%s", text);
    queue.finished.store(started, std::memory_order_release);
    tell_rank(queue);
}

void close_queue(Queue& queue, const char* reason) {
    snprintf(queue.reason, sizeof queue.reason, "%s", reason);
    queue.is_closed.store(1, std::memory_order_release);
    tell_rank(queue);
}

}  // namespace longshore::tasks
