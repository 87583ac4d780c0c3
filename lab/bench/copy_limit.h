// The contender "copy-limit": the least time that any library on one machine could take. Every rank's buffers
// lie in memory that all ranks have mapped; a rank says that its send buffer is ready, copies its blocks
// straight out of the others', says that it has, and waits until they have. Neither MPI nor Longshore takes
// part.
#pragma once

#include <atomic>
#include <cstdint>

#include "bench/exchange.h"

namespace longshore::bench {

// A part for each rank of the machine, and its signals, mapped by all.
class SharedMemory {
  public:
    // Each in a cache line of its own; they count exchanges.
    struct Signals {
        alignas(64) std::atomic<std::uint64_t> ready;  // to be read from
        alignas(64) std::atomic<std::uint64_t> read;   // has all that it takes
    };

    // Collective over `comm`, whose ranks are all on this machine. Parts are as large on every rank.
    SharedMemory(std::size_t part_bytes, MPI_Comm comm);
    ~SharedMemory();
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;

    Signals& signals(int rank) const { return reinterpret_cast<Signals*>(memory_)[rank]; }
    std::uint8_t* part(int rank) const { return memory_ + parts_at_ + part_bytes_ * std::size_t(rank); }
    // Looks at every page of every part, so that none is mapped only when it is copied from.
    void touch_all() const;

  private:
    std::size_t part_bytes_, parts_at_ = 0, bytes_ = 0;
    std::uint8_t* memory_ = nullptr;
};

// The order in which a rank looks at its sources: its right neighbour first, itself last.
constexpr int ring_source(int rank, int ranks, int step) {
    return (rank + 1 + step) % ranks;
}

class LimitExchange : private SharedMemory, public Exchange {
  public:
    // The collectives that need no root but a broadcast's.
    static bool serves(const Collective& collective) { return collective.pattern <= Pattern::kOneToAll; }

    // Collective. `crowded`: there are more ranks than cores, so those that wait let others run soon.
    LimitExchange(const Collective& collective, std::size_t bytes, int rank, int ranks, int buffers,
                  MPI_Comm comm, bool crowded);

    // Complete on return, whether the collective is a nonblocking one or not.
    MPI_Request start(const Calls& calls, int buffer) override;
    // At the same place in the others' maps, but with new pages, which they have not looked at.
    void renew(int buffer) override;

  private:
    bool gives(int rank) const { return collective().pattern != Pattern::kOneToAll || rank == 0; }
    void copy_block(int buffer, int source);
    template <class Condition>
    void wait_until(const Condition& condition) const;

    const int looks_before_yield_;
    std::uint64_t exchanges_ = 0;
    std::vector<char> taken_;  // by source, of the exchange under way
};

}  // namespace longshore::bench
