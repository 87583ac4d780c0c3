#include "engine/arena.h"

namespace longshore {
namespace {

constexpr uint32_t kSmallestShift = 6;  // 64 bytes: a cache line is the least that two owners may share

// A link is told from a claim word, whose arena this may be, by its lowest bits.
constexpr uint64_t encode_link(uint64_t offset) {
    return offset << 3 | static_cast<uint64_t>(ChunkState::kLink);
}
constexpr uint64_t decode_link(uint64_t word) {
    return word >> 3;
}

}  // namespace

uint32_t Arena::size_class(uint64_t bytes) {
    if (bytes <= uint64_t{1} << kSmallestShift) return 0;
    return 64 - static_cast<uint32_t>(__builtin_clzll(bytes - 1)) - kSmallestShift;
}

uint64_t Arena::allocate(uint64_t bytes) {
    if (bytes > end_ - begin_) return 0;
    const uint32_t c = size_class(bytes);
    const uint64_t span = uint64_t{1} << (c + kSmallestShift);
    uint32_t from = c;
    if (free_[c] == 0 && span > end_ - top_) {
        // No fresh bytes: halve the smallest larger span that is free.
        while (from < kClasses && free_[from] == 0) ++from;
        if (from == kClasses) return 0;
    }
    used_ += span;
    if (free_[from] == 0) {
        const uint64_t offset = top_;
        top_ += span;
        return offset;
    }
    const uint64_t offset = free_[from];
    const uint64_t next = decode_link(load_relaxed(memory_.at<uint64_t>(offset)));
    // It lies in memory that other processes write to.
    LONGSHORE_CHECK(next == 0 || (next >= begin_ && next < top_ && next % 64 == 0));
    free_[from] = next;
    while (from > c) {
        --from;
        push(from, offset + (uint64_t{1} << (from + kSmallestShift)));
    }
    return offset;
}

void Arena::push(uint32_t size_class, uint64_t offset) {
    store_relaxed(memory_.at<uint64_t>(offset), encode_link(free_[size_class]));
    free_[size_class] = offset;
}

void Arena::release(uint64_t offset, uint64_t bytes) {
    const uint32_t c = size_class(bytes);
    const uint64_t span = uint64_t{1} << (c + kSmallestShift);
    LONGSHORE_CHECK(offset >= begin_ && offset + span <= top_ && used_ >= span);
    used_ -= span;
    push(c, offset);
    if (used_ != 0) return;
    // Nothing is in use: small spans become large ones again.
    top_ = begin_;
    for (uint64_t& list : free_) list = 0;
}

}  // namespace longshore
