// From the caller's arguments (counts and displacements in elements, addresses) to spans in bytes. Sums never
// overflow: what does not fit is refused.
#include <algorithm>

#include "host/context.h"

namespace longshore {
namespace {

constexpr uint64_t kCopyBytesMax = 64 * 1024;

int64_t element(const void* values, bool is_64bit, uint32_t i) {
    return is_64bit ? static_cast<const int64_t*>(values)[i] : static_cast<const int32_t*>(values)[i];
}

bool multiply(uint64_t a, uint64_t b, uint64_t* out) {
    return !__builtin_mul_overflow(a, b, out) && *out <= INT64_MAX;
}

struct Extent {
    const std::byte* base = nullptr;
    uint64_t bytes = 0;
};

// The blocks of a v-collective: the smallest span that holds them, and where they lie in it.
bool blocks_of(const ls_vector& v, const void* buffer, uint32_t size, std::vector<BlockSpan>* blocks,
               Extent* extent) {
    const auto base = static_cast<int64_t>(reinterpret_cast<uintptr_t>(buffer));
    int64_t low = INT64_MAX, high = INT64_MIN;
    blocks->assign(size, BlockSpan{});
    for (uint32_t i = 0; i < size; ++i) {
        const int64_t count = element(v.counts, v.is_64bit != 0, i);
        uint64_t bytes = 0;
        int64_t begin = 0, end = 0;
        if (count < 0 || !multiply(static_cast<uint64_t>(count), v.element_bytes, &bytes)) return false;
        if (bytes == 0) continue;
        if (__builtin_mul_overflow(element(v.displacements, v.is_64bit != 0, i),
                                   static_cast<int64_t>(v.element_bytes), &begin) ||
            __builtin_add_overflow(begin, base, &begin) || begin < 0 ||
            __builtin_add_overflow(begin, static_cast<int64_t>(bytes), &end))
            return false;
        (*blocks)[i] = {static_cast<uint64_t>(begin), bytes};
        low = std::min(low, begin);
        high = std::max(high, end);
    }
    if (low > high) return true;
    for (BlockSpan& block : *blocks) {
        if (block.bytes != 0) block.offset -= static_cast<uint64_t>(low);
    }
    *extent = {reinterpret_cast<const std::byte*>(low), static_cast<uint64_t>(high - low)};
    return true;
}

// Packs blocks one after another: where they come from, and where they are in the copy.
uint64_t pack(std::vector<BlockSpan>* blocks, std::vector<BlockSpan>* from) {
    *from = *blocks;
    uint64_t at = 0;
    for (BlockSpan& block : *blocks) {
        block.offset = at;
        at += block.bytes;
    }
    return at;
}

bool all_small(const std::vector<BlockSpan>& blocks, uint64_t eager_bytes) {
    uint64_t sum = 0;
    for (const BlockSpan& block : blocks) {
        if (block.bytes > eager_bytes) return false;
        sum += block.bytes;
    }
    return sum > 0 && sum <= kCopyBytesMax;
}

}  // namespace

int make_plan(const ls_arguments& a, uint32_t rank, uint32_t size, uint64_t eager_bytes, Plan* plan,
              OperationArguments* out) {
    const auto* send = static_cast<const std::byte*>(a.send);
    auto* recv = static_cast<std::byte*>(a.recv);
    uint64_t total = 0;
    Extent sent, received;
    plan->send = plan->recv = nullptr;
    plan->send_bytes = plan->recv_bytes = 0;
    plan->copy_send = plan->snapshot = false;
    plan->send_blocks.clear();
    plan->recv_blocks.clear();
    plan->copy_from.clear();
    *out = {};
    out->collective = static_cast<Collective>(a.collective);
    out->algorithm = static_cast<Algorithm>(a.algorithm);
    out->self_in_place = a.in_place != 0;
    switch (a.collective) {
        case LS_ALLTOALL:
            if (!multiply(a.recv_block_bytes, size, &plan->recv_bytes)) return LS_ERR_ARGUMENT;
            out->recv_block_bytes = a.recv_block_bytes;
            out->send_block_bytes = a.in_place ? a.recv_block_bytes : a.send_block_bytes;
            if (!multiply(out->send_block_bytes, size, &total)) return LS_ERR_ARGUMENT;
            plan->send = a.in_place ? recv : send;
            plan->send_bytes = total;
            plan->recv = recv;
            plan->snapshot = a.in_place && total > 0;
            plan->copy_send =
                !a.in_place && out->send_block_bytes <= eager_bytes && total > 0 && total <= kCopyBytesMax;
            break;
        case LS_ALLTOALLV:
            if (!blocks_of(a.recv_vector, a.recv, size, &plan->recv_blocks, &received) ||
                !blocks_of(a.in_place ? a.recv_vector : a.send_vector, a.in_place ? a.recv : a.send, size,
                           &plan->send_blocks, &sent))
                return LS_ERR_ARGUMENT;
            plan->send = sent.base;
            plan->send_bytes = sent.bytes;
            plan->recv = const_cast<std::byte*>(received.base);
            plan->recv_bytes = received.bytes;
            if (a.in_place) plan->send_blocks[rank].bytes = 0;
            plan->snapshot = a.in_place != 0;
            plan->copy_send = !a.in_place && all_small(plan->send_blocks, eager_bytes);
            if (plan->snapshot || plan->copy_send)
                plan->send_bytes = pack(&plan->send_blocks, &plan->copy_from);
            plan->snapshot = plan->snapshot && plan->send_bytes > 0;
            break;
        case LS_ALLGATHER:
            if (!multiply(a.recv_block_bytes, size, &plan->recv_bytes)) return LS_ERR_ARGUMENT;
            plan->recv = recv;
            out->recv_block_bytes = a.recv_block_bytes;
            out->send_block_bytes = plan->send_bytes = a.in_place ? a.recv_block_bytes : a.send_block_bytes;
            plan->send = a.in_place ? recv + rank * a.recv_block_bytes : send;
            break;
        case LS_ALLGATHERV:
            if (!blocks_of(a.recv_vector, a.recv, size, &plan->recv_blocks, &received))
                return LS_ERR_ARGUMENT;
            plan->recv = const_cast<std::byte*>(received.base);
            plan->recv_bytes = received.bytes;
            plan->send = a.in_place ? received.base + plan->recv_blocks[rank].offset : send;
            out->send_block_bytes = plan->send_bytes =
                a.in_place ? plan->recv_blocks[rank].bytes : a.send_block_bytes;
            break;
        case LS_BCAST:
            out->root = Rank{a.root};
            plan->recv = recv;
            plan->recv_bytes = out->recv_block_bytes = a.recv_block_bytes;
            out->self_in_place = a.root == rank;
            if (a.root != rank) break;
            plan->send = recv;
            plan->send_bytes = out->send_block_bytes = a.recv_block_bytes;
            break;
    }
    if (a.collective >= LS_ALLGATHER && plan->send_bytes > 0 && plan->send_bytes <= eager_bytes)
        plan->copy_send = true;
    if (plan->send_bytes > INT64_MAX || plan->recv_bytes > INT64_MAX) return LS_ERR_ARGUMENT;
    return LS_OK;
}

}  // namespace longshore
