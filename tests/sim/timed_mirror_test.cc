// One node of the timed simulator that stands for all, beside the simulation of all.
#include <gtest/gtest.h>

#include "timed_jobs.h"

namespace longshore::timed {
namespace {

// Programs, buses and links all take their time, and nothing is left to chance.
Job job_of(Collective collective) {
    Machine m = ideal();
    m.memory_rate = 96 * kGiga, m.memory_core_rate = 10 * kGiga, m.pcie_rate = 14 * kGiga;
    m.rank_post = kMicrosecond;
    m.service_message = m.service_send = m.service_read = m.service_copy = 600 * kNanosecond;
    m.service_finish = 300 * kNanosecond;
    m.service_wake_up = m.dpu_stand_in_wake_up = 10 * kMicrosecond;
    m.dpu_session = 20 * kMicrosecond;
    return job_on(m, 16, 16, 4, collective);
}

class TimedMirror : public testing::TestWithParam<Collective> {};
INSTANTIATE_TEST_SUITE_P(, TimedMirror,
                         testing::Values(Collective::kAlltoall, Collective::kAlltoallv,
                                         Collective::kAllgather, Collective::kAllgatherv),
                         [](const auto& p) { return std::string(rules_of(p.param).name); });

TEST_P(TimedMirror, TakesAsLongAsAllNodes) {
    for (const uint64_t bytes : {kBlock, kBlock / 64}) {
        Job job = job_of(GetParam());
        job.block_bytes = bytes;
        job.warm_up = 0, job.iterations = 1;
        const Outcome all = simulate_offloaded(job);
        job.mirrored = true;
        const Outcome one = simulate_offloaded(job);
        EXPECT_NEAR(ns(one.latency.mean), ns(all.latency.mean), 0.05 * ns(all.latency.mean)) << bytes;
        EXPECT_EQ(one.reads, all.reads);
        EXPECT_EQ(one.copies, all.copies);
        const auto sent = static_cast<double>(all.network_bytes);
        EXPECT_NEAR(static_cast<double>(one.network_bytes), sent, 0.02 * sent) << bytes;
        EXPECT_EQ(one.latency.ranks.size(), job.ranks());
        EXPECT_LT(one.events, all.events / 12);
    }
}

// Of a broadcast all but two nodes are modelled, and each has its own time: all read from the root's node.
TEST(TimedMirrorOf, ABroadcastTakesAsLongAsAllNodes) {
    for (const uint32_t nodes : {2u, 16u, 32u}) {
        for (const uint64_t bytes : {kBlock, 16 * kBlock}) {
            Job job = job_of(Collective::kBcast);
            job.nodes = nodes;
            job.block_bytes = bytes;
            const Outcome all = simulate_offloaded(job);
            job.mirrored = true;
            const Outcome one = simulate_offloaded(job);
            EXPECT_NEAR(ns(one.latency.mean), ns(all.latency.mean), 0.05 * ns(all.latency.mean))
                << nodes << ", " << bytes;
            EXPECT_NEAR(ns(one.latency.most), ns(all.latency.most), 0.05 * ns(all.latency.most))
                << nodes << ", " << bytes;
            EXPECT_NEAR(ns(one.latency.least), ns(all.latency.least), 0.05 * ns(all.latency.least))
                << nodes << ", " << bytes;
            EXPECT_EQ(one.reads, all.reads);
            EXPECT_EQ(one.copies, all.copies);
            const auto sent = static_cast<double>(all.network_bytes);
            EXPECT_NEAR(static_cast<double>(one.network_bytes), sent, 0.02 * sent) << bytes;
            EXPECT_EQ(one.latency.ranks.size(), job.ranks());
        }
    }
}

// Each of several, too: whose service process sleeps when the next one begins depends on when it was done
// with the one before, and those that do not sleep read first.
TEST(TimedMirrorOf, EachOfSeveralBroadcastsTakesAsLongAsOfAllNodes) {
    for (const uint64_t wake_up_us : {10, 50}) {
        for (const uint64_t spin_us : {1, 1000}) {
            Job job = job_of(Collective::kBcast);
            job.nodes = 32;
            job.block_bytes = 16 * kBlock;
            job.machine.service_wake_up = wake_up_us * kMicrosecond;
            job.machine.service_spin = spin_us * kMicrosecond;
            job.warm_up = 0, job.iterations = 3;
            const std::vector<Time> all = simulate_offloaded(job).latency.iterations;
            job.mirrored = true;
            const std::vector<Time> one = simulate_offloaded(job).latency.iterations;
            for (size_t i = 0; i < all.size(); ++i)
                EXPECT_NEAR(ns(one[i]), ns(all[i]), 0.05 * ns(all[i]))
                    << wake_up_us << ", " << spin_us << ": " << i;
        }
    }
}

// Also beside computing.
TEST(TimedMirrorOf, ABroadcastIsHiddenAsOfAllNodes) {
    Job job = job_of(Collective::kBcast);
    job.block_bytes = 16 * kBlock;
    job.compute.assign(job.ranks(), simulate_offloaded(job).latency.mean);
    const Outcome all = simulate_offloaded(job);
    job.mirrored = true;
    EXPECT_NEAR(ns(simulate_offloaded(job).latency.mean), ns(all.latency.mean), 0.05 * ns(all.latency.mean));
}

// What would not be alike on all nodes is refused, with the reason.
TEST(TimedMirrorOf, UnlikeNodesIsRefused) {
    const auto said = [](auto change) {
        Job job = job_of(Collective::kAllgather);
        job.mirrored = true;
        change(job);
        return refusal(job);
    };
    EXPECT_EQ(said([](Job&) {}), "");
    EXPECT_NE(said([](Job& j) { j.machine.jitter_entry = 1; }).find("jitter.entry to 0 us"),
              std::string::npos);
    EXPECT_NE(said([](Job& j) { j.machine.jitter_late = 1; }).find("no rank may be late"), std::string::npos);
    EXPECT_NE(said([](Job& j) {
                  j.collective = Collective::kBcast, j.block_bytes = 1024;
              }).find("larger than 1024 B"),
              std::string::npos);
    EXPECT_NE(said([](Job& j) { j.placement = Placement::kStrided; }), "");
    EXPECT_NE(said([](Job& j) { j.services = 3; }).find("equally many ranks"), std::string::npos);
}

}  // namespace
}  // namespace longshore::timed
