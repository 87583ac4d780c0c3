// What the ranks of a node and its writer share for write-behind: a board, one for the node, with a queue of
// each rank, and a ring for each rank with its records and their data. Used inside foreign programs without
// any C++ runtime: plain data and atomics only. Neither side trusts the other: the writer checks a record
// before it acts on it.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"

namespace longshore::io {

constexpr uint32_t kFilesMax = 512;  // of a rank, open or waiting
constexpr uint32_t kPatternsMax = 16;
constexpr size_t kPatternLettersMax = 4095;   // of all together
constexpr size_t kNameBytes = 216;            // of a file's path, its end if it is longer
constexpr uint64_t kRingUnit = 64 * 1024;     // a ring is a multiple of it: whole pages everywhere
constexpr uint64_t kRecordUnit = 64;          // a record and its data are padded to it
constexpr uint64_t kDataBytesMax = 4u << 20;  // of one record; at most an eighth of the ring

// Why a matching file is, or is no longer, written by the program itself.
enum class Reason : uint32_t {
    kAppend,
    kDirect,
    kInMemory,
    kLimited,
    kUnseen,
    kNoRoom,
    kShared,
    kMapped,
    kLocked,
    kForked,
    kStdio,
    kError,
    kOther,
    kFinalized,
};
constexpr const char* kReasonTexts[] = {
    "opened to append",
    "opened for direct or synchronous writes",
    "in memory",
    "limited in size (ulimit -f)",
    "open for reading, too, where the MPI watches mmap",
    "too many at once",
    "opened twice, or by several ranks",
    "mapped",
    "locked",
    "shared with a child or another program",
    "used by stdio",
    "told of an error",
    "used by another call",
    "open at MPI_Finalize",
};
constexpr uint32_t kReasonsCount = sizeof kReasonTexts / sizeof *kReasonTexts;
static_assert(static_cast<uint32_t>(Reason::kFinalized) + 1 == kReasonsCount);

// A file of a rank. By the rank, but for what is said of others.
struct Slot {
    Atomic<uint64_t> number;  // counts the rank's files from 1; 0: no file
    Atomic<uint64_t> device, inode;
    Atomic<uint64_t> last;       // position in the ring behind its last record
    Atomic<uint32_t> is_open;    // a descriptor of the program has it
    Atomic<uint32_t> is_shared;  // by another rank, which has opened it: the owner lets go of it
    Atomic<int32_t> error;       // by the writer: the first errno that the program has not been told
    char name[kNameBytes];
};

// Positions count bytes of records since the beginning; done <= submitted <= done + the ring's size.
struct Queue {
    alignas(64) Atomic<uint64_t> submitted;  // by the rank, and what follows
    Atomic<uint32_t> kicks;                  // a futex: the writer sleeps on it
    Atomic<uint32_t> slots_used;             // no slot behind so many has ever been
    Atomic<uint32_t> pid;
    Atomic<uint64_t> opened, bytes, drains, waited_ns;  // figures: files, bytes, waits for the disk
    Atomic<uint64_t> passed[kReasonsCount];             // files, by the reason
    Atomic<uint64_t> waiting_bytes_max;                 // of records, at a time
    Atomic<uint64_t> since_ns;  // CLOCK_MONOTONIC: since when something has always waited, if it does

    alignas(64) Atomic<uint64_t> done;  // by the writer, and what follows
    Atomic<uint32_t> writer_sleeps;
    Atomic<uint32_t> is_spoilt;  // a record made no sense: nothing more of this queue is carried out

    Slot slots[kFilesMax];
};

struct Board {
    Atomic<uint32_t> queues_count;
    Atomic<uint64_t> ring_bytes;
    Atomic<uint32_t> events;  // a futex: ranks wait on it until `done` of some queue has moved
    Atomic<uint32_t> sleepers;
    Atomic<uint32_t> is_lost;  // by the supervisor: there is no writer any more, and will be none
    Atomic<uint64_t> matches[kPatternsMax];  // files that were opened, by pattern
    Atomic<int32_t> refusals[kPatternsMax];  // the last errno of opening one for writing, by pattern
    alignas(64) Queue queues[];
};

constexpr uint64_t board_bytes(uint32_t queues) {
    return sizeof(Board) + uint64_t{queues} * sizeof(Queue);
}

enum class RecordKind : uint32_t { kWrite = 1, kTruncate, kClose };

// In the ring, followed by `bytes` bytes of data (kWrite).
struct Record {
    uint32_t kind = 0, slot = 0;
    uint64_t number = 0;  // of the file
    int64_t offset = 0;   // kTruncate: the new length
    uint64_t bytes = 0;
    uint8_t padding[kRecordUnit - 32] = {};
};
static_assert(sizeof(Record) == kRecordUnit);

constexpr uint64_t padded(uint64_t bytes) {
    return (bytes + kRecordUnit - 1) & ~(kRecordUnit - 1);
}

// The supervisor is to hold a descriptor, which comes along, and to hand it to the writer. The answer is the
// same, with an errno.
struct HoldFile {
    uint32_t magic = kMagic, slot = 0;
    uint64_t number = 0;
    int32_t error = 0;
    uint32_t local_rank = 0;
    static constexpr uint32_t kMagic = 0x696f'0001;
};

}  // namespace longshore::io
