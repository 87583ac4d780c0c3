// DPU-Bench's patterns in the model, against closed forms and against what the paper says of their shape.
#include "model/staged.h"

#include <gtest/gtest.h>

#include "model/machine.h"

namespace longshore::tools {
namespace {

using dpu_bench::Assignment;
using dpu_bench::Pattern;
using timed::kNanosecond;
using timed::Time;

constexpr uint64_t kGiga = 1'000'000'000;
constexpr size_t kBlock = 1 << 20;
constexpr Time kBlockTime = 104'857'600;      // on the link
constexpr Time kToDpu = 200 * kNanosecond;    // and back: two crossings of the host's bus
constexpr Time kWay = 700 * kNanosecond;      // from one memory to another over the switch
constexpr Time kRequest = 200 * kNanosecond;  // of a read on the own node
constexpr Time kFarRequest = 700 * kNanosecond;

timed::Machine ideal() {
    constexpr uint64_t kAtOnce = 1'000'000 * kGiga;
    timed::Machine m;
    m.name = "ideal";
    m.cores = 64, m.dpu_cores = 16, m.switch_ports = 64;
    m.memory_rate = m.memory_core_rate = m.pcie_rate = m.dpu_memory_rate = kAtOnce;
    m.link_rate = 10 * kGiga;
    m.pcie_latency = 100 * kNanosecond;
    m.link_latency = 200 * kNanosecond;
    m.switch_latency = 100 * kNanosecond;
    return m;
}

StagedJob job(Pattern pattern, int hosts, int workers, int nodes) {
    return {{hosts, workers}, nodes, pattern, Assignment::kCyclic, kBlock, 1};
}

void expect_near(Time time, Time expected) {
    EXPECT_NEAR(static_cast<double>(time), static_cast<double>(expected), 10 * kNanosecond);
}

// Two nodes of two hosts. The root writes one block to its neighbour, and two over its link; a worker beside
// it reads the block first.
TEST(Staged, ABroadcastByOneWorker) {
    const StagedTimes times = simulate_staged(job(Pattern::kBcast, 4, 1, 2), ideal());
    expect_near(times.reference, 2 * kBlockTime + kWay);
    expect_near(times.communication, kRequest + kToDpu + 2 * kBlockTime + kWay);
    EXPECT_LT(times.efficiency(), 100);
    EXPECT_GT(times.efficiency(), 99);
}

// The worker on the other node reads the block over the link, and both write: one to host 1 of its own node
// and to host 3, the other to host 2 of its own.
TEST(Staged, ABroadcastByAWorkerOnEachNode) {
    const StagedTimes times = simulate_staged(job(Pattern::kBcast, 4, 2, 2), ideal());
    // Block and read leave the root's card by the same link.
    EXPECT_GE(times.communication, kFarRequest + kBlockTime + kWay + kToDpu - kNanosecond);
    EXPECT_LE(times.communication, 2 * kBlockTime + kRequest + kFarRequest + kWay + 2 * kToDpu);
}

// All that the others give passes the first worker; its node's link is the bound, and two more phases come
// after it.
TEST(Staged, ALeaderIsTheBound) {
    const auto of = [](Pattern pattern) { return simulate_staged(job(pattern, 16, 4, 4), ideal()); };
    const StagedTimes leader = of(Pattern::kAllgatherLeader), multi = of(Pattern::kAllgatherMulti);
    // To each of 12 hosts on other nodes all 16 blocks, over one link.
    EXPECT_GE(leader.communication, 12 * 16 * kBlockTime);
    EXPECT_LT(multi.communication, leader.communication / 2);
    EXPECT_EQ(leader.reference, multi.reference);
    EXPECT_LT(leader.efficiency(), 50);
    EXPECT_GT(multi.efficiency(), 90);
}

TEST(Staged, TheSameSeedGivesTheSameTimes) {
    timed::Machine machine = ideal();
    machine.dpu_message = 300 * kNanosecond;
    machine.jitter_cost = 100'000;
    StagedJob one = job(Pattern::kGather, 8, 4, 4);
    one.bytes = 1024;
    const Time first = simulate_staged(one, machine).communication;
    EXPECT_EQ(simulate_staged(one, machine).communication, first);
    one.seed = 2;
    EXPECT_NE(simulate_staged(one, machine).communication, first);
}

TEST(Staged, WhatCannotBeIsRefused) {
    EXPECT_EQ(refusal(job(Pattern::kBcast, 8, 4, 4), ideal()), "");
    EXPECT_NE(refusal(job(Pattern::kBcast, 8, 9, 4), ideal()), "");
    timed::Machine machine = ideal();
    machine.dpu_cores = 1;
    EXPECT_NE(refusal(job(Pattern::kBcast, 8, 8, 4), machine).find("has 1 cores, and 2 workers"),
              std::string::npos);
    machine = ideal();
    machine.cores = 1;
    EXPECT_NE(refusal(job(Pattern::kBcast, 8, 4, 4), machine).find("2 ranks"), std::string::npos);
}

}  // namespace
}  // namespace longshore::tools
