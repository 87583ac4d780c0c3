// Other ways of bytes in the timed simulator than those of timed_test.cc, against closed forms: the host
// MPI's algorithms, broadcasts, memory of service processes on the way, and ranks that come late.
#include <gtest/gtest.h>

#include "timed_jobs.h"

namespace longshore::timed {
namespace {

constexpr Time kHeaders = 7 * kNanosecond;

Job job_on(uint32_t nodes, uint32_t ranks, Collective collective) {
    return job_on(ideal(), nodes, ranks, 1, collective);
}

// A step is a note, a request, the bytes, and the word that they were read.
Time steps(uint32_t count, uint64_t blocks) {
    return count * 4 * kWay + blocks * kBlockTime;
}

struct Expected {
    const char* name;
    Collective collective;
    uint32_t ranks, steps;
    uint64_t blocks;  // that pass a rank's link, one after the other
};

class TimedHostAlgorithms : public testing::TestWithParam<Expected> {};
INSTANTIATE_TEST_SUITE_P(, TimedHostAlgorithms,
                         testing::Values(Expected{"neighbour", Collective::kAllgather, 6, 3, 5},
                                         Expected{"bruck", Collective::kAllgather, 6, 3, 5},
                                         Expected{"bruck", Collective::kAllgather, 8, 3, 7},
                                         Expected{"doubling", Collective::kAllgather, 8, 3, 7},
                                         Expected{"leaders", Collective::kAllgather, 5, 4, 4}),
                         [](const auto& p) {
                             return std::string(p.param.name) + std::to_string(p.param.ranks);
                         });

TEST_P(TimedHostAlgorithms, TakeTheirStepsAndTheirBlocks) {
    const Expected& e = GetParam();
    const Outcome out = host(job_on(e.ranks, 1, e.collective), e.name);
    EXPECT_NEAR(ns(out.latency.mean), ns(steps(e.steps, e.blocks)), ns(e.steps * 4 * kHeaders) + 1);
}

// The last rank has it after the tree's depth; it waits for no word that its own child has read it.
TEST(TimedHostBcast, ATreeTakesABlockForEachLevel) {
    for (const char* name : {"binomial", "node-binomial"}) {
        const Outcome out = host(job_on(8, 1, Collective::kBcast), name);
        EXPECT_GE(out.latency.most, steps(3, 3) - kWay) << name;
        EXPECT_LE(out.latency.most, steps(3, 3) + 3 * 4 * kHeaders) << name;
    }
}

// Half of the block, a quarter, an eighth; then seven eighths, one at a time.
TEST(TimedHostBcast, AScatterAndARingMoveABlockTwice) {
    Job job = job_on(8, 1, Collective::kBcast);
    job.block_bytes = 64 * kBlock;
    const Outcome out = host(job, "scatter-ring");
    EXPECT_GE(out.latency.most, 2 * 64 * kBlockTime * 7 / 8);
    EXPECT_LE(out.latency.most, 2 * 64 * kBlockTime * 7 / 8 + steps(10, 0) + 10 * 4 * kHeaders);
}

TEST(TimedHostAlgorithmsOfNodes, CrossTheNetworkOnceForEachNode) {
    Job job = job_on(4, 8, Collective::kAllgather);
    job.placement = Placement::kStrided;
    EXPECT_NEAR(static_cast<double>(host(job, "leaders").network_bytes), 4.0 * 24 * kBlock * job.iterations,
                4.0 * 24 * 400 * job.iterations);
    job.collective = Collective::kBcast;
    EXPECT_NEAR(static_cast<double>(host(job, "node-binomial").network_bytes), 3.0 * kBlock * job.iterations,
                3.0 * 400 * job.iterations);
}

TEST(TimedHostAlgorithmsOfNodes, AreForSomeNumbersOfRanks) {
    EXPECT_FALSE(find_host_algorithm("doubling")->possible(job_on(3, 2, Collective::kAllgather)));
    EXPECT_FALSE(find_host_algorithm("neighbour")->possible(job_on(3, 3, Collective::kAllgather)));
    EXPECT_TRUE(find_host_algorithm("doubling")->possible(job_on(4, 2, Collective::kAllgather)));
    EXPECT_FALSE(fits(*find_host_algorithm("binomial"), Collective::kAllgather));
}

// --- broadcasts by service processes

// All read from the root's node, whose link is the bound.
TEST(TimedOffloadBcast, DirectlyEachNodeReadsFromTheRoot) {
    Job job = job_on(8, 4, Collective::kBcast);
    job.block_bytes = 16 * kBlock;
    const Outcome out = simulate_offloaded(job);
    EXPECT_GE(out.latency.most, 7 * 16 * kBlockTime);
    EXPECT_LE(out.latency.most, 7 * 16 * kBlockTime + 2 * kHostToDpu + 8 * kWay);
    EXPECT_NEAR(static_cast<double>(out.network_bytes), 7.0 * 16 * kBlock * job.iterations,
                7.0 * 16 * 4096 * job.iterations);
}

// Staged it goes from node to node, piece by piece: each link passes it once.
TEST(TimedOffloadBcast, StagedItGoesFromOneNodeToTheNext) {
    Job job = job_on(8, 4, Collective::kBcast);
    job.block_bytes = 64 * kBlock;
    job.algorithm = Algorithm::kStaged;
    const Outcome out = simulate_offloaded(job);
    EXPECT_GE(out.latency.most, (64 + 6) * kBlockTime);
    EXPECT_LE(out.latency.most, 2 * 64 * kBlockTime);
    EXPECT_NEAR(static_cast<double>(out.network_bytes), 7.0 * 64 * kBlock * job.iterations,
                7.0 * 64 * 4096 * job.iterations);
}

// --- staging memory

// Into the DPU's memory and out again, one after the other.
TEST(TimedStaging, ABlockIsMovedOnceMore) {
    Job job = job_on(2, 1, Collective::kBcast);
    const Time direct = simulate_offloaded(job).latency.most;
    for (const bool all : {false, true}) {
        job.memory = all ? Memory::kStaging : Memory::kAlias;
        job.algorithm = all ? Algorithm::kDirect : Algorithm::kStaged;
        job.machine.dpu_memory_rate = job.machine.pcie_rate;
        EXPECT_NEAR(ns(simulate_offloaded(job).latency.most), ns(direct + kHostToDpu), 1);
        // A DPU's memory that is half as quick as the link: twice as long into it, and out of it again.
        job.machine.dpu_memory_rate = 5 * kGiga;
        EXPECT_NEAR(ns(simulate_offloaded(job).latency.most), ns(direct + kHostToDpu + 3 * kBlockTime), 200);
    }
}

// All bytes pass the DPU's memory twice; where it is slow it bounds what links could bring.
TEST(TimedStaging, TheDpusMemoryIsABound) {
    Job job = job_on(4, 4, Collective::kAlltoallv);
    job.services = 4;
    job.memory = Memory::kStaging;
    job.machine.dpu_memory_rate = 10 * kGiga;
    const Outcome out = simulate_offloaded(job);
    // 4 x 12 blocks of other nodes and 4 x 3 (and each rank's own) of this one, in and out.
    const Time least = 2 * 4 * 15 * kBlockTime;
    EXPECT_GE(out.latency.most, least);
    EXPECT_LE(out.latency.mean, least + least / 4);
}

// --- groups of one rank of each node

// All columns share the nodes' links, and nothing passes between ranks of a node.
TEST(TimedColumns, TakeAsLongAsTheirBytesOnTheLink) {
    constexpr uint32_t kNodes = 5, kRanks = 4;
    Job job = job_on(kNodes, kRanks, Collective::kAlltoallv);
    job.groups = Groups::kColumns;
    job.services = 2;
    const Time least = kRanks * (kNodes - 1) * kBlockTime;
    const Outcome ours = simulate_offloaded(job);
    EXPECT_GE(ours.latency.most, least);
    EXPECT_LE(ours.latency.mean, least + least / 8);
    EXPECT_EQ(ours.reads, uint64_t{kNodes} * kRanks * (kNodes - 1) * job.iterations);
    const Outcome theirs = host(job, "linear");
    EXPECT_GE(theirs.latency.most, least);
    EXPECT_LE(theirs.latency.mean, least + least / 8);
    EXPECT_NEAR(static_cast<double>(theirs.network_bytes), static_cast<double>(ours.reads * kBlock),
                static_cast<double>(ours.reads * 400));
}

// --- copies that ranks make for their stand-ins

Job job_with_copies() {
    Job job = job_on(4, 8, Collective::kAllgatherv);
    job.services = 2;
    job.machine.memory_rate = 16 * kGiga;
    job.machine.pcie_rate = 20 * kGiga;
    return job;
}

// Each block comes to a host once; all others that its ranks want they copy.
TEST(TimedHandOver, RanksThatWaitCopyWhatTheirHostHas) {
    const Job job = job_with_copies();
    const Outcome out = simulate_offloaded(job);
    const Time least = time_of((8 * 32 - 24) * kBlock, job.machine.memory_rate);
    EXPECT_GE(out.latency.most, least);
    EXPECT_LE(out.latency.mean, least + least / 8);
    EXPECT_EQ(out.copies, 0u);  // by service processes
    EXPECT_EQ(out.reads, 4u * 24 * job.iterations);
}

// While they compute they copy nothing: that comes afterwards. Who computes longer than its stand-in is
// patient gets its blocks by the DPU, and finds all done.
TEST(TimedHandOver, RanksThatComputeCopyAfterwardsOrNotAtAll) {
    Job job = job_with_copies();
    const Time least = time_of((8 * 32 - 24) * kBlock, job.machine.memory_rate);
    job.compute.assign(job.ranks(), 1'000 * kMicrosecond);
    Outcome out = simulate_offloaded(job);
    EXPECT_GE(out.latency.most, 1'000 * kMicrosecond + least);
    EXPECT_EQ(out.copies, 0u);
    job.compute.assign(job.ranks(), 40'000 * kMicrosecond);
    out = simulate_offloaded(job);
    EXPECT_LE(out.latency.most, 40'000 * kMicrosecond + 100 * kMicrosecond);
    EXPECT_GT(out.copies, 0u);
}

TEST(TimedHandOver, SmallBlocksAreBroughtToEachRank) {
    Job job = job_with_copies();
    job.block_bytes = 4095;
    EXPECT_GT(simulate_offloaded(job).copies, 0u);
    job.block_bytes = 4096;
    EXPECT_EQ(simulate_offloaded(job).copies, 0u);
}

// --- late ranks

// Smaller tables than the product's, but none in which an operation is cut otherwise.
TEST(TimedLimits, OperationsAreCutAsByTheProduct) {
    const uint64_t product = node_limits_for({}).claims_bytes;
    for (const uint32_t ranks : {1u, 32u}) {
        for (const uint64_t bytes : {uint64_t{1}, kBlock, 1000 * kBlock, uint64_t{1} << 30}) {
            Job job = job_on(32, ranks, Collective::kAlltoallv);
            job.block_bytes = bytes;
            const NodeLimits limits = job.node_limits();
            const uint64_t words = 8 * job.ranks() * ((bytes + job.chunk_bytes - 1) / job.chunk_bytes);
            EXPECT_EQ(std::min(words, limits.claims_bytes / 8), std::min(words, product / 8));
            EXPECT_LE(limits.claims_bytes, product);
            EXPECT_LT(limits.arena_bytes, node_limits_for({}).arena_bytes);
        }
    }
}

TEST(TimedLate, NobodyIsLateWhenAllComeTogether) {
    Job job = job_on(4, 4, Collective::kAllgather);
    const Outcome out = simulate_offloaded(job);
    EXPECT_EQ(out.late.entered, uint64_t{job.ranks()} * job.iterations);
    EXPECT_EQ(out.late.late, 0u);
    EXPECT_EQ(out.late.told, 4u * 3 * 4 * job.iterations);
    EXPECT_EQ(out.late.told_late, 0u);
}

// A quarter of the ranks is a millisecond late, where an operation takes microseconds: nearly all of them are
// seen to be late, and with seven other ranks of the node there is nearly always one that is there.
TEST(TimedLate, OthersOfTheNodeAreThereForThoseThatAreLate) {
    Job job = job_on(2, 8, Collective::kAllgather);
    job.machine.jitter_late = 250'000;
    job.machine.jitter_late_by = 1000 * kMicrosecond;
    job.block_bytes = 1024;
    job.iterations = 100;
    const Outcome out = simulate_offloaded(job);
    const auto share = static_cast<double>(out.late.late) / static_cast<double>(out.late.entered);
    EXPECT_GT(share, 0.2);
    EXPECT_LT(share, 0.3);
    EXPECT_GT(static_cast<double>(out.late.covered), 0.97 * static_cast<double>(out.late.late));
}

TEST(TimedLate, AloneOnItsNodeARankIsWaitedFor) {
    Job job = job_on(4, 1, Collective::kAllgather);
    job.machine.jitter_late = 250'000;
    job.machine.jitter_late_by = 1000 * kMicrosecond;
    job.iterations = 50;
    const Outcome out = simulate_offloaded(job);
    EXPECT_GT(out.late.late, 0u);
    EXPECT_EQ(out.late.covered, 0u);
    EXPECT_GE(out.late.told_late, out.late.late);
    EXPECT_GT(out.late.parked, 0u);  // the first row of those that wait
    EXPECT_EQ(out.late.rescued, 0u);
}

}  // namespace
}  // namespace longshore::timed
