// Who is near whom on a machine: which service process serves which ranks of its node, and on which core it
// runs. Pure: what the machine looks like is told.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace longshore {

// Where a process is bound to, or what a CPU is a part of.
struct Seat {
    static constexpr uint32_t kAnywhere = UINT32_MAX;  // not bound to one; comes last in order
    uint32_t package = kAnywhere;
    uint32_t core = kAnywhere;  // within the package; CPUs of one core share it
    constexpr auto operator<=>(const Seat&) const = default;
};

// The service process of each rank of a node, `seats` by local rank: neighbours share one, and all have the
// same number of ranks, or one more. Who is not bound counts by local rank, behind those who are.
std::vector<uint16_t> share_ranks(std::span<const Seat> seats, uint32_t services);

struct SpareCpu {
    int cpu = -1;
    Seat seat;
};
// A CPU for each service process out of `spare`, or -1: rather one whose core nobody else uses than one
// beside a rank, then one in the package where most of its ranks are, then whichever comes first in `spare`.
std::vector<int> choose_cpus(std::span<const Seat> ranks, uint32_t services, std::span<const SpareCpu> spare);

}  // namespace longshore
