// A program whose steps are exchanges and computing: halos, allgathers that some ranks come late to,
// alltoalls and an allreduce, as in examples/tddft. Each exchange is simulated by itself, with the ranks
// entering it when they are done with the one before and have computed; so what comes of late ranks goes on
// from exchange to exchange, and what two exchanges would take from each other where some ranks are in the
// next one already does not.
#pragma once

#include "model/host_mpi.h"

namespace longshore::timed {

struct StepLoop {
    // Nodes, ranks, machine and how the product is set up. Its collective, block and iterations are not used.
    Job job;
    uint32_t steps = 1;
    // Of each step: so many of each, with so much for each peer, and one allreduce.
    uint32_t halos = 4, allgathers = 1, alltoalls = 2;
    uint64_t halo_bytes = 0, allgather_bytes = 0, alltoall_bytes = 0, allreduce_bytes = 64;
    uint64_t allgather_chunk_bytes = 64 * 1024;  // pieces in which the product carries an allgather
    Time compute = 0;                            // of a rank in a step, on average
    uint64_t imbalance = 0;   // per million: a part of it takes so much more or less, at most
    uint64_t late = 0;        // per million: of all ranks and allgathers, so many come late ...
    uint64_t late_nodes = 0;  // per million: ... so many of those with all of their node
    Time late_least = 0, late_most = 0;
    uint64_t seed = 1;
};

enum class StepPart : uint8_t { kHalo, kAllgather, kAlltoall, kAllreduce, kLate, kCompute };
constexpr size_t kStepParts = 6;
const char* name_of(StepPart part);

// Of a step; means over ranks and steps.
struct StepTimes {
    std::array<Time, kStepParts> parts{};
    Time wall = 0;
    Time first_alltoall = 0;   // the one that follows an allgather at once
    Time allgather_alone = 0;  // of one, after its last rank has entered
    Time exits = 0;            // between the first and the last rank that leave an allgather
    uint64_t bytes_between_nodes = 0;
    Time in_mpi() const;
};

// "" or why it cannot be run.
std::string refusal(const StepLoop& loop);

// With the host's MPI alone, or, without algorithms, with its allgathers and alltoalls carried by the
// product.
struct StepContender {
    const HostAlgorithm* allgather = nullptr;
    const HostAlgorithm* alltoall = nullptr;
};
// About how many seconds of a core all steps take, and bytes of memory the largest of their exchanges.
double seconds_expected(const StepLoop& loop, const StepContender& host);
uint64_t memory_needed(const StepLoop& loop, const StepContender& host);

// `watcher` hears of the progress of all steps.
StepTimes simulate_steps(const StepLoop& loop, const StepContender& host, Watcher* watcher = nullptr);

}  // namespace longshore::timed
