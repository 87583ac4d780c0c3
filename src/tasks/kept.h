// Kept buffers (longshore_keep): which ranges of its memory a rank has given to its pool to keep, and the
// copies of them that a task process has. The rank's words about them come through its queues as tasks of
// functions that no plug-in has, and so in order with its tasks. One thread each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "fabric/shm/system.h"

namespace longshore::tasks {

// In Submission::function. kKeep has the bytes as its one buffer, kForget none.
constexpr uint32_t kKeep = 0xffff'0000;
constexpr uint32_t kForget = 0xffff'0001;

// Their arguments.
struct KeptPart {
    uint64_t number = 0;    // of the kept buffer in its pool, never used again
    uint64_t bytes = 0;     // of all of it
    uint64_t offset = 0;    // in it, of the bytes that come
    uint64_t is_whole = 0;  // the copy is made anew
};

// The rank's side.
class KeptRanges {
  public:
    struct Range {
        uint64_t address = 0, bytes = 0, number = 0;
    };
    // The range that these bytes lie in, or null.
    const Range* find(uint64_t address, uint64_t bytes) const;
    // The one that begins there and is as long, made if there is none. Null, with the reason: it would
    // overlap another, or there are too many. Valid until the next call.
    const Range* add(uint64_t address, uint64_t bytes, const char** why);
    // False: none begins there.
    bool remove(uint64_t address, Range* out);
    // One that has just been removed is there again.
    void restore(const Range& range) { ranges_.push_back(range); }

  private:
    std::vector<Range> ranges_;
    uint64_t numbers_ = 0;
};

// The task process's side, for one rank.
class KeptCopies {
  public:
    // Memory for a whole copy, whatever there was. Null: there is none.
    std::byte* make(uint64_t number, uint64_t bytes);
    // Null: there is no such copy, or it ends before.
    std::byte* find(uint64_t number, uint64_t offset, uint64_t bytes);
    void forget(uint64_t number) { copies_.erase(number); }

  private:
    struct Copy {
        Mapping memory;
        uint64_t bytes = 0;  // of the buffer: the memory has whole pages
    };
    std::map<uint64_t, Copy> copies_;
};

}  // namespace longshore::tasks
