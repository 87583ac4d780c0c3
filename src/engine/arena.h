// A rank's allocator of spans in the node's memory. Its own state is private to the rank; only the free
// spans' links lie in the shared bytes. Power-of-two sizes, free lists per size: O(1), never moves, never
// gives back.
#pragma once

#include "engine/node_memory.h"

namespace longshore {

class Arena {
  public:
    Arena() = default;
    // Manages [begin, begin + bytes) of the node's memory; begin is a multiple of 64.
    Arena(const NodeMemory& memory, uint64_t begin, uint64_t bytes)
        : memory_(memory), begin_(begin), end_(begin + bytes), top_(begin) {}

    // A span of at least `bytes`, 64-aligned, as offset from the start of the node's memory; 0 if there is no
    // room.
    uint64_t allocate(uint64_t bytes);
    void release(uint64_t offset, uint64_t bytes);
    uint64_t used_bytes() const { return used_; }

  private:
    static constexpr uint32_t kClasses = 58;
    static uint32_t size_class(uint64_t bytes);
    void push(uint32_t size_class, uint64_t offset);
    NodeMemory memory_;
    uint64_t begin_ = 0, end_ = 0, top_ = 0, used_ = 0;
    uint64_t free_[kClasses] = {};
};

}  // namespace longshore
