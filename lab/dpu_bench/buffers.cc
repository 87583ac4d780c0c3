#include "dpu_bench/buffers.h"

#include <cstring>
#include <new>

#include "base/prng.h"

namespace longshore::dpu_bench {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kGuardBytes = 4096;
constexpr std::uint8_t kPoison = 0x5b;
constexpr std::uint8_t kGuard = 0xa5;

// Every byte depends on the source, the round and its place, so that a block from elsewhere, an old one, or
// one moved by some bytes does not pass.
class BlockPattern {
  public:
    BlockPattern(int source, std::uint64_t round) : base_(mix64(mix64(std::uint64_t(source) + 1) + round)) {}
    std::uint64_t word(std::size_t index) const {
        const std::uint64_t x = base_ + index * 0x9e3779b97f4a7c15u;
        return x ^ (x >> 29);
    }

  private:
    std::uint64_t base_;
};

std::size_t word_bytes(std::size_t at, std::size_t bytes) {
    return bytes - at < 8 ? bytes - at : 8;
}

}  // namespace

Buffers::Buffers(Pattern pattern, const Shape& shape, int rank, std::size_t bytes)
    : pattern_(pattern),
      shape_(shape),
      rank_(rank),
      bytes_(bytes),
      size_(region_bytes(pattern, shape, rank, bytes)) {
    const std::size_t whole = (size_ + kGuardBytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    memory_.reset(static_cast<std::uint8_t*>(std::aligned_alloc(kPageBytes, whole)));
    if (memory_ == nullptr) throw std::bad_alloc();
    std::memset(memory_.get() + size_, kGuard, kGuardBytes);
}

void Buffers::prepare(std::uint64_t round) {
    std::memset(memory_.get(), kPoison, size_);
    if (shape_.is_worker(rank_)) return;
    const BlockPattern pattern(rank_, round);
    for (std::size_t at = 0; at < bytes_; at += 8) {
        const std::uint64_t word = pattern.word(at / 8);
        std::memcpy(memory_.get() + at, &word, word_bytes(at, bytes_));
    }
}

std::optional<std::string> Buffers::check_block(int source, std::size_t offset, std::uint64_t round) const {
    const BlockPattern pattern(source, round);
    const std::uint8_t* block = memory_.get() + offset;
    for (std::size_t at = 0; at < bytes_; at += 8) {
        const std::uint64_t word = pattern.word(at / 8);
        const auto* wanted = reinterpret_cast<const std::uint8_t*>(&word);
        if (std::memcmp(block + at, wanted, word_bytes(at, bytes_)) == 0) continue;
        std::size_t k = 0;
        while (block[at + k] == wanted[k]) ++k;
        return "rank " + std::to_string(rank_) + ": block of rank " + std::to_string(source) + ", byte " +
               std::to_string(at + k) + " of " + std::to_string(bytes_) + " is " +
               std::to_string(block[at + k]) + ", should be " + std::to_string(wanted[k]) +
               (block[at + k] == kPoison ? " (never written?)" : "");
    }
    return std::nullopt;
}

std::optional<std::string> Buffers::check(std::uint64_t round) const {
    for (const int slot : filled_slots(pattern_, shape_, rank_))
        if (auto wrong = check_block(slot, slot_offset(shape_, rank_, slot, bytes_), round)) return wrong;
    if (!shape_.is_worker(rank_))
        if (auto wrong = check_block(rank_, 0, round)) return "in what it gives: " + *wrong;
    for (std::size_t i = 0; i < kGuardBytes; ++i)
        if (memory_.get()[size_ + i] != kGuard)
            return "rank " + std::to_string(rank_) + ": bytes behind the region were changed";
    return std::nullopt;
}

}  // namespace longshore::dpu_bench
