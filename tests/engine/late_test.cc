// Notifications that come before their rank has entered: counted by collective, and for how long they were
// parked, by the time that the driver tells.
#include <gtest/gtest.h>

#include <map>

#include "cluster.h"

namespace longshore {
namespace {

constexpr uint64_t kBlock = 100;

// Node 0: rank 0. Node 1: rank 1 of service process 0, and rank 2 of service process 1. What rank 0 gives to
// node 1 goes to service process 0 first.
class Late : public testing::Test {
  protected:
    static Cluster::Shape shape() {
        Cluster::Shape s;
        s.ranks_of_node = {1, 2};
        s.services = 2;
        return s;
    }
    void set_now(uint64_t ns) {
        for (uint32_t node = 0; node < 2; ++node)
            for (uint32_t s = 0; s < 2; ++s) cluster_.service(node, s).set_now(ns);
    }
    // Then everybody moves what can be moved.
    void enter(Collective collective, uint64_t sequence, uint32_t rank) {
        OperationArguments a;
        a.sequence = sequence;
        a.collective = collective;
        a.send = cluster_.add_region(rank, send_[rank], sizeof send_[rank]);
        a.recv = cluster_.add_region(rank, recv_[rank], sizeof recv_[rank]);
        a.send_block_bytes = a.recv_block_bytes = kBlock;
        ASSERT_EQ(cluster_.post(rank, a, &records_[rank]), PostResult::kPosted);
        cluster_.run({});
    }
    void finish() {
        ASSERT_TRUE(cluster_.run({records_.begin(), records_.end()}));
        for (const auto& [rank, record] : records_) cluster_.release(rank, record);
        records_.clear();
        EXPECT_TRUE(cluster_.run({}));
    }
    const LateCounters& at(uint32_t s, Collective collective) {
        return cluster_.service(1, s).counters().late_of(collective);
    }

    Cluster cluster_{shape()};
    uint8_t send_[3][3 * kBlock] = {}, recv_[3][3 * kBlock] = {};
    std::map<uint32_t, RecordId> records_;
};

TEST_F(Late, HandedOnIsRescuedByTheOtherRank) {
    enter(Collective::kAllgather, 1, 2);
    enter(Collective::kAllgather, 1, 0);
    const LateCounters &first = at(0, Collective::kAllgather), &second = at(1, Collective::kAllgather);
    EXPECT_EQ(first.received, 1u);
    EXPECT_EQ(first.late, 1u);
    EXPECT_EQ(first.handed_on, 1u);
    EXPECT_EQ(second.received, 0u);  // handed on, not from another node
    EXPECT_EQ(second.late, 0u);
    EXPECT_EQ(second.rescued, 1u);
    EXPECT_EQ(first.parked + second.parked, 0u);
    enter(Collective::kAllgather, 1, 1);
    finish();
    EXPECT_EQ(first.readers, 0u);
    EXPECT_EQ(second.readers, 1u);  // named by who serves it
    EXPECT_TRUE(cluster_.clean());
}

TEST_F(Late, ParkedForAsLongAsNobodyEntered) {
    const LateCounters &first = at(0, Collective::kAllgatherv), &second = at(1, Collective::kAllgatherv);
    for (uint64_t sequence = 1; sequence <= 2; ++sequence) {
        set_now(1000 * sequence);
        enter(Collective::kAllgatherv, sequence, 0);
        set_now(1000 * sequence + 70 / sequence);  // 70 ns, then 35
        enter(Collective::kAllgatherv, sequence, 1);
        set_now(1000 * sequence + 500);
        enter(Collective::kAllgatherv, sequence, 2);
        finish();
    }
    EXPECT_EQ(first.late, 2u);
    EXPECT_EQ(first.handed_on, 0u);
    EXPECT_EQ(first.parked, 2u);
    EXPECT_EQ(first.rescued + second.rescued, 0u);  // by a rank that came later, not by one that was there
    EXPECT_EQ(first.parked_ns, 105u);
    EXPECT_EQ(first.parked_longest_ns, 70u);
    EXPECT_EQ(second.parked_ns, 0u);
    EXPECT_EQ(first.readers + second.readers, 2u);  // of two blocks, however many ranks are there
    EXPECT_TRUE(cluster_.clean());
}

TEST_F(Late, ClocksThatDisagreeParkForNoTime) {
    set_now(1000);
    enter(Collective::kAllgather, 1, 0);
    set_now(400);
    enter(Collective::kAllgather, 1, 1);
    enter(Collective::kAllgather, 1, 2);
    finish();
    EXPECT_EQ(at(0, Collective::kAllgather).parked, 1u);
    EXPECT_EQ(at(0, Collective::kAllgather).parked_ns, 0u);
    EXPECT_EQ(at(0, Collective::kAllgather).parked_longest_ns, 0u);
}

TEST_F(Late, HeldForItsRankCountsForItsCollective) {
    enter(Collective::kAlltoall, 1, 0);
    for (uint32_t s = 0; s < 2; ++s) {
        EXPECT_EQ(at(s, Collective::kAlltoall).received, 1u);
        EXPECT_EQ(at(s, Collective::kAlltoall).late, 1u);
        EXPECT_EQ(at(s, Collective::kAlltoall).handed_on + at(s, Collective::kAlltoall).parked, 0u);
    }
    enter(Collective::kAlltoall, 1, 1);
    enter(Collective::kAlltoall, 1, 2);
    finish();
    EXPECT_EQ(cluster_.service(0, 0).counters().late_of(Collective::kAlltoall).late, 0u);
    for (Collective other : {Collective::kAlltoallv, Collective::kAllgather, Collective::kBcast})
        EXPECT_EQ(at(0, other).received + at(0, other).late, 0u);
    EXPECT_TRUE(cluster_.clean());
}

// What had to wait is handed to another service process when a rank of that one enters first.
TEST_F(Late, WhatWaitsIsHandedToWhoeverEntersFirst) {
    set_now(1000);
    enter(Collective::kAllgather, 1, 0);
    set_now(1300);
    enter(Collective::kAllgather, 1, 2);
    const LateCounters &first = at(0, Collective::kAllgather), &second = at(1, Collective::kAllgather);
    EXPECT_EQ(first.parked, 1u);
    EXPECT_EQ(first.parked_ns, 300u);
    EXPECT_EQ(first.handed_on, 1u);
    EXPECT_EQ(second.rescued, 0u);
    enter(Collective::kAllgather, 1, 1);
    finish();
    EXPECT_TRUE(cluster_.clean());
}

// What was dropped for want of room is asked for, and nobody asks any more when nothing was dropped.
TEST(Dropped, AskedForAndForgotten) {
    Cluster::Shape shape;
    shape.ranks_of_node = {1, 1};
    shape.ahead = 64;
    shape.service_limits.rows_max = 1;
    Cluster cluster(shape);
    constexpr uint64_t kOpen = 40, kBatches = 30;
    std::vector<uint8_t> bytes(2 * kOpen * 2 * kBlock);
    MemoryRef memory[2];
    for (uint32_t rank = 0; rank < 2; ++rank)
        memory[rank] = cluster.add_region(rank, bytes.data() + rank * kOpen * 2 * kBlock, kOpen * 2 * kBlock);
    uint64_t sequence = 0;
    // Some of what the second is told by then, it may have no room for.
    const auto batch = [&](Collective collective, uint64_t open, const std::vector<uint32_t>& order) {
        std::vector<std::pair<uint32_t, RecordId>> records;
        for (const uint32_t rank : order) {
            for (uint64_t i = 0; i < open; ++i) {
                OperationArguments a;
                a.sequence = sequence + i + 1;
                a.collective = collective;
                a.send = a.recv = memory[rank];
                a.recv.offset += i * 2 * kBlock;
                a.send_block_bytes = a.recv_block_bytes = kBlock;
                RecordId record;
                ASSERT_EQ(cluster.post(rank, a, &record), PostResult::kPosted);
                records.emplace_back(rank, record);
            }
            cluster.run({});
        }
        sequence += open;
        ASSERT_TRUE(cluster.run(records));
        for (const auto& [rank, record] : records) cluster.release(rank, record);
        ASSERT_TRUE(cluster.run({}));
    };
    for (const Collective collective : {Collective::kAllgather, Collective::kAlltoall}) {
        const uint64_t dropped = cluster.service(1, 0).counters().dropped;
        cluster.requests = 0;
        for (uint64_t i = 0; i < kBatches; ++i) batch(collective, kOpen, {0, 1});
        EXPECT_GT(cluster.service(1, 0).counters().dropped, dropped + kBatches);
        EXPECT_GT(cluster.requests, kBatches);
        cluster.requests = 0;
        for (int i = 0; i < 40; ++i) batch(collective, 1, {1, 0});
        EXPECT_EQ(cluster.requests, 0u);
    }
    EXPECT_TRUE(cluster.clean());
}

}  // namespace
}  // namespace longshore
