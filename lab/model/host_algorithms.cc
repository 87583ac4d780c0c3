#include <algorithm>
#include <array>
#include <bit>

#include "model/host_mpi.h"

namespace longshore::timed {
namespace {

// The least number of doublings of 1 that reach `count`.
uint32_t doublings(uint32_t count) {
    return static_cast<uint32_t>(std::bit_width(count - 1));
}

bool always(const Job&) {
    return true;
}

uint32_t one_for_each_other(const Job& job) {
    return job.ranks() - 1;
}

uint32_t one(const Job&) {
    return 1;
}

// Pairwise exchange: in step k with the k-th neighbours on either side (R. Thakur et al., 2005).
void pairwise(const Job& job, uint32_t rank, uint32_t number, Round* out) {
    const uint32_t step = number + 1, ranks = job.ranks();
    out->sends.push_back({(rank + step) % ranks, job.block_bytes});
    out->receives.push_back({(rank + ranks - step) % ranks, job.block_bytes});
}

// All sends and receives at once.
void linear(const Job& job, uint32_t rank, uint32_t, Round* out) {
    for (uint32_t step = 0; step + 1 < job.ranks(); ++step) pairwise(job, rank, step, out);
}

// In each step a rank gives its right neighbour what it got from the left one in the step before.
void pass_on(const Job& job, uint32_t rank, uint64_t bytes, Round* out) {
    const uint32_t ranks = job.ranks();
    out->sends.push_back({(rank + 1) % ranks, bytes});
    out->receives.push_back({(rank + ranks - 1) % ranks, bytes});
}

void ring(const Job& job, uint32_t rank, uint32_t, Round* out) {
    pass_on(job, rank, job.block_bytes, out);
}

// J. Chen et al., 2005: neighbours exchange in turn to either side, from the second step on what they got in
// the step before, two blocks.
bool is_even(const Job& job) {
    return job.ranks() % 2 == 0;
}

uint32_t half(const Job& job) {
    return job.ranks() / 2;
}

void neighbour(const Job& job, uint32_t rank, uint32_t number, Round* out) {
    const uint32_t ranks = job.ranks();
    const bool to_right = (rank + number) % 2 == 0;
    const uint32_t peer = (rank + (to_right ? 1 : ranks - 1)) % ranks;
    const uint64_t bytes = (number == 0 ? 1 : 2) * job.block_bytes;
    out->sends.push_back({peer, bytes});
    out->receives.push_back({peer, bytes});
}

// J. Bruck et al., 1997: what a rank has doubles in each step.
uint32_t doubling_rounds(const Job& job) {
    return doublings(job.ranks());
}

void bruck(const Job& job, uint32_t rank, uint32_t number, Round* out) {
    const uint32_t ranks = job.ranks(), distance = 1u << number;
    const uint64_t bytes = std::min(distance, ranks - distance) * job.block_bytes;
    out->sends.push_back({(rank + ranks - distance) % ranks, bytes});
    out->receives.push_back({(rank + distance) % ranks, bytes});
}

bool is_power_of_two(const Job& job) {
    return std::has_single_bit(job.ranks());
}

void recursive_doubling(const Job& job, uint32_t rank, uint32_t number, Round* out) {
    const uint32_t distance = 1u << number;
    const Message message{rank ^ distance, distance * job.block_bytes};
    out->sends.push_back(message);
    out->receives.push_back(message);
}

// A node's first rank gathers the blocks of its node, the first ranks pass them around a ring of nodes, and
// each gives all of them to its node.
uint32_t leaders_rounds(const Job& job) {
    return job.nodes + 1;
}

void leaders(const Job& job, uint32_t rank, uint32_t number, Round* out) {
    const uint32_t node = job.node_of(rank), leader = job.rank_at(node, 0);
    const bool gathers = number == 0, gives = number == job.nodes;
    if (!gathers && !gives) {
        if (rank != leader) return;
        const uint64_t bytes = job.ranks_per_node * job.block_bytes;
        out->sends.push_back({job.rank_at((node + 1) % job.nodes, 0), bytes});
        out->receives.push_back({job.rank_at((node + job.nodes - 1) % job.nodes, 0), bytes});
        return;
    }
    const uint64_t bytes = gathers ? job.block_bytes : job.ranks() * job.block_bytes;
    if (rank != leader) {
        (gathers ? out->sends : out->receives).push_back({leader, bytes});
        return;
    }
    for (uint32_t l = 1; l < job.ranks_per_node; ++l)
        (gathers ? out->receives : out->sends).push_back({job.rank_at(node, l), bytes});
}

// Of a tree in which who has it doubles in each step: the place that `place` gives to, or gets from.
void double_up(uint32_t count, uint32_t place, uint32_t number, uint64_t bytes, Round* out) {
    const uint32_t have = 1u << number;
    if (place < have && place + have < count) out->sends.push_back({place + have, bytes});
    if (place >= have && place < 2 * have) out->receives.push_back({place - have, bytes});
}

void binomial(const Job& job, uint32_t rank, uint32_t number, Round* out) {
    double_up(job.ranks(), rank, number, job.block_bytes, out);
}

// Such a tree of nodes, then one in each node.
uint32_t node_binomial_rounds(const Job& job) {
    return doublings(job.nodes) + doublings(job.ranks_per_node);
}

void node_binomial(const Job& job, uint32_t rank, uint32_t number, Round* out) {
    const uint32_t node = job.node_of(rank), local = job.local_of(rank), between = doublings(job.nodes);
    const bool in_node = number >= between;
    if (!in_node && local != 0) return;
    if (in_node) {
        double_up(job.ranks_per_node, local, number - between, job.block_bytes, out);
    } else {
        double_up(job.nodes, node, number, job.block_bytes, out);
    }
    for (auto* messages : {&out->sends, &out->receives})
        for (Message& message : *messages)
            message.peer = in_node ? job.rank_at(node, message.peer) : job.rank_at(message.peer, 0);
}

// The block is scattered over the ranks down a tree, then its parts go around a ring (R. Thakur et al.,
// 2005).
uint32_t scatter_ring_rounds(const Job& job) {
    return doublings(job.ranks()) + job.ranks() - 1;
}

void scatter_ring(const Job& job, uint32_t rank, uint32_t number, Round* out) {
    const uint32_t ranks = job.ranks(), scatters = doublings(ranks);
    const uint64_t part = (job.block_bytes + ranks - 1) / ranks;
    if (number >= scatters) {
        pass_on(job, rank, part, out);
        return;
    }
    const uint32_t distance = 1u << (scatters - 1 - number);
    if (rank % (2 * distance) == 0 && rank + distance < ranks)
        out->sends.push_back({rank + distance, std::min(distance, ranks - rank - distance) * part});
    if (rank % (2 * distance) == distance)
        out->receives.push_back({rank - distance, std::min(distance, ranks - rank) * part});
}

// Ranks lie in a box that is as near to a cube as their number allows, and exchange a block with each of at
// most six neighbours in it.
std::array<uint32_t, 3> box_of(uint32_t ranks) {
    std::array<uint32_t, 3> best{ranks, 1, 1};
    for (uint32_t x = 1; x <= ranks; ++x) {
        if (ranks % x != 0) continue;
        for (uint32_t y = 1; y <= ranks / x; ++y) {
            if (ranks / x % y != 0) continue;
            const uint32_t z = ranks / x / y;
            if (x + y + z < best[0] + best[1] + best[2]) best = {x, y, z};
        }
    }
    return best;
}

void halo(const Job& job, uint32_t rank, uint32_t, Round* out) {
    uint32_t stride = 1;
    for (const uint32_t side : box_of(job.ranks())) {
        const uint32_t at = rank / stride % side;
        for (const bool up : {false, true}) {
            if (up ? at + 1 == side : at == 0) continue;
            const Message message{up ? rank + stride : rank - stride, job.block_bytes};
            out->sends.push_back(message);
            out->receives.push_back(message);
        }
        stride *= side;
    }
}

// An allreduce by dissemination: in each step a rank gives all that it has to the one that is twice as far
// on as in the step before (D. Hensgen et al., 1988).
void dissemination(const Job& job, uint32_t rank, uint32_t number, Round* out) {
    const uint32_t ranks = job.ranks(), distance = 1u << number;
    out->sends.push_back({(rank + distance) % ranks, job.block_bytes});
    out->receives.push_back({(rank + ranks - distance) % ranks, job.block_bytes});
}

using Carries = HostAlgorithm::Carries;
constexpr HostAlgorithm kAlgorithms[] = {
    {"pairwise", "alltoall(v): one partner after the other, P - 1 steps", Carries::kAlltoall, always,
     one_for_each_other, pairwise},
    {"linear", "alltoall(v): all sends and receives at once", Carries::kAlltoall, always, one, linear},
    {"ring", "allgather(v): P - 1 steps, each to the right neighbour in rank order", Carries::kAllgather,
     always, one_for_each_other, ring},
    {"neighbour", "allgather(v): P / 2 steps, two blocks at a time; an even number of ranks",
     Carries::kAllgather, is_even, half, neighbour},
    {"bruck", "allgather(v): log P steps, what a rank has doubles", Carries::kAllgather, always,
     doubling_rounds, bruck},
    {"doubling", "allgather(v): log P exchanges; the ranks are a power of two", Carries::kAllgather,
     is_power_of_two, doubling_rounds, recursive_doubling},
    {"leaders", "allgather(v): gathered on each node, a ring of nodes, given to each rank",
     Carries::kAllgather, always, leaders_rounds, leaders},
    {"binomial", "bcast: down a tree of ranks, log P steps", Carries::kBcast, always, doubling_rounds,
     binomial},
    {"node-binomial", "bcast: down a tree of nodes, then one in each node", Carries::kBcast, always,
     node_binomial_rounds, node_binomial},
    {"scatter-ring", "bcast: scattered down a tree, then P - 1 steps of a ring", Carries::kBcast, always,
     scatter_ring_rounds, scatter_ring},
    {"halo", "a block exchanged with each neighbour in a box of ranks", Carries::kStep, always, one, halo},
    {"dissemination", "allreduce: log P steps", Carries::kStep, always, doubling_rounds, dissemination},
};

HostAlgorithm::Carries family_of(Collective collective) {
    if (collective == Collective::kBcast) return Carries::kBcast;
    return is_shared(collective) ? Carries::kAllgather : Carries::kAlltoall;
}

}  // namespace

std::span<const HostAlgorithm> host_algorithms() {
    return kAlgorithms;
}

const HostAlgorithm* find_host_algorithm(const std::string& name) {
    for (const HostAlgorithm& algorithm : kAlgorithms)
        if (name == algorithm.name) return &algorithm;
    return nullptr;
}

bool fits(const HostAlgorithm& algorithm, Collective collective) {
    return algorithm.carries == family_of(collective);
}

}  // namespace longshore::timed
