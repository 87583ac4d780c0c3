#include "sim/timed/host_mpi.h"

namespace longshore::timed {
namespace {

uint32_t one_for_each_other(uint32_t ranks) {
    return ranks - 1;
}

uint32_t one(uint32_t) {
    return 1;
}

// Pairwise exchange: in step k with the k-th neighbours on either side (R. Thakur et al., 2005).
void pairwise(uint32_t ranks, uint32_t rank, uint32_t number, uint64_t bytes, Round* out) {
    const uint32_t step = number + 1;
    out->sends.push_back({(rank + step) % ranks, bytes});
    out->receives.push_back({(rank + ranks - step) % ranks, bytes});
}

// All sends and receives at once.
void linear(uint32_t ranks, uint32_t rank, uint32_t, uint64_t bytes, Round* out) {
    for (uint32_t step = 0; step + 1 < ranks; ++step) pairwise(ranks, rank, step, bytes, out);
}

// In each step a rank gives its right neighbour what it got from the left one in the step before.
void ring(uint32_t ranks, uint32_t rank, uint32_t, uint64_t bytes, Round* out) {
    out->sends.push_back({(rank + 1) % ranks, bytes});
    out->receives.push_back({(rank + ranks - 1) % ranks, bytes});
}

constexpr HostAlgorithm kAlgorithms[] = {
    {"pairwise", "alltoall(v): one partner after the other, P - 1 steps", false, one_for_each_other,
     pairwise},
    {"linear", "alltoall(v): all sends and receives at once", false, one, linear},
    {"ring", "allgather(v): P - 1 steps, each to the right neighbour in rank order", true, one_for_each_other,
     ring},
};

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
    switch (collective) {
        case Collective::kAlltoall:
        case Collective::kAlltoallv:
            return !algorithm.shares;
        case Collective::kAllgather:
        case Collective::kAllgatherv:
            return algorithm.shares;
        default:
            return false;
    }
}

}  // namespace longshore::timed
