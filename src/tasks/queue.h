// The tasks of one rank for one task process, in a memory file of their own that both map, and the
// supervisor: a ring of places, in the order of submission. A place is written by the rank until it is
// submitted, and by the process from then until it is finished. Neither side trusts the other: the process
// copies a task out before it checks it, and what a count in here says is never used as an index without a
// bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/atomic.h"
#include "fabric/shm/system.h"
#include "longshore_task.h"

namespace longshore::tasks {

// How many tasks a carrier has there or on their way: a result's way back and the next task's way there are
// hidden behind those between them. More than two only while their bytes are few: what is sent has memory
// here until it is back, and each is lost with the carrier.
constexpr uint32_t kCarriedMax = 8;
constexpr uint64_t kCarriedBytesMax = uint64_t{4} << 20;
constexpr uint32_t kPlaces = LONGSHORE_TASKS_MAX;  // a power of two
constexpr size_t kTextBytes = 256;
static_assert((kPlaces & (kPlaces - 1)) == 0);

// Where a buffer lies. In the rank's shared heap, `offset` bytes from its beginning; or anywhere in the rank.
// Of a kept one (access LONGSHORE_KEPT) `address` is its number.
struct BufferPlace {
    uint64_t address = 0, offset = 0, bytes = 0;
    uint32_t access = 0, is_shared = 0;
};

// What the rank says of a task. Plain data, which the process copies before it looks at it
// (copy_submission()).
struct Submission {
    uint32_t function = 0;  // of the plug-in's table
    uint32_t arguments_bytes = 0, buffers_count = 0, reserved = 0;
    BufferPlace buffers[LONGSHORE_BUFFERS_MAX];
    alignas(16) std::byte arguments[LONGSHORE_ARGUMENTS_BYTES_MAX];
};

// Only what is filled in: the arguments and buffers of most tasks are few.
void copy_submission(const Submission& from, Submission* to);

// What the process says when it is finished.
struct Outcome {
    int32_t result = 0;  // as longshore_wait returns it
    char text[kTextBytes] = {};
};

struct Place {
    alignas(64) Submission submission;
    alignas(64) Outcome outcome;
};

// Tasks are counted from 0 in the order of submission. finished <= started <= submitted. A process runs one
// at a time; a carrier has up to kCarriedMax started and not finished.
struct Queue {
    alignas(64) Atomic<uint64_t> submitted;  // by the rank
    Atomic<uint32_t> rank_sleeps;            // not 0: it waits on `events`

    alignas(64) Atomic<uint64_t> started;  // by the process, and what follows too
    Atomic<uint64_t> started_ns;           // when the last one did, by CLOCK_MONOTONIC
    Atomic<uint32_t> process_sleeps;       // not 0: it waits on its eventfd
    Atomic<uint64_t> finished;
    Atomic<uint64_t> bytes_mapped, bytes_copied;
    Atomic<uint32_t> events;  // counts what may end a wait; a futex
    Atomic<uint32_t> pid;     // of the process, for reports
    // By the supervisor: there is no process any more, and there will be none. The text says why.
    Atomic<uint32_t> is_closed;
    char reason[kTextBytes];

    Place places[kPlaces];

    Place& place(uint64_t task) { return places[task & (kPlaces - 1)]; }
};

// A new, empty one. Empty Fd: no memory (errno).
Fd make_queue_file();
// The queue in a file from another process; null if it is not such a file.
Queue* map_queue(const Fd& file, Mapping* mapping);

// Wakes the rank if it sleeps. After whatever it may be waiting for.
void tell_rank(Queue& queue);
// The rank waits until something may have changed since `seen` was read from `events`, at most so long.
void wait_for_process(Queue& queue, uint32_t seen, uint64_t timeout_ns);

// Of a count that this process alone writes.
inline void add(Atomic<uint64_t>& word, uint64_t count) {
    word.store(word.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
}
// The next task is finished, with this result. By the process.
void finish_next(Queue& queue, int32_t result, const std::string& text);

// For the supervisor, when the process is gone: what has been started and is not finished is finished with
// that outcome and not run again. `text` is what the rank is told.
void finish_lost(Queue& queue, const char* text);
// For the supervisor: nothing that is submitted will be run any more.
void close_queue(Queue& queue, const char* reason);

}  // namespace longshore::tasks
