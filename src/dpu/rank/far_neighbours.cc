#include "dpu/rank/far_neighbours.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "base/prng.h"

namespace longshore {
namespace {

bool read_memory(uint64_t pid, uint64_t address, void* to, uint64_t bytes) {
    constexpr uint64_t kAtOnceMax = uint64_t{1} << 30;
    auto* out = static_cast<std::byte*>(to);
    while (bytes != 0) {
        const iovec local{out, std::min(bytes, kAtOnceMax)};
        const iovec remote{reinterpret_cast<void*>(address), local.iov_len};
        const ssize_t got = process_vm_readv(static_cast<pid_t>(pid), &local, 1, &remote, 1, 0);
        if (got <= 0) return false;
        out += got;
        address += static_cast<uint64_t>(got);
        bytes -= static_cast<uint64_t>(got);
    }
    return true;
}

}  // namespace

FarNeighbours::Identity FarNeighbours::identity(const ls_context& c) {
    const auto pid = static_cast<uint64_t>(getpid());
    const uint64_t word = mix64(now_ns() ^ pid) | 1;  // not 0
    word_.store(word, std::memory_order_relaxed);
    return {pid, reinterpret_cast<uint64_t>(c.options.shared.base), c.options.shared.bytes,
            reinterpret_cast<uint64_t>(&word_), word};
}

const FarNeighbours::Neighbour* FarNeighbours::find(uint32_t rank) const {
    // They were added in the order of their ranks.
    const auto at = std::lower_bound(neighbours_.begin(), neighbours_.end(), rank,
                                     [](const Neighbour& n, uint32_t wanted) { return n.rank < wanted; });
    return at != neighbours_.end() && at->rank == rank ? &*at : nullptr;
}

bool FarNeighbours::holds(const Neighbour& neighbour) {
    uint64_t word = 0;
    return read_memory(neighbour.identity.pid, neighbour.identity.word_address, &word, sizeof word) &&
           word == neighbour.identity.word;
}

bool FarNeighbours::probe() const {
    return std::all_of(neighbours_.begin(), neighbours_.end(),
                       [](const Neighbour& n) { return n.identity.heap != 0 && holds(n); });
}

bool FarNeighbours::has(uint32_t rank, uint64_t from, uint64_t bytes) const {
    const Neighbour* const n = find(rank);
    return n != nullptr && from <= n->identity.heap_bytes && bytes <= n->identity.heap_bytes - from;
}

bool FarNeighbours::copy(uint32_t rank, uint64_t from, std::byte* to, uint64_t bytes) const {
    const Neighbour& n = *find(rank);
    if (n.identity.word_address == reinterpret_cast<uint64_t>(&word_) &&
        n.identity.pid == static_cast<uint64_t>(getpid())) {
        memcpy(to, reinterpret_cast<const std::byte*>(n.identity.heap) + from, bytes);
        return true;
    }
    if (!read_memory(n.identity.pid, n.identity.heap + from, to, bytes)) return false;
    // The word is read after the bytes: whoever has written others there had withdrawn it before.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return holds(n);
}

void FarNeighbours::withdraw() {
    word_.store(0, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace longshore
