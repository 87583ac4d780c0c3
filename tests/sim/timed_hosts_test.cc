// Service processes on cores of the hosts (machines without a DPU): what their collectives take that can be
// written down.
#include <gtest/gtest.h>

#include "timed_jobs.h"

namespace longshore::timed {
namespace {

Machine without_dpu() {
    Machine m = ideal();
    m.dpu_cores = m.dpu_memory_rate = 0;
    return m;
}

Job on_hosts(uint32_t nodes, uint32_t ranks, uint32_t services, Collective collective) {
    Job job = job_on(without_dpu(), nodes, ranks, services, collective);
    job.service_place = ServicePlace::kHost;
    return job;
}

// The other's row and the acknowledgement take a way each, the request and the block two and the link's time.
TEST(TimedHosts, ABlockEachWayTakesFourWays) {
    const Outcome out = simulate_offloaded(on_hosts(2, 1, 1, Collective::kAlltoallv));
    EXPECT_NEAR(ns(out.latency.most), ns(4 * kWay + kBlockTime), 100);
}

// What the steps of a rank and of a service process take comes on top of that.
TEST(TimedHosts, StepsAreAdded) {
    Job job = on_hosts(2, 1, 1, Collective::kAlltoallv);
    const Time before = simulate_offloaded(job).latency.most;
    job.machine.rank_post = 5 * kMicrosecond;
    job.machine.rank_wake_up = 300 * kNanosecond;
    job.machine.rank_test = 100 * kNanosecond;
    EXPECT_NEAR(ns(simulate_offloaded(job).latency.most), ns(before) + 5'400, 1);
}

// A block comes to its node once. All others are copied by ranks that wait and service processes, which share
// what the host's memory can do.
TEST(TimedHosts, CopiesTakeWhatTheMemoryOfTheHostTakes) {
    Job job = on_hosts(4, 8, 2, Collective::kAllgatherv);
    job.machine.memory_rate = 16 * kGiga;
    job.machine.pcie_rate = 20 * kGiga;
    const Outcome out = simulate_offloaded(job);
    const Time least = time_of((8 * 32 - 24) * kBlock, job.machine.memory_rate);
    EXPECT_GE(out.latency.most, least);
    EXPECT_LE(out.latency.mean, least + least / 8);
    EXPECT_EQ(out.reads, 4u * 24 * job.iterations);
}

// A block lands in memory of its node and is copied from there: each rank's own one, too, is copied twice.
TEST(TimedHosts, LandingsAreCopiedBySoManyMore) {
    for (const Collective c : {Collective::kAllgather, Collective::kAllgatherv}) {
        Job job = on_hosts(4, 8, 2, c);
        job.machine.memory_rate = 4 * kGiga;
        job.machine.pcie_rate = 20 * kGiga;
        job.algorithm = Algorithm::kStagedHierarchical;
        const Outcome out = simulate_offloaded(job);
        const Time least = time_of((8 * 32 + 8) * kBlock, job.machine.memory_rate);
        EXPECT_GE(out.latency.most, least);
        EXPECT_LE(out.latency.mean, least + least / 8);
        EXPECT_EQ(out.reads, 4u * 24 * job.iterations);
    }
}

// While ranks compute the one core of a node's service process copies, one block after the other.
TEST(TimedHosts, ServiceProcessesCopyWithTheirOwnCore) {
    Job job = on_hosts(2, 4, 1, Collective::kAllgatherv);
    job.machine.memory_core_rate = 8 * kGiga;
    job.compute.assign(job.ranks(), 1'000 * kMicrosecond);
    const Outcome out = simulate_offloaded(job);
    const uint64_t copies_of_node = 4 * 8 - 4;
    EXPECT_EQ(out.copies, 2 * copies_of_node * job.iterations);
    EXPECT_NEAR(out.busiest_service * ns(out.span) / job.iterations,
                ns(time_of(copies_of_node * kBlock, job.machine.memory_core_rate)), 10);
    EXPECT_EQ(out.latency.most, 1'000 * kMicrosecond);
}

// Ranks that wait copy, too, all at once; but what the network brings is noticed only when the service
// process has made the copies of its turn.
TEST(TimedHosts, RanksThatWaitCopyTheRest) {
    Job job = on_hosts(2, 4, 1, Collective::kAllgatherv);
    job.machine.memory_core_rate = 1 * kGiga;
    const Time alone = time_of((4 * 8 - 4) * kBlock, job.machine.memory_core_rate);
    const Outcome out = simulate_offloaded(job);
    EXPECT_LT(out.copies, 2u * (4 * 8 - 4) * job.iterations);
    EXPECT_LE(out.latency.most, alone / 2);
    EXPECT_GE(out.latency.most, alone / 5);  // four ranks and a service process
}

// Where no core is left a service process takes those of ranks: one that computes ends as much later as it
// worked meanwhile.
TEST(TimedHosts, WhoSharesACoreWithItTakesItsTime) {
    Job job = on_hosts(2, 1, 1, Collective::kAlltoallv);
    job.machine.service_message = job.machine.service_read = job.machine.service_finish = 10 * kMicrosecond;
    const Time computing = 10'000 * kMicrosecond;
    job.compute.assign(2, computing);
    EXPECT_EQ(simulate_offloaded(job).latency.most, computing);
    job.machine.cores = 1;
    const Outcome out = simulate_offloaded(job);
    const uint64_t runs = 2 * job.iterations;  // of two service processes
    EXPECT_EQ(out.reads, runs);
    EXPECT_EQ(out.copies, runs);                                       // of own blocks
    const uint64_t steps = out.messages + 2 * out.reads + out.copies;  // a read begins, and both end
    const Time worked = steps * 10 * kMicrosecond / runs;
    EXPECT_NEAR(ns(out.latency.most), ns(computing + worked), 1);
    EXPECT_NEAR(ns(out.latency.least), ns(computing + worked), 1);
    EXPECT_NEAR(out.busiest_service * ns(out.span), ns(job.iterations * worked), 1);
}

// What it copies is lost to all ranks of its node alike.
TEST(TimedHosts, RanksLoseAlikeToWhatSharesTheirCores) {
    Job job = on_hosts(2, 4, 1, Collective::kAllgatherv);
    job.machine.cores = 4;
    job.machine.memory_core_rate = 8 * kGiga;
    const Time computing = 1'000 * kMicrosecond;
    job.compute.assign(job.ranks(), computing);
    const Outcome out = simulate_offloaded(job);
    const Time copied = time_of((4 * 8 - 4) * kBlock, job.machine.memory_core_rate);
    const Time of_one = time_of(kBlock, job.machine.memory_core_rate);
    EXPECT_NEAR(ns(out.latency.mean), ns(computing + copied / 4), ns(of_one) / 10);
    EXPECT_LE(out.latency.most - out.latency.least, of_one);
}

// A rank that waits gives its core: nobody loses anything, but what sleeps has to be woken for each message.
TEST(TimedHosts, RanksThatWaitGiveTheirCores) {
    Job job = on_hosts(2, 1, 1, Collective::kAlltoallv);
    const Time alone = simulate_offloaded(job).latency.most;
    job.machine.cores = 1;
    EXPECT_NEAR(ns(simulate_offloaded(job).latency.most), ns(alone), 1);
    job.machine.service_wake_up = 20 * kMicrosecond;
    const Outcome woken = simulate_offloaded(job);
    // For the post, the rank's copy of its own block, the end of the read and each message, if nothing else
    // has woken it just before.
    const Time most = (3 + woken.messages / (2 * job.iterations)) * job.machine.service_wake_up;
    EXPECT_GE(woken.latency.most, alone + most / 2);
    EXPECT_LE(woken.latency.most, alone + most);
}

// In the frames that tell of them: nothing is read, all is there after one way, and each block that another
// node wants passes the network once.
TEST(TimedHosts, SmallBlocksComeWithWhatIsSaidOfThem) {
    for (const auto& [collective, blocks] :
         {std::pair{Collective::kAlltoall, 3 * 4 * 8}, std::pair{Collective::kAlltoallv, 3 * 4 * 8},
          std::pair{Collective::kAllgather, 3 * 8}, std::pair{Collective::kAllgatherv, 3 * 8},
          std::pair{Collective::kBcast, 2}}) {
        const char* name = rules_of(collective).name;
        Job job = on_hosts(3, 4, 2, collective);
        job.block_bytes = 64;
        const Outcome small = simulate_offloaded(job);
        job.block_bytes = 128;
        const Outcome twice = simulate_offloaded(job);
        EXPECT_EQ(small.reads, 0u) << name;
        EXPECT_EQ(twice.network_bytes - small.network_bytes, uint64_t(blocks) * 64 * job.iterations) << name;
        EXPECT_GT(small.latency.most, kWay) << name;
        EXPECT_LT(small.latency.most, 2 * kWay) << name;
    }
}

TEST(TimedHosts, WhatCannotBeIsRefusedByName) {
    Job job = on_hosts(2, 65, 2, Collective::kAlltoallv);
    EXPECT_NE(refusal(job).find("65 ranks are asked for"), std::string::npos) << refusal(job);
    job.ranks_per_node = 64;
    EXPECT_EQ(refusal(job), "");
    job.handover = Handover::kOnce;
    EXPECT_NE(refusal(job).find("--handover"), std::string::npos);
    job = on_hosts(2, 4, 2, Collective::kAlltoallv);
    job.memory = Memory::kStaging;
    EXPECT_NE(refusal(job).find("--memory"), std::string::npos);
    job.memory = Memory::kAlias;
    job.algorithm = Algorithm::kStagedHierarchical;
    EXPECT_NE(refusal(job).find("allgather(v) and bcast"), std::string::npos);
    job.collective = Collective::kBcast;
    EXPECT_EQ(refusal(job), "");
    job.machine = ideal();
    job.service_place = ServicePlace::kDpu;
    EXPECT_NE(refusal(job).find("share no memory with ranks"), std::string::npos);
    job = on_hosts(2, 4, 2, Collective::kAlltoallv);
    job.mirrored = true;
    EXPECT_NE(refusal(job).find("--mirrored"), std::string::npos);
    job = on_hosts(2, 4, 2, Collective::kAlltoallv);
    job.service_place = ServicePlace::kDpu;
    EXPECT_NE(refusal(job).find("has no DPU"), std::string::npos);
}

}  // namespace
}  // namespace longshore::timed
