// The other ranks of this machine, where a DPU does the ranks' work: what of their heaps this rank may copy
// into its own buffers (engine/hand_over.h), by way of the system.
//
// A rank says by a word in its memory that what others were told of its buffers still holds. It withdraws
// that before buffers are let go whose operations were not completed, and who has copied looks at it
// afterwards: so nobody takes for a block what was written over it.
#pragma once

#include <vector>

#include "base/atomic.h"
#include "host/context.h"

namespace longshore {

class FarNeighbours {
  public:
    // What ranks tell each other.
    struct Identity {
        uint64_t pid, heap, heap_bytes, word_address, word;
    };
    Identity identity(const ls_context& context);
    uint64_t word_address() const { return reinterpret_cast<uint64_t>(&word_); }
    uint64_t word() const { return word_.load(std::memory_order_relaxed); }
    // Rank `rank` of the job is on this machine.
    void add(uint32_t rank, const Identity& identity) { neighbours_.push_back({rank, identity}); }
    // Whether the memory of all of them can be read.
    bool probe() const;
    // Whether that rank is one of them, and its heap has so many bytes there.
    bool has(uint32_t rank, uint64_t from, uint64_t bytes) const;
    // False: they could not be read, or perhaps are no longer what they were. has() is true of them.
    bool copy(uint32_t rank, uint64_t from, std::byte* to, uint64_t bytes) const;
    // From now on nobody takes anything from this rank.
    void withdraw();

  private:
    struct Neighbour {
        uint32_t rank;
        Identity identity;
    };
    const Neighbour* find(uint32_t rank) const;
    static bool holds(const Neighbour& neighbour);

    std::vector<Neighbour> neighbours_;  // this rank is one
    Atomic<uint64_t> word_{};
};

}  // namespace longshore
