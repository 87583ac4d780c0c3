#include "tasks/queue.h"

#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include <algorithm>

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

void copy_submission(const Submission& from, Submission* to) {
    constexpr size_t kFixed = offsetof(Submission, buffers);
    memcpy(static_cast<void*>(to), &from, kFixed);
    const size_t buffers = std::min<size_t>(to->buffers_count, LONGSHORE_BUFFERS_MAX);
    const size_t arguments = std::min<size_t>(to->arguments_bytes, LONGSHORE_ARGUMENTS_BYTES_MAX);
    std::copy_n(from.buffers, buffers, to->buffers);
    std::copy_n(from.arguments, arguments, to->arguments);
}

void finish_next(Queue& queue, int32_t result, const std::string& text) {
    const uint64_t number = queue.finished.load(std::memory_order_relaxed);
    Outcome& outcome = queue.place(number).outcome;
    outcome.result = result;
    outcome.text[0] = 0;
    if (!text.empty()) snprintf(outcome.text, sizeof outcome.text, "%s", text.c_str());
    queue.finished.store(number + 1, std::memory_order_release);
    tell_rank(queue);
}

// Counts that make no sense are of one that has gone wild.
void finish_lost(Queue& queue, const char* text) {
    const uint64_t begun = queue.started.load(std::memory_order_acquire) - queue.finished.load();
    for (uint64_t i = 0; i < std::min<uint64_t>(begun, kPlaces); ++i)
        finish_next(queue, LONGSHORE_ERR_LOST, text);
}

void close_queue(Queue& queue, const char* reason) {
    snprintf(queue.reason, sizeof queue.reason, "%s", reason);
    queue.is_closed.store(1, std::memory_order_release);
    tell_rank(queue);
}

}  // namespace longshore::tasks
