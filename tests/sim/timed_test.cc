// The timed simulator against closed forms: each element by itself, then whole collectives whose time can be
// written down.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "base/prng.h"
#include "timed_jobs.h"

namespace longshore::timed {
namespace {

// --- elements

struct Sink final : Arrivals, Actor {
    explicit Sink(EventQueue& q) : queue(q) {}
    void on_arrival(uint64_t tag) override { at[tag] = queue.now(); }
    void on_event(uint64_t what) override { order.push_back(what); }
    EventQueue& queue;
    std::map<uint64_t, Time> at;
    std::vector<uint64_t> order;
};

void drain(EventQueue& queue) {
    while (!queue.empty()) queue.step();
}

TEST(TimedQueue, TakesEventsByTimeAndThenAsTheyCame) {
    EventQueue queue;
    Sink sink(queue);
    Prng prng(7);
    std::vector<std::pair<Time, uint64_t>> expected;
    for (uint64_t i = 0; i < 2000; ++i) {
        const Time time = prng.below(300) * (i % 2 == 0 ? 1 : 1'000'000'007);
        queue.at(time, sink, i);
        expected.push_back({time, i});
    }
    std::stable_sort(expected.begin(), expected.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    drain(queue);
    ASSERT_EQ(sink.order.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(sink.order[i], expected[i].second);
    EXPECT_EQ(queue.now(), expected.back().first);
}

class TimedNetwork : public testing::TestWithParam<Sharing> {
  protected:
    EventQueue queue_;
    Sink sink_{queue_};
    std::unique_ptr<Network> network_ = make_network(queue_, GetParam());
    // Max-min rates are floating, and an end is looked for a picosecond late.
    Time slack() const { return GetParam() == Sharing::kFifo ? 0 : 10; }
    void expect_at(uint64_t tag, Time time) {
        ASSERT_TRUE(sink_.at.contains(tag));
        EXPECT_NEAR(static_cast<double>(sink_.at[tag]), static_cast<double>(time),
                    static_cast<double>(slack()));
    }
};
INSTANTIATE_TEST_SUITE_P(, TimedNetwork, testing::Values(Sharing::kFifo, Sharing::kMaxMin),
                         [](const auto& p) { return p.param == Sharing::kFifo ? "Fifo" : "MaxMin"; });

TEST_P(TimedNetwork, ALinkTakesItsLatencyAndTheBytesByItsRate) {
    const uint32_t way[] = {network_->add_server(10 * kGiga, 700 * kNanosecond)};
    network_->send({way, 1'000'000, 50 * kNanosecond, 0, &sink_, 1});
    drain(queue_);
    expect_at(1, (50 + 100'000 + 700) * kNanosecond);
    EXPECT_EQ(network_->bytes(0), 1'000'000u);
}

TEST_P(TimedNetwork, ATransferMayBeSlowerThanItsLink) {
    const uint32_t way[] = {network_->add_server(10 * kGiga)};
    network_->send({way, 1'000'000, 0, 2 * kGiga, &sink_, 1});
    drain(queue_);
    expect_at(1, 500'000 * kNanosecond);
}

// Sum of all latencies, and the bytes by the slowest link: the rest follows the head.
TEST_P(TimedNetwork, AChainTakesAllLatenciesAndItsSlowestLink) {
    for (const uint64_t slow : {0, 1, 2}) {
        std::array<uint32_t, 3> way;
        for (uint64_t h = 0; h < 3; ++h)
            way[h] = network_->add_server(h == slow ? 2 * kGiga : 5 * kGiga, (100 + h) * kNanosecond);
        const Time begin = queue_.now();
        network_->send({way, 200'000, 0, 0, &sink_, slow});
        drain(queue_);
        expect_at(slow, begin + (303 + 100'000) * kNanosecond);
    }
}

// Whatever the rule of sharing, the link is never idle: the last one ends when all bytes have passed.
TEST_P(TimedNetwork, TwoFlowsOnALinkTakeTwiceAsLong) {
    const uint32_t way[] = {network_->add_server(4 * kGiga, 10 * kNanosecond)};
    network_->send({way, 400'000, 0, 0, &sink_, 1});
    network_->send({way, 400'000, 0, 0, &sink_, 2});
    drain(queue_);
    expect_at(2, (200'000 + 10) * kNanosecond);
    expect_at(1, (GetParam() == Sharing::kFifo ? 100'010 : 200'010) * kNanosecond);
}

TEST_P(TimedNetwork, IncastTakesAllBytesByTheRateOfTheOneLinkIn) {
    constexpr uint64_t kSources = 9;
    const uint32_t in = network_->add_server(10 * kGiga, 200 * kNanosecond);
    Time last = 0;
    for (uint64_t s = 0; s < kSources; ++s) {
        const uint32_t way[] = {network_->add_server(10 * kGiga, 300 * kNanosecond), in};
        network_->send({way, 100'000, 0, 0, &sink_, s});
    }
    drain(queue_);
    for (const auto& [tag, at] : sink_.at) last = std::max(last, at);
    EXPECT_NEAR(static_cast<double>(last), static_cast<double>((kSources * 10'000 + 500) * kNanosecond),
                static_cast<double>(slack()));
}

// Three flows, two links of 10 and 4 GB/s: the one through both and the one on the slow link get 2 each, the
// one on the fast link the other 8. Until the slow link's are done after 100 us nothing changes for it.
TEST(TimedSharing, MaxMinGivesWhatOthersCannotTake) {
    EventQueue queue;
    Sink sink(queue);
    const auto network = make_network(queue, Sharing::kMaxMin);
    const uint32_t fast = network->add_server(10 * kGiga), slow = network->add_server(4 * kGiga);
    const uint32_t both[] = {fast, slow}, on_fast[] = {fast}, on_slow[] = {slow};
    network->send({both, 200'000, 0, 0, &sink, 1});
    network->send({on_slow, 200'000, 0, 0, &sink, 2});
    network->send({on_fast, 800'000, 0, 0, &sink, 3});
    drain(queue);
    for (const uint64_t tag : {1, 2, 3}) EXPECT_NEAR(static_cast<double>(sink.at[tag]), 100e6, 10) << tag;
}

TEST(TimedNetworkGap, ShortMessagesKeepALinkBusyForItsGap) {
    EventQueue queue;
    Sink sink(queue);
    const auto network = make_network(queue, Sharing::kFifo);
    const uint32_t way[] = {network->add_server(10 * kGiga, 0, 20 * kNanosecond)};
    for (uint64_t i = 0; i < 5; ++i) network->send({way, 8, 0, 0, &sink, i});
    drain(queue);
    EXPECT_EQ(sink.at[4], 100 * kNanosecond);
}

// --- collectives on a machine whose programs take no time

constexpr double kRounded = 0.01;  // ns: each transfer's time on a link is rounded up to a picosecond
// The rank tells its stand-in; the service process tells the other one, which asks for the block, gets it,
// and acknowledges it; the stand-in tells the rank. Frames of some hundred bytes take some tens of ns more.
TEST(TimedOffload, ABlockEachWayTakesFourWaysAndItsTimeOnTheLink) {
    const Job job = job_on(ideal(), 2, 1, 1, Collective::kAlltoallv);
    const Outcome out = simulate_offloaded(job);
    const Time expected = 2 * kHostToDpu + 4 * kWay + kBlockTime;
    EXPECT_GE(out.latency.least, expected);
    EXPECT_LE(out.latency.most, expected + 100 * kNanosecond);
    EXPECT_EQ(out.reads, 2u * job.iterations);
}

// What programs take is added where nothing else happens: a rank's post and test, and a stand-in's.
TEST(TimedOffload, StepsOfProgramsAddUp) {
    Job job = job_on(ideal(), 2, 1, 1, Collective::kAlltoall);
    const Time before = simulate_offloaded(job).latency.mean;
    job.machine.rank_post = 3 * kMicrosecond;
    job.machine.rank_test = 50 * kNanosecond;
    job.machine.dpu_session = 20 * kMicrosecond;
    job.machine.dpu_stand_in_post = 7 * kMicrosecond;
    const Time added = (3'000 + 50 + 2 * 20'000 + 7'000) * kNanosecond;
    EXPECT_NEAR(ns(simulate_offloaded(job).latency.mean), ns(before + added), kRounded);
}

// Each node takes in R x R x (N - 1) blocks over its link. At the beginning and the end it is not busy, and
// never all sources of a node's reads are free at once.
TEST(TimedOffload, AlltoallvKeepsItsLinksBusy) {
    for (const uint32_t services : {1, 4}) {
        const Job job = job_on(ideal(), 8, 4, services, Collective::kAlltoallv);
        const Outcome out = simulate_offloaded(job);
        const Time least = 4 * 4 * 7 * kBlockTime;
        EXPECT_GE(out.latency.most, least);
        EXPECT_LE(out.latency.mean, least + least / 8) << services;
        EXPECT_EQ(out.reads, 8u * 4 * 4 * 7 * job.iterations);
        EXPECT_GE(out.network_bytes, out.reads * kBlock);
        EXPECT_LE(out.network_bytes, out.reads * kBlock * 101 / 100);
    }
}

// Few reads under way leave the link idle while their requests are on their way.
TEST(TimedOffload, OneReadAtATimeTakesTheRequestsWayForEach) {
    Job job = job_on(ideal(), 2, 1, 1, Collective::kAlltoallv);
    job.reads_max = 1;
    job.block_bytes = 16 * kBlock;
    const Outcome out = simulate_offloaded(job);
    const Time expected = 2 * kHostToDpu + 2 * kWay + 16 * (2 * kWay + kBlockTime);
    EXPECT_NEAR(ns(out.latency.mean), ns(expected), 100);
}

// Every block comes to a node once. On the DPU's way its copies go over the host's bus, all R x P blocks;
// else ranks copy what has not come into their own memory.
TEST(TimedOffload, AllgathervIsBoundByWhoCopies) {
    Machine machine = ideal();
    machine.pcie_rate = 20 * kGiga;
    machine.memory_rate = 16 * kGiga;
    for (const Placement placement : {Placement::kContiguous, Placement::kStrided}) {
        Job job = job_on(machine, 4, 8, 2, Collective::kAllgatherv);
        job.placement = placement;
        job.handover = Handover::kDpu;
        Outcome out = simulate_offloaded(job);
        Time least = time_of(8 * 32 * kBlock, machine.pcie_rate);
        EXPECT_GE(out.latency.most, least);
        EXPECT_LE(out.latency.mean, least + least / 8);
        EXPECT_LE(out.network_bytes, 4u * 24 * kBlock * job.iterations * 101 / 100);
        job.handover = Handover::kOnce;
        out = simulate_offloaded(job);
        least = time_of((8 * 32 - 24) * kBlock, machine.memory_rate);
        EXPECT_GE(out.latency.most, least);
        EXPECT_LE(out.latency.mean, least + least / 8);
    }
}

// Computing is hidden whole, or hides all but what the host's calls take.
TEST(TimedOffload, ComputingAndCarryingGoOnTogether) {
    Job job = job_on(ideal(), 4, 2, 1, Collective::kAlltoallv);
    job.machine.rank_post = 2 * kMicrosecond;
    job.handover = Handover::kDpu;  // ranks that compute copy nothing
    const Time alone = simulate_offloaded(job).latency.mean;
    job.compute.assign(job.ranks(), alone / 2);
    EXPECT_NEAR(ns(simulate_offloaded(job).latency.mean), ns(alone), kRounded);
    job.compute.assign(job.ranks(), 3 * alone);
    EXPECT_NEAR(ns(simulate_offloaded(job).latency.mean), ns(3 * alone + 2 * kMicrosecond), kRounded);
}

// However often it has slept: between two collectives all rest for longer than they look.
TEST(TimedOffload, AServiceProcessThatRestsForLongSleepsEachTime) {
    for (const Time spin : {kMicrosecond, 1000 * kMicrosecond}) {
        Machine m = ideal();
        m.service_wake_up = 10 * kMicrosecond, m.service_spin = spin;
        m.dpu_session = 700 * kMicrosecond;  // of each call and of its end
        Job job = job_on(m, 4, 2, 2, Collective::kBcast);
        job.warm_up = 0, job.iterations = 4;
        const Outcome out = simulate_offloaded(job);
        for (const Time time : out.latency.iterations)
            EXPECT_EQ(ns(time), ns(out.latency.iterations.front())) << spin;
    }
}

// Ranks enter one by one, and each is a frame for the other node, which takes 16 before it has said that it
// has looked at any; it says so at every eighth.
TEST(TimedOffload, FramesThatAPeerHasNoRoomForWaitUntilItHasLooked) {
    Machine m = ideal();
    m.link_latency = 100 * kMicrosecond;
    const Time way = 2 * (m.link_latency + m.pcie_latency) + m.switch_latency;
    const auto run = [&](uint32_t ranks) {
        Job job = job_on(m, 2, ranks, 1, Collective::kAlltoallv);
        job.block_bytes = 8;
        for (uint32_t r = 0; r < job.ranks(); ++r) job.enter.push_back(job.local_of(r) * kMicrosecond);
        job.warm_up = 0, job.iterations = 1;
        return simulate_offloaded(job);
    };
    const Outcome few = run(16), many = run(32);
    EXPECT_EQ(few.refused, 2u * 16);  // of the acknowledgements, which nobody waits for
    EXPECT_GE(many.refused, 2u * (16 + 16));
    // The last eight go when the sixteenth has been looked at and that has come back.
    EXPECT_NEAR(ns(many.latency.least), ns(few.latency.least + 2 * way - 16 * kMicrosecond), 2000);
}

// As long as it is told itself: the last one computes the longest, and nobody waits for it.
TEST(TimedOffload, EachRankComputesForItself) {
    Job job = job_on(ideal(), 4, 2, 1, Collective::kAlltoallv);
    job.handover = Handover::kAsBuilt;
    const Outcome alone = simulate_offloaded(job);
    ASSERT_EQ(alone.latency.ranks.size(), job.ranks());
    for (uint32_t r = 0; r < job.ranks(); ++r)
        job.compute.push_back(2 * alone.latency.most + r * 10 * kMicrosecond);
    const Outcome together = simulate_offloaded(job);
    for (uint32_t r = 0; r < job.ranks(); ++r)
        EXPECT_NEAR(ns(together.latency.ranks[r]), ns(job.compute[r]), kRounded) << r;
}

// Ring and pairwise exchange: in each step a note, a request, the block, and the word that it was read.
TEST(TimedHost, EachStepTakesFourWaysAndItsBlock) {
    const Time step = 4 * kWay + kBlockTime;
    for (const auto& [name, collective] :
         {std::pair{"ring", Collective::kAllgatherv}, std::pair{"pairwise", Collective::kAlltoallv}}) {
        const Outcome out = host(job_on(ideal(), 6, 1, 1, collective), name);
        EXPECT_NEAR(ns(out.latency.mean), ns(5 * step), 5 * 4 * 7 + 1) << name;  // headers take 7 ns
    }
}

TEST(TimedHost, LinearAlltoallvFillsItsLinks) {
    const Outcome out = host(job_on(ideal(), 16, 1, 1, Collective::kAlltoallv), "linear");
    EXPECT_GE(out.latency.most, 15 * kBlockTime + 3 * kWay);
    EXPECT_LE(out.latency.mean, 15 * kBlockTime * 105 / 100 + 4 * kWay);
}

// Without a call of MPI nothing is read: computing is not hidden at all, but for what came before.
TEST(TimedHost, NothingIsHiddenByComputing) {
    Job job = job_on(ideal(), 8, 1, 1, Collective::kAlltoallv);
    const Time alone = host(job, "linear").latency.mean;
    job.compute.assign(job.ranks(), alone);
    const Time together = host(job, "linear").latency.mean;
    EXPECT_GE(together, 2 * alone - 2 * kWay);
    EXPECT_LE(together, 2 * alone + kWay);
}

// With ranks in order a ring crosses each link once a step, with a round robin of nodes all R ranks do.
TEST(TimedHost, ARingSuffersFromTheOrderOfRanks) {
    Job job = job_on(ideal(), 4, 8, 1, Collective::kAllgatherv);
    const Outcome in_order = host(job, "ring");
    job.placement = Placement::kStrided;
    const Outcome strided = host(job, "ring");
    EXPECT_NEAR(static_cast<double>(in_order.network_bytes), 4.0 * 31 * kBlock * job.iterations,
                4.0 * 31 * 400 * job.iterations);
    EXPECT_NEAR(static_cast<double>(strided.network_bytes) / static_cast<double>(in_order.network_bytes), 8,
                0.1);
    EXPECT_GE(strided.latency.most, 31 * 8 * kBlockTime);
}

// --- rules

Job rough() {
    Machine machine = ideal();
    machine.pcie_rate = 8 * kGiga;
    machine.service_read = machine.service_send = machine.service_message = 500 * kNanosecond;
    machine.jitter_entry = 3 * kMicrosecond;
    machine.jitter_cost = 200'000;
    return job_on(machine, 4, 4, 2, Collective::kAlltoallv);
}

TEST(Timed, TheSameSeedGivesTheSameRun) {
    Job job = rough();
    for (const bool offloaded : {true, false}) {
        const auto run = [&] { return offloaded ? simulate_offloaded(job) : host(job, "linear"); };
        job.seed = 1;
        const Outcome first = run(), second = run();
        EXPECT_EQ(first.latency.iterations, second.latency.iterations);
        EXPECT_EQ(first.latency.most, second.latency.most);
        EXPECT_EQ(first.events, second.events);
        job.seed = 2;
        EXPECT_NE(run().latency.iterations, first.latency.iterations);
    }
}

// A run has at most three times as many events as is said before, and at least a third: of small blocks, too,
// which would show service processes that look, or ring each other, again and again.
TEST(Timed, TakesAsManyEventsAsIsSaidBefore) {
    const auto expect_about = [](uint64_t said, uint64_t events, const Job& job, const std::string& what) {
        EXPECT_LT(events, 3 * said) << what << ", " << job.nodes << " x " << job.ranks_per_node << ", "
                                    << job.block_bytes;
        EXPECT_GT(3 * events, said) << what << ", " << job.nodes << " x " << job.ranks_per_node << ", "
                                    << job.block_bytes;
    };
    for (const Collective collective :
         {Collective::kAlltoallv, Collective::kAllgatherv, Collective::kBcast}) {
        for (const uint32_t ranks : {1u, 4u, 16u}) {
            for (const uint64_t bytes : {64u, 65536u, 131072u}) {
                Job job = job_on(ideal(), 4, ranks, std::min(4u, ranks), collective);
                job.block_bytes = bytes;
                job.machine.mpi_eager = 8192;
                job.warm_up = 0, job.iterations = 1;
                expect_about(events_expected(job), simulate_offloaded(job).events, job, "direct");
                Job staged = job;
                staged.algorithm = Algorithm::kStaged;
                expect_about(events_expected(staged), simulate_offloaded(staged).events, staged, "staged");
                job.services = 1;
                for (const char* name : {"pairwise", "linear", "ring", "binomial"}) {
                    const HostAlgorithm& one = *find_host_algorithm(name);
                    if (fits(one, collective))
                        expect_about(host_events_expected(job, one), simulate_host(job, one).events, job,
                                     name);
                }
            }
        }
    }
}

// What this process has in memory, in bytes: of what is allocated much is never touched.
uint64_t resident() {
    std::ifstream file("/proc/self/statm");
    uint64_t all = 0, here = 0;
    file >> all >> here;
    return here * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Linear exchange keeps all messages of all ranks at once; a ring keeps two of each rank.
TEST(Timed, HostsNeedAsMuchMemoryAsIsSaidBefore) {
    if (mallinfo2().arena == 0) GTEST_SKIP() << "a sanitizer's allocator keeps what is freed";
    malloc_trim(0);  // what earlier tests have freed
    struct MostMemory final : Watcher {
        uint64_t before = resident(), most = 0;
        void on_progress(double) override {
            most = std::max(most, resident() - std::min(resident(), before));
        }
    };
    Job job = job_on(ideal(), 32, 16, 1, Collective::kAlltoallv);
    job.block_bytes = 16 * 1024;
    job.machine.mpi_eager = 8192;
    job.warm_up = 0, job.iterations = 1;
    const HostAlgorithm& linear = *find_host_algorithm("linear");
    MostMemory linear_takes;
    simulate_host(job, linear, &linear_takes);
    const uint64_t said = host_memory_needed(job, linear);
    EXPECT_GT(linear_takes.most, said * 2 / 3);
    EXPECT_LT(linear_takes.most, said * 3 / 2);
    job.collective = Collective::kAllgatherv;
    EXPECT_LT(host_memory_needed(job, *find_host_algorithm("ring")), said / 2);
}

// As rates are found anew for all transfers at each begin and end of one.
TEST(Timed, MaxMinSharingIsOfSmallJobsAndSaidToTakeLong) {
    Job job = job_on(ideal(), 8, 8, 4, Collective::kAlltoallv);
    const double fifo = seconds_expected(job);
    const HostAlgorithm &linear = *find_host_algorithm("linear"),
                        &pairwise = *find_host_algorithm("pairwise");
    const double linear_fifo = host_seconds_expected(job, linear);
    job.sharing = Sharing::kMaxMin;
    EXPECT_GT(seconds_expected(job), 20 * fifo);
    EXPECT_GT(host_seconds_expected(job, linear), 50 * linear_fifo);
    // Each rank has one message under way.
    EXPECT_LT(host_seconds_expected(job, pairwise), 5 * linear_fifo);
    job.nodes = 16;
    EXPECT_EQ(refusal(job), "");
    job.nodes = 17;
    EXPECT_NE(refusal(job).find("at most 128 ranks, and here there are 136"), std::string::npos);
    job.sharing = Sharing::kFifo;
    EXPECT_EQ(refusal(job), "");
}

// FIFO servers against exact sharing.
TEST(Timed, FifoServersAreNearMaxMinSharing) {
    const auto compare = [](Job job, const char* algorithm, double tolerance) {
        const auto run = [&] {
            return algorithm == nullptr ? simulate_offloaded(job) : host(job, algorithm);
        };
        job.sharing = Sharing::kFifo;
        const double fifo = ns(run().latency.mean);
        job.sharing = Sharing::kMaxMin;
        EXPECT_NEAR(fifo / ns(run().latency.mean), 1, tolerance) << (algorithm ? algorithm : "offloaded");
    };
    Job job = rough();
    job.iterations = 1;
    compare(job, nullptr, 0.1);
    compare(job, "pairwise", 0.07);
    compare(job, "linear", 0.07);
    job.placement = Placement::kStrided;
    compare(job, nullptr, 0.1);
    job.collective = Collective::kAllgatherv;
    // Four transfers that begin together: the first is over after a quarter of the time, or with the last.
    compare(job, "ring", 0.1);
}

TEST(Timed, WhatCannotBeIsRefused) {
    Job job = rough();
    EXPECT_EQ(refusal(job), "");
    job.nodes = 100;
    EXPECT_NE(refusal(job).find("64 ports"), std::string::npos);
    job = rough();
    job.ranks_per_node = 65;
    EXPECT_NE(refusal(job).find("64 cores"), std::string::npos);
    job = rough();
    job.block_bytes = uint64_t{1} << 31;
    EXPECT_NE(refusal(job), "");
}

}  // namespace
}  // namespace longshore::timed
