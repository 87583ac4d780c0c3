// From the caller's arguments (counts and displacements in elements, addresses) to spans in bytes. Sums never
// overflow: what does not fit is refused.
#include <string.h>

#include <algorithm>

#include "host/context.h"
#include "host/job_limits.h"

namespace longshore {
namespace {

// The caller's collectives, the engine's and the table's have the same numbers.
#define LONGSHORE_COLLECTIVE(NAME, Name, name, arguments, is_shared, bytes_known) +1
constexpr uint32_t kCollectivesOfTable =
#include "base/collectives.inc"
    ;
static_assert(kCollectives == kCollectivesOfTable && LS_COLLECTIVE_COUNT == kCollectivesOfTable);
enum class OfTable : uint8_t {
#define LONGSHORE_COLLECTIVE(NAME, Name, name, arguments, is_shared, bytes_known) k##Name,
#include "base/collectives.inc"
};
#define LONGSHORE_COLLECTIVE(NAME, Name, name, arguments, is_shared, bytes_known)                \
    static_assert(static_cast<int>(OfTable::k##Name) == static_cast<int>(Collective::k##Name) && \
                  static_cast<int>(OfTable::k##Name) == static_cast<int>(LS_##NAME));
#include "base/collectives.inc"

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
               Extent* extent, bool* full) {
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
        *full &= high == INT64_MIN || begin == high;
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

bool all_small(const std::vector<BlockSpan>& blocks, uint64_t eager_bytes) {
    uint64_t sum = 0;
    for (const BlockSpan& block : blocks) {
        if (block.bytes > eager_bytes) return false;
        sum += block.bytes;
    }
    return sum > 0 && sum <= kCopyBytesMax;
}

// Where everything of one rank goes while it is planned.
struct Planning {
    const ls_arguments& a;
    const CollectiveRules& rules;
    uint32_t rank, size;
    uint64_t eager_bytes;
    Plan* plan;
    OperationArguments* out;
    bool gives, takes;
};

bool plan_recv(const Planning& p) {
    auto* recv = static_cast<std::byte*>(p.a.recv);
    // In place, the one block that the root of a scatter takes is its own, and stays where it is.
    if (!p.takes || (p.a.in_place && p.rules.taken == Blocks::kOne)) return true;
    if (p.rules.by_vector && p.rules.taken == Blocks::kPerRank) {
        Extent received;
        if (!blocks_of(p.a.recv_vector, recv, p.size, &p.plan->recv_blocks, &received, &p.plan->recv_is_full))
            return false;
        p.plan->recv = const_cast<std::byte*>(received.base);
        p.plan->recv_bytes = received.bytes;
        return true;
    }
    p.plan->recv = recv;
    p.out->recv_block_bytes = p.a.recv_block_bytes;
    return multiply(p.a.recv_block_bytes, p.rules.taken == Blocks::kOne ? 1 : p.size, &p.plan->recv_bytes);
}

// One block; in place, it is where this rank receives its own.
void plan_one_sent(const Planning& p) {
    p.plan->send = static_cast<const std::byte*>(p.a.send);
    uint64_t bytes = p.a.send_block_bytes;
    if (p.a.collective == LS_BCAST) {
        p.plan->send = static_cast<const std::byte*>(p.a.recv);
        bytes = p.a.recv_block_bytes;
    } else if (p.a.in_place && !p.plan->recv_blocks.empty()) {
        p.plan->send = p.plan->recv + p.plan->recv_blocks[p.rank].offset;
        bytes = p.plan->recv_blocks[p.rank].bytes;
    } else if (p.a.in_place) {
        p.plan->send = p.plan->recv + p.rank * p.a.recv_block_bytes;
        bytes = p.a.recv_block_bytes;
    }
    p.out->send_block_bytes = p.plan->send_bytes = bytes;
    p.plan->copy_send = bytes > 0 && bytes <= p.eager_bytes;
}

// A block per rank. In place they come from the receive buffer, and are copied before others arrive there;
// but the root of a scatter has its send buffer all the same.
bool plan_blocks_sent(const Planning& p) {
    const bool from_recv = p.a.in_place && p.rules.taken == Blocks::kPerRank;
    const void* const send = from_recv ? p.a.recv : p.a.send;
    Plan& plan = *p.plan;
    if (!p.rules.by_vector) {
        const uint64_t bytes = from_recv ? p.a.recv_block_bytes : p.a.send_block_bytes;
        plan.send = static_cast<const std::byte*>(send);
        p.out->send_block_bytes = bytes;
        if (!multiply(bytes, p.size, &plan.send_bytes)) return false;
        plan.snapshot = from_recv && plan.send_bytes > 0;
        plan.copy_send =
            !from_recv && bytes <= p.eager_bytes && plan.send_bytes > 0 && plan.send_bytes <= kCopyBytesMax;
        return true;
    }
    Extent sent;
    if (!blocks_of(from_recv ? p.a.recv_vector : p.a.send_vector, send, p.size, &plan.send_blocks, &sent,
                   &plan.send_is_full))
        return false;
    plan.send = sent.base;
    plan.send_bytes = sent.bytes;
    if (from_recv) plan.send_blocks[p.rank].bytes = 0;
    plan.copy_send = !from_recv && all_small(plan.send_blocks, p.eager_bytes);
    if (from_recv || plan.copy_send) plan.send_bytes = pack(&plan.send_blocks, &plan.copy_from);
    plan.snapshot = from_recv && plan.send_bytes > 0;
    return true;
}

}  // namespace

namespace {

// The arrays of a vector that the caller gave, each of `size` numbers.
struct Numbers {
    const void* at[4];
    size_t bytes[4];

    Numbers(const ls_arguments& a, uint32_t size) {
        const ls_vector* vectors[2] = {&a.send_vector, &a.recv_vector};
        for (int i = 0; i < 4; ++i) {
            const ls_vector& v = *vectors[i / 2];
            at[i] = i % 2 == 0 ? v.counts : v.displacements;
            bytes[i] = at[i] == nullptr ? 0 : size * (v.is_64bit != 0 ? sizeof(int64_t) : sizeof(int32_t));
        }
    }
    size_t total() const { return bytes[0] + bytes[1] + bytes[2] + bytes[3]; }
};

bool same_vector(const ls_vector& a, const ls_vector& b) {
    return (a.counts == nullptr) == (b.counts == nullptr) && a.is_64bit == b.is_64bit &&
           a.element_bytes == b.element_bytes;
}

}  // namespace

void PlanKey::remember(const ls_arguments& a, uint64_t group_id, uint32_t size, uint64_t eager_bytes) {
    const Numbers numbers(a, size);
    numbers_.resize(numbers.total());
    std::byte* to = numbers_.data();
    for (int i = 0; i < 4; ++i) {
        if (numbers.bytes[i] != 0) memcpy(to, numbers.at[i], numbers.bytes[i]);
        to += numbers.bytes[i];
    }
    arguments_ = a;
    eager_bytes_ = eager_bytes;
    group_id_ = group_id;
}

bool PlanKey::matches(const ls_arguments& a, uint64_t group_id, uint32_t size, uint64_t eager_bytes) const {
    const ls_arguments& b = arguments_;
    if (group_id_ != group_id || eager_bytes_ != eager_bytes || a.collective != b.collective ||
        a.algorithm != b.algorithm || a.send != b.send || a.recv != b.recv || a.in_place != b.in_place ||
        a.root != b.root || a.send_block_bytes != b.send_block_bytes ||
        a.recv_block_bytes != b.recv_block_bytes || !same_vector(a.send_vector, b.send_vector) ||
        !same_vector(a.recv_vector, b.recv_vector))
        return false;
    const Numbers numbers(a, size);
    if (numbers.total() != numbers_.size()) return false;
    const std::byte* known = numbers_.data();
    for (int i = 0; i < 4; ++i) {
        if (numbers.bytes[i] != 0 && memcmp(known, numbers.at[i], numbers.bytes[i]) != 0) return false;
        known += numbers.bytes[i];
    }
    return true;
}

uint64_t pack(std::vector<BlockSpan>* blocks, std::vector<BlockSpan>* from) {
    *from = *blocks;
    uint64_t at = 0;
    for (BlockSpan& block : *blocks) {
        block.offset = at;
        at += block.bytes;
    }
    return at;
}

void copy_out(const Plan& plan, std::byte* to) {
    if (plan.copy_from.empty()) {
        memcpy(to, plan.send, plan.send_bytes);
        return;
    }
    for (size_t i = 0; i < plan.copy_from.size(); ++i) {
        if (plan.copy_from[i].bytes != 0)
            memcpy(to + plan.send_blocks[i].offset, plan.send + plan.copy_from[i].offset,
                   plan.copy_from[i].bytes);
    }
}

bool are_sound(const ls_arguments& a, uint32_t size) {
    return static_cast<uint32_t>(a.collective) < LS_COLLECTIVE_COUNT && a.algorithm >= LS_DIRECT &&
           a.algorithm <= LS_STAGED_HIERARCHICAL && a.root < size;
}

int make_plan(const ls_arguments& a, uint32_t rank, uint32_t size, uint64_t eager_bytes, Plan* plan,
              OperationArguments* out) {
    plan->send = plan->recv = nullptr;
    plan->send_bytes = plan->recv_bytes = 0;
    plan->copy_send = plan->snapshot = false;
    plan->send_is_full = plan->recv_is_full = true;
    plan->send_blocks.clear();
    plan->recv_blocks.clear();
    plan->copy_from.clear();
    *out = {};
    out->collective = static_cast<Collective>(a.collective);
    out->algorithm = static_cast<Algorithm>(a.algorithm);
    out->root = Rank{a.root};
    out->self_in_place = a.in_place != 0;
    const CollectiveRules& rules = rules_of(out->collective);
    const bool gives = rules.gives(Rank{rank}, out->root), takes = rules.takes(Rank{rank}, out->root);
    if (a.in_place && !(gives && takes)) return LS_ERR_ARGUMENT;
    const Planning planning{a, rules, rank, size, eager_bytes, plan, out, gives, takes};
    if (!plan_recv(planning)) return LS_ERR_ARGUMENT;
    if (gives && rules.given == Blocks::kOne) plan_one_sent(planning);
    if (gives && rules.given == Blocks::kPerRank && !plan_blocks_sent(planning)) return LS_ERR_ARGUMENT;
    return plan->send_bytes > INT64_MAX || plan->recv_bytes > INT64_MAX ? LS_ERR_ARGUMENT : LS_OK;
}

}  // namespace longshore
