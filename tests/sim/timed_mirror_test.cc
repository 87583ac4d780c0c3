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
    EXPECT_NE(said([](Job& j) { j.collective = Collective::kBcast; }).find("root's node"), std::string::npos);
    EXPECT_NE(said([](Job& j) { j.placement = Placement::kStrided; }), "");
    EXPECT_NE(said([](Job& j) { j.services = 3; }).find("equally many ranks"), std::string::npos);
}

}  // namespace
}  // namespace longshore::timed
