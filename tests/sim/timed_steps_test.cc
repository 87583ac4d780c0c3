// A step loop in the timed simulator: that its exchanges are those that are simulated by themselves, and what
// late ranks make of them.
#include <gtest/gtest.h>

#include "model/step_loop.h"
#include "timed_jobs.h"

namespace longshore::timed {
namespace {

StepLoop loop_on(uint32_t nodes, uint32_t ranks) {
    StepLoop loop;
    loop.job = job_on(ideal(), nodes, ranks, 1, Collective::kAlltoallv);
    loop.halo_bytes = loop.allgather_bytes = loop.alltoall_bytes = kBlock;
    return loop;
}

StepContender ring_and_pairwise() {
    return {find_host_algorithm("ring"), find_host_algorithm("pairwise")};
}

Time part(const StepTimes& times, StepPart which) {
    return times.parts[static_cast<size_t>(which)];
}

Time alone(const StepLoop& loop, Collective collective, const char* algorithm) {
    Job job = loop.job;
    job.collective = collective;
    job.block_bytes = kBlock;
    job.warm_up = 0, job.iterations = 1;
    return algorithm != nullptr ? host(job, algorithm).latency.mean : simulate_offloaded(job).latency.mean;
}

// Two ranks: both are always done at once, and each exchange takes what it takes alone.
TEST(TimedSteps, AStepIsTheSumOfItsExchanges) {
    StepLoop loop = loop_on(2, 1);
    loop.steps = 3;
    loop.compute = 50 * kMicrosecond;
    for (const bool offloaded : {false, true}) {
        const StepTimes times = simulate_steps(loop, offloaded ? StepContender{} : ring_and_pairwise());
        EXPECT_EQ(part(times, StepPart::kAllgather),
                  alone(loop, Collective::kAllgatherv, offloaded ? nullptr : "ring"));
        EXPECT_EQ(part(times, StepPart::kAlltoall),
                  2 * alone(loop, Collective::kAlltoall, offloaded ? nullptr : "pairwise"));
        EXPECT_EQ(part(times, StepPart::kCompute), loop.compute);
        EXPECT_EQ(part(times, StepPart::kLate), 0u);
        EXPECT_EQ(times.wall, times.in_mpi() + loop.compute);
        EXPECT_EQ(times.exits, 0u);
        EXPECT_EQ(times.allgather_alone, part(times, StepPart::kAllgather));
        EXPECT_EQ(2 * times.first_alltoall, part(times, StepPart::kAlltoall));
    }
}

// Of all steps; at least each exchange is heard of, as one step may take minutes.
TEST(TimedSteps, ProgressIsToldWithEachExchange) {
    struct Heard final : Watcher {
        std::vector<double> parts;
        void on_progress(double part) override { parts.push_back(part); }
    } heard;
    StepLoop loop = loop_on(2, 2);
    loop.steps = 2;
    simulate_steps(loop, {}, &heard);
    ASSERT_EQ(heard.parts.size(), 2u * (loop.halos + loop.allgathers + loop.alltoalls + 1));
    EXPECT_EQ(heard.parts.front(), 0);
    for (size_t i = 1; i < heard.parts.size(); ++i) EXPECT_GT(heard.parts[i], heard.parts[i - 1]) << i;
    EXPECT_NEAR(heard.parts[heard.parts.size() / 2], 0.5, 1e-9);  // the second step begins
    EXPECT_LT(heard.parts.back(), 1);
}

// As long as all of its exchanges, and as large as the largest of them.
TEST(TimedSteps, WhatAllStepsTakeIsSaidBefore) {
    StepLoop loop = loop_on(4, 4);
    const double seconds = seconds_expected(loop, ring_and_pairwise());
    const uint64_t memory = memory_needed(loop, {});
    EXPECT_GT(memory, memory_needed(loop, ring_and_pairwise()));
    loop.steps *= 3;
    EXPECT_NEAR(seconds_expected(loop, ring_and_pairwise()), 3 * seconds, 1e-9);
    EXPECT_EQ(memory_needed(loop, {}), memory);
    loop.allgather_bytes *= 64;  // in as many pieces
    EXPECT_GT(seconds_expected(loop, {}), 3 * seconds);
    EXPECT_GT(memory_needed(loop, {}), memory);
}

// 2 x 2 x 2 ranks, one a node: three neighbours, whose blocks pass one link. Headers and words take little.
TEST(TimedSteps, AHaloTakesABlockFromEachNeighbour) {
    StepLoop loop = loop_on(8, 1);
    loop.halos = 1, loop.allgathers = loop.alltoalls = 0;
    const Time halo = part(simulate_steps(loop, ring_and_pairwise()), StepPart::kHalo);
    EXPECT_GE(halo, 3 * kBlockTime + 3 * kWay);
    EXPECT_LE(halo, 3 * kBlockTime + 5 * kWay);
    // In a row of three the middle one has two, the others one.
    loop.job.nodes = 3;
    const Time row = part(simulate_steps(loop, ring_and_pairwise()), StepPart::kHalo);
    EXPECT_GE(row, 4 * kBlockTime / 3 + 3 * kWay);
    EXPECT_LE(row, 6 * kBlockTime / 3 + 5 * kWay);
}

TEST(TimedSteps, AnAllreduceTakesLogStepsOfOneWay) {
    StepLoop loop = loop_on(8, 1);
    loop.halos = loop.allgathers = loop.alltoalls = 0;
    loop.job.machine.mpi_eager = 1024;
    const Time reduce = part(simulate_steps(loop, ring_and_pairwise()), StepPart::kAllreduce);
    EXPECT_NEAR(ns(reduce), ns(3 * kWay), 3 * 2 * 13);  // 128 bytes take 13 ns
}

// Three ranks in ten are a millisecond late on average, where an allgather takes some 50 us: the ring goes on
// when the last one is there, and takes all of its steps then. The product has brought the others' blocks to
// each other by then; left are those that the last one takes and gives, which pass its link at the same time.
TEST(TimedSteps, OthersBlocksComeBeforeTheLastRank) {
    StepLoop loop = loop_on(8, 1);
    loop.steps = 10;
    loop.halos = loop.alltoalls = 0;
    loop.late = 300'000;
    loop.late_least = 500 * kMicrosecond;
    loop.late_most = 1500 * kMicrosecond;
    const StepTimes ours = simulate_steps(loop, {}), ring = simulate_steps(loop, ring_and_pairwise());
    EXPECT_EQ(part(ours, StepPart::kLate), part(ring, StepPart::kLate));
    const Time whole = alone(loop, Collective::kAllgatherv, "ring");
    EXPECT_GT(ring.allgather_alone, whole * 9 / 10);
    EXPECT_LT(ours.allgather_alone, whole * 2 / 3);
}

// The share of late ranks is the same whether they come late alone or with their node.
TEST(TimedSteps, SoManyAreLateAsAskedFor) {
    StepLoop loop = loop_on(16, 4);
    loop.steps = 40;
    loop.halos = loop.alltoalls = 0;
    loop.allgather_bytes = 64;
    loop.late = 100'000;
    loop.late_least = loop.late_most = 1000 * kMicrosecond;
    for (const uint64_t nodes : {0, 666'667, 1'000'000}) {
        loop.late_nodes = nodes;
        const Time late = part(simulate_steps(loop, ring_and_pairwise()), StepPart::kLate);
        EXPECT_GT(late, 70 * kMicrosecond) << nodes;
        EXPECT_LT(late, 130 * kMicrosecond) << nodes;
    }
}

TEST(TimedSteps, ComputingDiffersByNoMoreThanItMay) {
    StepLoop loop = loop_on(4, 2);
    loop.halos = 1, loop.allgathers = loop.alltoalls = 0;
    loop.compute = 1000 * kMicrosecond;
    loop.imbalance = 300'000;
    const StepTimes times = simulate_steps(loop, ring_and_pairwise());
    EXPECT_GT(part(times, StepPart::kCompute), 750 * kMicrosecond);
    EXPECT_LT(part(times, StepPart::kCompute), 1250 * kMicrosecond);
    EXPECT_GT(times.in_mpi(), 50 * kMicrosecond);  // they wait for each other
    StepLoop other = loop;
    other.seed = 2;
    EXPECT_NE(simulate_steps(other, ring_and_pairwise()).wall, times.wall);
    EXPECT_EQ(simulate_steps(loop, ring_and_pairwise()).wall, times.wall);
}

// Large blocks that all ranks get are simulated in coarser pieces than the product's, which changes little.
// It would change an alltoall by some 8 %, as readers then jam for longer: those keep the product's.
TEST(TimedSteps, CoarserPiecesOfLargeBlocksTakeAsLong) {
    StepLoop loop = loop_on(4, 4);
    Machine& m = loop.job.machine;
    m.memory_rate = 96 * kGiga, m.memory_core_rate = 10 * kGiga, m.pcie_rate = 14 * kGiga;
    m.service_read = m.service_copy = m.service_finish = 500 * kNanosecond;
    m.dpu_session = m.dpu_stand_in_wake_up = 20 * kMicrosecond;
    loop.job.services = 4;
    loop.allgather_bytes = 2u << 20;
    const StepTimes fine = simulate_steps(loop, {});
    loop.allgather_chunk_bytes = 256 * 1024;
    const StepTimes coarse = simulate_steps(loop, {});
    const double expected = ns(part(fine, StepPart::kAllgather));
    EXPECT_NEAR(ns(part(coarse, StepPart::kAllgather)), expected, 0.02 * expected);
    EXPECT_EQ(part(coarse, StepPart::kHalo), part(fine, StepPart::kHalo));
}

TEST(TimedSteps, WhatCannotBeIsSaid) {
    StepLoop loop = loop_on(2, 1);
    EXPECT_EQ(refusal(loop), "");
    loop.halo_bytes = 0;
    EXPECT_NE(refusal(loop), "");
    loop.halo_bytes = 1, loop.late_least = 2;
    EXPECT_NE(refusal(loop), "");
    loop.late_least = 0, loop.steps = 0;
    EXPECT_NE(refusal(loop), "");
}

}  // namespace
}  // namespace longshore::timed
