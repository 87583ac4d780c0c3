// One collective at one size: its buffers, the pattern that proves the result, the call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/collectives.h"

namespace longshore::bench {

// Bytes with a guard zone on both sides, page aligned: of the heap, or at `place`, which holds space_for them
// and outlives this.
class GuardedBytes {
  public:
    explicit GuardedBytes(std::size_t bytes, std::uint8_t* place = nullptr);
    static std::size_t space_for(std::size_t bytes);
    std::uint8_t* data() const { return begin_ + kGuardBytes; }
    std::size_t size() const { return bytes_; }
    bool guards_untouched() const;

  private:
    static constexpr std::size_t kGuardBytes = 4096;
    struct Free {
        void operator()(void* p) const;
    };
    std::unique_ptr<std::uint8_t, Free> heap_;
    std::uint8_t* begin_;
    std::size_t bytes_;
};

// To be called before Exchange::renew: malloc then hands out nothing that was in use before, nor returns what
// others free to the system more eagerly than it does by itself in a program that allocates large blocks.
void keep_heap_settings();

class Exchange {
  public:
    // Sizes whose displacements do not fit MPI's int are refused: see fits().
    Exchange(const Collective& collective, std::size_t bytes, int rank, int ranks, int buffers,
             MPI_Comm comm);
    virtual ~Exchange() = default;
    static bool fits(std::size_t bytes, int ranks);

    // Alltoallv only: pairs that do not touch `rank` exchange nothing.
    void keep_only_pairs_with(int rank, bool root_only);

    // Starts the operation; a blocking one is complete on return, its request null.
    virtual MPI_Request start(const Calls& calls, int buffer);
    // Starts it and waits for it.
    void run(const Calls& calls, int buffer);

    // Frees the pair and allocates another, which the program has touched and nobody else. After
    // keep_heap_settings().
    virtual void renew(int buffer);

    // fill: writes the send blocks of `iteration` and poisons the receive buffer. check: what is wrong in the
    // whole receive buffer and around it, if anything.
    void fill(int buffer, std::uint64_t iteration);
    std::optional<std::string> check(int buffer, std::uint64_t iteration) const;

    int buffers() const { return int(pairs_.size()); }
    const Collective& collective() const { return collective_; }
    std::size_t bytes() const { return bytes_; }
    // What this rank gets from other ranks in one operation.
    std::uint64_t bytes_from_others() const;
    // What it gets in all, its own block included.
    std::uint64_t bytes_received() const { return pairs_.front().receive.size(); }

    // Fills the receive buffer from the send buffer by memcpy; what such a copy costs this core. Returns the
    // bytes.
    std::uint64_t copy_own(int buffer);

  protected:
    struct Pair {
        GuardedBytes send, receive;
    };
    // The buffers one after another at `place`, if it is not null: pair_space for each pair.
    Exchange(const Collective& collective, std::size_t bytes, int rank, int ranks, int buffers, MPI_Comm comm,
             std::uint8_t* place);
    static std::size_t pair_space(const Collective& collective, std::size_t bytes, int rank, int ranks);

    Pair make_pair(std::uint8_t* place) const;  // of the heap if it is null

    int rank_, ranks_;
    std::vector<Pair> pairs_;

  private:
    const Collective& collective_;
    std::size_t bytes_;
    MPI_Comm comm_;
    std::vector<int> counts_, displacements_;
};

}  // namespace longshore::bench
