// Numbers that begin again after their last one (docs/decisions/0054-numbers-that-wrap.md): whoever holds an
// old one sees that it is old, and work goes on. The simulator does the same with whole worlds (before_wrap).
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/serial.h"
#include "cluster.h"
#include "engine/hand_over.h"

namespace longshore {
namespace {

// A rank that waits for the 2^31st time, and goes on.
TEST(HandedCopies, WaitsBeyondTheLastSerialNumber) {
    HandedCopies rank(UINT32_MAX - 5);
    uint32_t before = UINT32_MAX - 5;
    for (int i = 0; i < 8; ++i) {
        ASSERT_TRUE(rank.attend());
        ASSERT_TRUE(rank.leave());
        const uint32_t first = rank.serial();
        ASSERT_TRUE(rank.attend()) << "before the leave is answered";
        ASSERT_TRUE(rank.leave());
        EXPECT_FALSE(rank.left(before)) << "it was answered";
        EXPECT_FALSE(rank.left(rank.serial() + 2)) << "it was not said";
        ASSERT_TRUE(rank.left(first));
        EXPECT_TRUE(rank.is_leaving());
        ASSERT_TRUE(rank.left(rank.serial()));
        EXPECT_FALSE(rank.is_attended());
        before = rank.serial();
    }
    EXPECT_LT(before, 100u);
}

TEST(Serial, IsLaterAcrossTheWrap) {
    EXPECT_TRUE(is_after(1, 0));
    EXPECT_FALSE(is_after(0, 1));
    EXPECT_FALSE(is_after(7, 7));
    EXPECT_TRUE(is_after(0, UINT32_MAX));
    EXPECT_FALSE(is_after(UINT32_MAX, 0));
    EXPECT_TRUE(is_after(0x7fffffff, 0));
    EXPECT_TRUE(is_after(0x80000000, 1));
}

TEST(Serial, NumbersOfCopiesBeginAgain) {
    HandOver stand_in(HandOver::kSerialMax - 20);
    std::set<uint32_t> numbers;
    for (uint32_t i = 0; i < 40; ++i) {
        Copy copy, back;
        copy.bytes = i;
        const uint32_t number = stand_in.give(copy);
        ASSERT_NE(number, 0u) << "a place that is free";
        EXPECT_TRUE(numbers.insert(number).second) << number;
        ASSERT_TRUE(stand_in.take_back(number, &back));
        EXPECT_EQ(back.bytes, i);
        EXPECT_FALSE(stand_in.take_back(number, &back));
    }
}

constexpr uint32_t kExchangedBlock = 200;  // four chunks

// An alltoall of ranks on two nodes, again and again.
struct Exchanges {
    explicit Exchanges(uint64_t generation) : cluster(shape(generation)), send(kRanks), recv(kRanks) {
        for (uint32_t r = 0; r < kRanks; ++r) {
            send[r].resize(kRanks * kExchangedBlock);
            recv[r].resize(kRanks * kExchangedBlock);
            send_at[r] = cluster.add_region(r, send[r].data(), send[r].size());
            recv_at[r] = cluster.add_region(r, recv[r].data(), recv[r].size());
        }
    }
    static Cluster::Shape shape(uint64_t generation) {
        Cluster::Shape s;
        s.ranks_of_node = {2, 1};
        s.generation = generation;
        return s;
    }
    OperationArguments arguments(uint32_t r, uint64_t sequence) {
        OperationArguments a;
        a.group = cluster.group();
        a.rank = Rank{r};
        a.sequence = sequence;
        a.send_block_bytes = a.recv_block_bytes = kExchangedBlock;
        a.send = send_at[r];
        a.recv = recv_at[r];
        return a;
    }
    uint64_t generation_of(uint32_t r, RecordId record) {
        return cluster.rank(r).memory().record(cluster.local(r), record).generation.load();
    }

    static constexpr uint32_t kRanks = 3;
    Cluster cluster;
    std::vector<std::vector<uint8_t>> send, recv;
    MemoryRef send_at[kRanks], recv_at[kRanks];
};

TEST(Generation, BeginsAgainAt1AndOperationsGoOn) {
    Exchanges e(kGenerationMax - 2);
    for (uint64_t sequence = 1; sequence <= 5; ++sequence) {
        std::vector<std::pair<uint32_t, RecordId>> records;
        for (uint32_t r = 0; r < e.kRanks; ++r) {
            std::fill(e.send[r].begin(), e.send[r].end(), static_cast<uint8_t>(16 * sequence + r));
            RecordId record;
            ASSERT_EQ(e.cluster.post(r, e.arguments(r, sequence), &record), PostResult::kPosted);
            records.emplace_back(r, record);
            EXPECT_EQ(e.generation_of(r, record),
                      sequence <= 2 ? kGenerationMax - 2 + sequence : sequence - 2);
        }
        ASSERT_TRUE(e.cluster.run(records)) << "operation " << sequence;
        for (const auto& [r, record] : records) {
            EXPECT_EQ(e.cluster.rank(r).error(record), OperationError::kNone);
            for (uint32_t from = 0; from < e.kRanks; ++from)
                for (uint32_t i = 0; i < kExchangedBlock; ++i)
                    ASSERT_EQ(e.recv[r][from * kExchangedBlock + i], 16 * sequence + from)
                        << r << " from " << from;
            e.cluster.release(r, record);
        }
    }
    EXPECT_TRUE(e.cluster.clean());
}

// A service process told the rank once that an operation was complete. The record had other uses, of which
// nobody told it, until its generation came again.
TEST(Generation, WhatAFormerUseLeftInARecordCompletesNothing) {
    Exchanges e(kGenerationMax);
    const NodeMemory& memory = e.cluster.rank(0).memory();
    for (uint32_t i = 0; i < memory.limits().records_max; ++i)
        memory.record(e.cluster.local(0), RecordId{i}).completed.store(1);
    RecordId record;
    ASSERT_EQ(e.cluster.post(0, e.arguments(0, 1), &record), PostResult::kPosted);
    ASSERT_EQ(e.generation_of(0, record), 1u);
    EXPECT_EQ(e.cluster.rank(0).poll(record), Progress::kPending);
}

}  // namespace
}  // namespace longshore
