#include "bench/exchange.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <new>

namespace longshore::bench {

namespace {

constexpr std::uint8_t kGuard = 0xa5;
constexpr std::uint8_t kPoison = 0x5b;
constexpr std::size_t kPage = 4096;
constexpr int kHeapBlockMax = 32 << 20;  // the threshold that malloc's own adjustment ends at
constexpr int kToAll = -1;               // destination of a block that goes to everyone

std::uint64_t mix(std::uint64_t x) {  // splitmix64
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// The bytes of a block depend on its source, destination, iteration and the place in the block.
struct BlockPattern {
    std::uint64_t base;
    BlockPattern(int source, int destination, std::uint64_t iteration)
        : base(mix(mix(mix(std::uint64_t(source)) + std::uint64_t(destination + 1)) + iteration)) {}
    std::uint64_t word(std::size_t index) const {
        const std::uint64_t x = base + index * 0x9e3779b97f4a7c15u;
        return x ^ (x >> 29);
    }
};

void write_block(std::uint8_t* to, std::size_t bytes, const BlockPattern& pattern) {
    for (std::size_t i = 0; i < bytes; i += 8) {
        const std::uint64_t word = pattern.word(i / 8);
        std::memcpy(to + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

// The first wrong byte's offset, or `bytes`.
std::size_t first_difference(const std::uint8_t* block, std::size_t bytes, const BlockPattern& pattern) {
    for (std::size_t i = 0; i < bytes; i += 8) {
        const std::uint64_t word = pattern.word(i / 8);
        const std::size_t length = bytes - i < 8 ? bytes - i : 8;
        if (std::memcmp(block + i, &word, length) == 0) continue;
        for (std::size_t k = 0; k < length; ++k)
            if (block[i + k] != reinterpret_cast<const std::uint8_t*>(&word)[k]) return i + k;
    }
    return bytes;
}

// Blocks to each rank differ.
bool is_to_each(Pattern pattern) {
    return pattern == Pattern::kEachToEach || pattern == Pattern::kOneToEach;
}

// From ranks 0, 1, ...
int blocks_received(Pattern pattern, int rank, int ranks) {
    switch (pattern) {
        case Pattern::kEachToEach:
        case Pattern::kEachToAll:
            return ranks;
        case Pattern::kOneToAll:
        case Pattern::kOneToEach:
            return 1;
        case Pattern::kEachToOne:
            break;
    }
    return rank == 0 ? ranks : 0;
}

std::size_t send_bytes(Pattern pattern, std::size_t bytes, int ranks) {
    return is_to_each(pattern) ? bytes * std::size_t(ranks) : bytes;
}

std::size_t receive_bytes(Pattern pattern, std::size_t bytes, int rank, int ranks) {
    return blocks_received(pattern, rank, ranks) == ranks ? bytes * std::size_t(ranks) : bytes;
}

}  // namespace

// By malloc, as most programs take their memory.
GuardedBytes::GuardedBytes(std::size_t bytes, std::uint8_t* place) : begin_(place), bytes_(bytes) {
    if (!begin_) {
        heap_.reset(static_cast<std::uint8_t*>(std::malloc(space_for(bytes) + kPage)));
        if (!heap_) throw std::bad_alloc();
        const auto address = reinterpret_cast<std::uintptr_t>(heap_.get());
        begin_ = heap_.get() + (kPage - address % kPage) % kPage;
    }
    std::memset(begin_, kGuard, space_for(bytes));
}

std::size_t GuardedBytes::space_for(std::size_t bytes) {
    return (bytes + 2 * kGuardBytes + kPage - 1) / kPage * kPage;
}

void GuardedBytes::Free::operator()(void* p) const {
    std::free(p);
}

bool GuardedBytes::guards_untouched() const {
    for (std::size_t i = 0; i < kGuardBytes; ++i)
        if (begin_[i] != kGuard || data()[bytes_ + i] != kGuard) return false;
    return true;
}

bool Exchange::fits(std::size_t bytes, int ranks) {
    return bytes * std::size_t(ranks) <= INT_MAX;
}

Exchange::Exchange(const Collective& collective, std::size_t bytes, int rank, int ranks, int buffers,
                   MPI_Comm comm)
    : Exchange(collective, bytes, rank, ranks, buffers, comm, nullptr) {}

Exchange::Exchange(const Collective& collective, std::size_t bytes, int rank, int ranks, int buffers,
                   MPI_Comm comm, std::uint8_t* place)
    : rank_(rank), ranks_(ranks), collective_(collective), bytes_(bytes), comm_(comm) {
    for (int peer = 0; peer < ranks; ++peer) {
        counts_.push_back(int(bytes));
        displacements_.push_back(int(bytes) * peer);
    }
    for (int i = 0; i < buffers; ++i) {
        pairs_.push_back(make_pair(place));
        if (place) place += pair_space(collective, bytes, rank, ranks);
    }
}

Exchange::Pair Exchange::make_pair(std::uint8_t* place) const {
    const std::size_t sent = send_bytes(collective_.pattern, bytes_, ranks_);
    const std::size_t received = receive_bytes(collective_.pattern, bytes_, rank_, ranks_);
    std::uint8_t* receive_place = place ? place + GuardedBytes::space_for(sent) : nullptr;
    return {GuardedBytes(sent, place), GuardedBytes(received, receive_place)};
}

void keep_heap_settings() {
    mallopt(M_MMAP_THRESHOLD, kHeapBlockMax);
    mallopt(M_TRIM_THRESHOLD, 2 * kHeapBlockMax);
}

void Exchange::renew(int buffer) {
    { const Pair old = std::move(pairs_[std::size_t(buffer)]); }
    // Pages of their own from the system, given back when freed. Only here: what the MPI allocates meanwhile
    // is not to suffer.
    mallopt(M_MMAP_THRESHOLD, int(kPage));
    pairs_[std::size_t(buffer)] = make_pair(nullptr);
    mallopt(M_MMAP_THRESHOLD, kHeapBlockMax);
}

void Exchange::run(const Calls& calls, int buffer) {
    MPI_Request request = start(calls, buffer);
    if (request != MPI_REQUEST_NULL) calls.wait(&request, MPI_STATUS_IGNORE);
}

std::size_t Exchange::pair_space(const Collective& collective, std::size_t bytes, int rank, int ranks) {
    return GuardedBytes::space_for(send_bytes(collective.pattern, bytes, ranks)) +
           GuardedBytes::space_for(receive_bytes(collective.pattern, bytes, rank, ranks));
}

void Exchange::keep_only_pairs_with(int rank, bool root_only) {
    for (int peer = 0; peer < ranks_; ++peer) {
        const bool touches = (rank_ == rank) != (peer == rank);
        const bool root = rank_ == 0 || peer == 0;
        if (!touches || (root_only && !root)) counts_[peer] = 0;
    }
}

MPI_Request Exchange::start(const Calls& calls, int buffer) {
    Pair& pair = pairs_[buffer];
    MPI_Request request = MPI_REQUEST_NULL;
    const Arguments arguments = {pair.send.data(),
                                 pair.receive.data(),
                                 int(bytes_),
                                 counts_.data(),
                                 displacements_.data(),
                                 comm_,
                                 rank_};
    collective_.call(calls, arguments, &request);
    return request;
}

void Exchange::fill(int buffer, std::uint64_t iteration) {
    Pair& pair = pairs_[buffer];
    std::memset(pair.receive.data(), kPoison, pair.receive.size());
    switch (collective_.pattern) {
        case Pattern::kEachToEach:
        case Pattern::kOneToEach:
            for (int to = 0; to < ranks_; ++to)
                write_block(pair.send.data() + bytes_ * std::size_t(to), bytes_, {rank_, to, iteration});
            break;
        case Pattern::kEachToAll:
        case Pattern::kEachToOne:
            write_block(pair.send.data(), bytes_, {rank_, kToAll, iteration});
            break;
        case Pattern::kOneToAll:
            if (rank_ == 0) write_block(pair.receive.data(), bytes_, {0, kToAll, iteration});
            break;
    }
}

std::uint64_t Exchange::copy_own(int buffer) {
    const Pair& pair = pairs_[std::size_t(buffer)];
    const std::size_t bytes = std::min(pair.send.size(), pair.receive.size());
    std::memcpy(pair.receive.data(), pair.send.data(), bytes);
    return bytes;
}

std::optional<std::string> Exchange::check(int buffer, std::uint64_t iteration) const {
    const Pair& pair = pairs_[buffer];
    for (int from = 0; from < blocks_received(collective_.pattern, rank_, ranks_); ++from) {
        const BlockPattern pattern(from, is_to_each(collective_.pattern) ? rank_ : kToAll, iteration);
        const std::uint8_t* block = pair.receive.data() + bytes_ * std::size_t(from);
        const std::size_t at = first_difference(block, bytes_, pattern);
        if (at == bytes_) continue;
        const std::uint64_t word = pattern.word(at / 8);
        return fmt::format("rank {}: block from rank {}, byte {} of {} is {:#04x}, should be {:#04x}{}",
                           rank_, from, at, bytes_, block[at],
                           reinterpret_cast<const std::uint8_t*>(&word)[at % 8],
                           block[at] == kPoison ? " (never written?)" : "");
    }
    if (blocks_received(collective_.pattern, rank_, ranks_) == 0 && bytes_ != 0 &&
        (pair.receive.data()[0] != kPoison || pair.receive.data()[bytes_ - 1] != kPoison))
        return fmt::format("rank {}: something arrived that is not for it", rank_);
    if (!pair.receive.guards_untouched())
        return fmt::format("rank {}: bytes outside the receive buffer were changed", rank_);
    if (!pair.send.guards_untouched())
        return fmt::format("rank {}: bytes outside the send buffer were changed", rank_);
    return std::nullopt;
}

std::uint64_t Exchange::bytes_from_others() const {
    std::uint64_t total = 0;
    for (int from = 0; from < blocks_received(collective_.pattern, rank_, ranks_); ++from)
        if (from != rank_) total += std::uint64_t(counts_[from]);
    return total;
}

}  // namespace longshore::bench
