// A rank's registered spans of its own memory: found again by address, pinned by open operations, the one
// that was not used for longest making room. One thread at a time.
#pragma once

#include <vector>

#include "engine/node_memory.h"
#include "fabric/shm/region.h"
#include "host/host.h"

namespace longshore {

// A span in use: where it starts, and its place among the open buffers of the shared memory (-1: none).
struct AcquiredSpan {
    MemoryRef ref;
    int open_place = -1;
};

class RegionCache {
  public:
    RegionCache() = default;
    // `shared`: what this rank shares, in one region until that is withdrawn, and how it can share more.
    RegionCache(const NodeMemory& memory, LocalRank self, uint32_t pid, uint64_t start_time,
                const ls_shared_memory& shared);

    // A pinned region that holds the span, until release(). False: all regions are pinned. `moves`: how many
    // bytes others are about to move there, if it is full of data, so that none of its pages is written to
    // meanwhile; else 0.
    bool acquire(const void* base, uint64_t bytes, uint64_t moves, AcquiredSpan* out);
    // A pinned region of that many bytes that nobody can read: where there should be data and is none, so
    // that all who want it learn of it.
    bool acquire_nothing(uint64_t bytes, MemoryRef* out);
    void release(const AcquiredSpan& span);
    // Nobody is to read or write there any more, whatever open operations say of it: those fail. Its number
    // is not used again; what it held gets another one.
    void withdraw(RegionId region);
    // Forgets unpinned regions that touch the span: its memory is about to be given back.
    void forget(const void* base, uint64_t bytes);

  private:
    struct Entry {
        uint64_t base = 0, bytes = 0, last_use = 0;
        uint64_t moved = 0;  // by others
        uint32_t pins = 0;
        bool used = false, adopted = false;  // adopted: it was tried, for better or worse
        bool withdrawn = false;
        bool parted = false;  // a part of it is, or was, adopted memory
        bool stale = false;   // that a fork has made private again: in use as before, and not used anew
    };
    struct Adopted {
        uint64_t begin, end, file_offset;
    };
    NodeMemory memory_;
    LocalRank self_;
    uint32_t pid_ = 0;
    uint64_t start_time_ = 0, clock_ = 0;
    ls_shared_memory shared_{};
    std::vector<Adopted> adopted_;
    uint32_t forks_ = 0;  // that are known to have made adopted memory private
    bool holds(const Entry& entry, uint64_t address, uint64_t bytes) const;
    bool acquire_region(uint64_t address, uint64_t bytes, uint64_t moves, MemoryRef* out);
    void forget_adopted();
    void drop_stale(uint32_t region);
    void publish_whole();
    void renew(uint32_t region, uint32_t pid, uint64_t address, uint64_t bytes);
    void adopt(uint32_t region);
    SharedPart shared_part(uint64_t address, uint64_t bytes) const;
    static constexpr uint32_t kGuesses = 64;
    static constexpr uint32_t kUnpinnedMax = 256;  // more are kept only while all of these are pinned
    std::vector<Entry> entries_;                   // by region; 0 is the arena
    uint32_t whole_ = 1;                           // the region of the shared memory
    uint32_t guess_[kGuesses] = {};                // a region that started at such an address, by hash
};

}  // namespace longshore
