// What the timed simulator's shortcuts cost on jobs that are too large for every day: one node in the place
// of all, and links that serve one transfer after the other.
#include <gtest/gtest.h>

#include "model/host_mpi.h"
#include "model/machine_file.h"

namespace longshore::timed {
namespace {

Job job_of(uint32_t nodes, uint32_t ranks, Collective collective) {
    Job job;
    EXPECT_EQ(read_machine(LONGSHORE_MACHINES "/mpcdf-bf3.toml", &job.machine), "");
    job.nodes = nodes, job.ranks_per_node = ranks, job.services = 4;
    job.collective = collective;
    job.warm_up = 0, job.iterations = 1;
    return job;
}

TEST(TimedLarge, AMirrored32By32TakesAsLongAsAllNodes) {
    for (const Collective collective :
         {Collective::kAlltoallv, Collective::kAllgatherv, Collective::kBcast}) {
        Job job = job_of(32, 32, collective);
        job.machine.jitter_entry = job.machine.jitter_cost = 0;
        const auto all = static_cast<double>(simulate_offloaded(job).latency.mean);
        job.mirrored = true;
        EXPECT_NEAR(static_cast<double>(simulate_offloaded(job).latency.mean) / all, 1, 0.05)
            << rules_of(collective).name;
    }
}

// Where readers jam behind each other a queue lets the first of them go on and a shared rate holds them all:
// docs/simulation.md says by how much, and takes FIFO times of such jobs for lower bounds.
TEST(TimedLarge, MaxMinSharingTakesLongerWhereReadersJam) {
    for (const uint32_t reads : {64, 4}) {
        Job job = job_of(8, 8, Collective::kAlltoallv);
        job.reads_max = reads;
        job.warm_up = 1;
        const auto fifo = static_cast<double>(simulate_offloaded(job).latency.mean);
        job.sharing = Sharing::kMaxMin;
        const double longer = static_cast<double>(simulate_offloaded(job).latency.mean) / fifo;
        EXPECT_GT(longer, 1.08) << reads;
        EXPECT_LT(longer, 1.45) << reads;
    }
}

}  // namespace
}  // namespace longshore::timed
