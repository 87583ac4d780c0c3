// DPU-Bench's patterns (dpu_bench/plan.h) on a machine that a file describes: hosts that move the blocks of a
// collective themselves, and workers on DPUs that do it for them through memory of their own.
#pragma once

#include <string>

#include "dpu_bench/plan.h"
#include "model/need.h"
#include "model/network.h"

namespace longshore::timed {
struct Machine;
}

namespace longshore::tools {

struct StagedJob {
    dpu_bench::Shape shape;
    int nodes = 1;
    dpu_bench::Pattern pattern = dpu_bench::Pattern::kBcast;
    dpu_bench::Assignment assignment = dpu_bench::Assignment::kCyclic;
    size_t bytes = 0;
    uint64_t seed = 1;
};

struct StagedTimes {
    timed::Time reference = 0, communication = 0;  // of the slowest host alone, of the slowest worker
    // The paper's formula; hosts compute for as long as the reference took.
    double efficiency() const;
};

// Why the job cannot be on that machine, or "".
std::string refusal(const StagedJob& job, const timed::Machine& machine);

// About what both forms take.
Need need_of(const StagedJob& job);

// Both forms once, from a moment at which all are there.
StagedTimes simulate_staged(const StagedJob& job, const timed::Machine& machine);

}  // namespace longshore::tools
