// The claim word: one per chunk of an incoming block, in its destination rank's memory. It is the whole
// on-node protocol: a worker (service process or waiting rank) takes a free word, moves the chunk, marks it
// landed.
//
// A word carries the generation of the record it belongs to, so that a worker with a stale view of a recycled
// record cannot take anything; and the incarnation of its holder, so that the claim of a process that is gone
// can be freed without touching one of its successor.
#pragma once

#include "base/atomic.h"
#include "base/types.h"

namespace longshore {

// A worker of a node: service processes first, then ranks.
struct WorkerId {
    uint16_t index = 0;        // service s: s; rank r: kFirstRankWorker + r
    uint16_t incarnation = 0;  // of a service process, from 1, at most kIncarnationMax; ranks have 1
    constexpr bool operator==(const WorkerId&) const = default;
};
constexpr uint16_t kServicesPerNodeMax = 16;
constexpr uint16_t kRanksPerNodeMax = 512;
constexpr uint16_t kFirstRankWorker = kServicesPerNodeMax;
constexpr uint16_t kIncarnationMax = 1023;

constexpr WorkerId service_worker(ServiceId s, uint16_t incarnation) {
    return {s.value, incarnation};
}
constexpr WorkerId rank_worker(LocalRank r) {
    return {static_cast<uint16_t>(kFirstRankWorker + r.value), 1};
}
constexpr bool is_rank(WorkerId w) {
    return w.index >= kFirstRankWorker;
}

enum class ChunkState : uint8_t {
    kFree = 1,      // any worker may take it
    kRankOnly = 2,  // a service process could not reach the memory: only the two ranks may take it
    kClaimed = 3,   // being moved by the worker named in the word
    kLanded = 4,    // the bytes are in the destination rank's memory
    kFailed = 5,    // nobody could move them; the operation ends in an error
    kLink = 7,      // not a claim word just now: the free list of the arena runs through it
};

using ChunkWord = uint64_t;
constexpr uint64_t kGenerationMax = (uint64_t{1} << 40) - 1;
// Generations begin again at 1, as 0 is none. They are compared for equality alone.
constexpr uint64_t generation_after(uint64_t generation) {
    return generation % kGenerationMax + 1;
}

// generation 40 | worker 11 | incarnation 10 | state 3
constexpr ChunkWord chunk_word(uint64_t generation, ChunkState state, WorkerId worker = {}) {
    return generation << 24 | uint64_t{worker.index} << 13 | uint64_t{worker.incarnation} << 3 |
           static_cast<uint64_t>(state);
}
constexpr ChunkState chunk_state(ChunkWord w) {
    return static_cast<ChunkState>(w & 7);
}
constexpr uint64_t chunk_generation(ChunkWord w) {
    return w >> 24;
}
constexpr WorkerId chunk_worker(ChunkWord w) {
    return {static_cast<uint16_t>(w >> 13 & 0x7ff), static_cast<uint16_t>(w >> 3 & 0x3ff)};
}
// Landed or failed: nothing of this chunk is in flight or will ever be.
constexpr bool chunk_settled(ChunkWord w) {
    return chunk_state(w) == ChunkState::kLanded || chunk_state(w) == ChunkState::kFailed;
}

// Takes a free chunk of the given generation. Acquire: what was published before the word was set free is
// seen.
inline bool claim_chunk(Atomic<ChunkWord>& word, uint64_t generation, WorkerId worker) {
    ChunkWord seen = word.load(std::memory_order_acquire);
    if (chunk_generation(seen) != generation) return false;
    if (chunk_state(seen) != ChunkState::kFree &&
        !(chunk_state(seen) == ChunkState::kRankOnly && is_rank(worker)))
        return false;
    return word.compare_exchange_strong(seen, chunk_word(generation, ChunkState::kClaimed, worker),
                                        std::memory_order_acq_rel, std::memory_order_acquire);
}

// Ends one's own claim. The bytes are there before the word says so; and who looks afterwards whether that
// was the last, or whether anybody sleeps for it, sees what others have settled before they looked.
inline void settle_chunk(Atomic<ChunkWord>& word, uint64_t generation, ChunkState state) {
    word.exchange(chunk_word(generation, state), std::memory_order_seq_cst);
}

// Sets free what a worker held that the kernel says is gone. Never call it for one that may still run.
inline bool free_lost_claim(Atomic<ChunkWord>& word, WorkerId gone) {
    ChunkWord seen = word.load(std::memory_order_acquire);
    if (chunk_state(seen) != ChunkState::kClaimed || !(chunk_worker(seen) == gone)) return false;
    return word.compare_exchange_strong(seen, chunk_word(chunk_generation(seen), ChunkState::kFree),
                                        std::memory_order_acq_rel, std::memory_order_acquire);
}

}  // namespace longshore
