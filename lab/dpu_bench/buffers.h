// The region of one process, and the proof that the right bytes arrived in it. No MPI.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "dpu_bench/plan.h"

namespace longshore::dpu_bench {

class Buffers {
  public:
    Buffers(Pattern pattern, const Shape& shape, int rank, std::size_t bytes);

    void* data() const { return memory_.get(); }
    std::size_t size() const { return size_; }

    // Writes the block that this rank gives in this round, and poison into all that is to be received.
    void prepare(std::uint64_t round);
    // What is wrong after the round: in the blocks received, the block given, or behind the region; if
    // anything.
    std::optional<std::string> check(std::uint64_t round) const;
    // Changes one byte, to show that check() sees it.
    void spoil(std::size_t offset) { memory_.get()[offset % size_] ^= 1; }

  private:
    struct Free {
        void operator()(void* memory) const { std::free(memory); }
    };
    std::optional<std::string> check_block(int source, std::size_t offset, std::uint64_t round) const;

    Pattern pattern_;
    Shape shape_;
    int rank_;
    std::size_t bytes_, size_;
    std::unique_ptr<std::uint8_t, Free> memory_;
};

}  // namespace longshore::dpu_bench
