// What a small operation on one node does not do: each of these would fetch a cache line from another core,
// or make a system call, for nothing.
#include <gtest/gtest.h>

#include <cstring>

#include "cluster.h"

namespace longshore {
namespace {

constexpr uint64_t kSmallBlock = 48;  // one chunk

struct Pair {
    explicit Pair(bool stable) : cluster(shape()) {
        for (uint32_t r = 0; r < 2; ++r) {
            arguments[r].group = cluster.group();
            arguments[r].rank = Rank{r};
            arguments[r].sequence = 1;
            arguments[r].send_is_stable = stable;
            arguments[r].send_block_bytes = arguments[r].recv_block_bytes = kSmallBlock;
            arguments[r].send = cluster.add_region(r, send[r], sizeof send[r]);
            arguments[r].recv = cluster.add_region(r, recv[r], sizeof recv[r]);
        }
    }
    static Cluster::Shape shape() {
        Cluster::Shape s;
        s.ranks_of_node = {2};
        s.run_services = false;
        return s;
    }
    const NodeMemory& memory() { return cluster.rank(0).memory(); }
    RankSlot& slot(uint32_t r) { return memory().rank(cluster.local(r)); }
    ServiceSlot& service() { return memory().service(ServiceId{0}); }
    PostResult post(uint32_t r, bool ring_services = false) {
        return cluster.rank(r).post(arguments[r], ring_services, &record[r], &wake);
    }
    // How many chunks rank r finds to move.
    uint32_t move_all(uint32_t r) {
        uint32_t count = 0;
        for (Copy copy; cluster.rank(r).claim(record[r], &copy); ++count)
            cluster.rank(r).finish(copy, MoveResult::kMoved, &wake);
        return count;
    }
    bool complete(uint32_t r) { return cluster.rank(r).poll(record[r]) == Progress::kComplete; }

    uint8_t send[2][2 * kSmallBlock] = {}, recv[2][2 * kSmallBlock] = {};
    Cluster cluster;
    OperationArguments arguments[2];
    RecordId record[2];
    WakeSet wake;
};

TEST(Small, StableBlocksAreFetchedNotPushed) {
    Pair p(true);
    ASSERT_EQ(p.post(0), PostResult::kPosted);
    ASSERT_EQ(p.post(1), PostResult::kPosted);
    EXPECT_EQ(p.move_all(0), 2u);  // its own, and the other's
    EXPECT_TRUE(p.complete(0));
    EXPECT_FALSE(p.complete(1));
    EXPECT_EQ(p.move_all(1), 2u);
    EXPECT_TRUE(p.complete(1));
}

TEST(Small, OthersArePushed) {
    Pair p(false);
    ASSERT_EQ(p.post(0), PostResult::kPosted);
    ASSERT_EQ(p.post(1), PostResult::kPosted);
    EXPECT_EQ(p.move_all(0), 3u);
    EXPECT_EQ(p.move_all(1), 1u);
    EXPECT_TRUE(p.complete(0) && p.complete(1));
}

TEST(Small, AStableRecordIsLookedAtInTheNextReap) {
    Pair p(true);
    ASSERT_EQ(p.post(0), PostResult::kPosted);
    ASSERT_EQ(p.post(1), PostResult::kPosted);
    p.move_all(0);
    p.move_all(1);
    for (uint32_t r = 0; r < 2; ++r) {
        ASSERT_TRUE(p.complete(r));
        p.cluster.rank(r).release(p.record[r], &p.wake);
        EXPECT_EQ(p.cluster.rank(r).held_count(), 1u);
    }
    for (uint32_t r = 0; r < 2; ++r) EXPECT_EQ(p.cluster.rank(r).reap(&p.wake), 0u);
    EXPECT_EQ(p.slot(0).active[0].load() | p.slot(1).active[0].load(), 0u);
}

// Operations with the same blocks share what says where these are, as long as anybody keeps it.
TEST(Small, RepeatedBlocksAreWrittenOnce) {
    Pair p(true);
    const BlockSpan blocks[2] = {{0, kSmallBlock}, {kSmallBlock, kSmallBlock}};
    uint32_t kept[2];
    uint64_t place[2] = {};
    for (uint64_t sequence = 1; sequence <= 20; ++sequence) {
        for (uint32_t r = 0; r < 2; ++r) {
            p.arguments[r].collective = Collective::kAlltoallv;
            p.arguments[r].sequence = sequence;
            p.arguments[r].send_blocks = p.arguments[r].recv_blocks = blocks;
            p.cluster.rank(r).reap(&p.wake);
            ASSERT_EQ(p.post(r), PostResult::kPosted);
            const OperationRecord& record = p.memory().record(p.cluster.local(r), p.record[r]);
            if (sequence == 1) {
                kept[r] = p.cluster.rank(r).keep_arrays(p.record[r]);
                ASSERT_NE(kept[r], kNoArrays);
                p.arguments[r].arrays = kept[r];
                place[r] = record.recv_blocks_offset;
            }
            EXPECT_EQ(record.recv_blocks_offset, place[r]);
            EXPECT_EQ(record.chunk_count.load(), 2u);
        }
        EXPECT_EQ(p.move_all(0) + p.move_all(1), 4u);
        for (uint32_t r = 0; r < 2; ++r) ASSERT_TRUE(p.complete(r));
        for (uint32_t r = 0; r < 2; ++r) p.cluster.rank(r).release(p.record[r], &p.wake);
    }
    // Dropped while a record is still held, they go with it; others of the same size then take their place.
    for (uint32_t r = 0; r < 2; ++r) p.cluster.rank(r).drop_arrays(kept[r]);
    for (uint32_t r = 0; r < 2; ++r) EXPECT_EQ(p.cluster.rank(r).reap(&p.wake), 0u);
    p.arguments[0].arrays = kNoArrays;
    p.arguments[0].sequence = 21;
    ASSERT_EQ(p.post(0), PostResult::kPosted);
    EXPECT_EQ(p.memory().record(p.cluster.local(0), p.record[0]).recv_blocks_offset, place[0]);
}

TEST(Small, NobodyRingsItself) {
    Pair p(true);
    ASSERT_EQ(p.post(0), PostResult::kPosted);
    ASSERT_EQ(p.post(1), PostResult::kPosted);
    const uint32_t own = p.slot(0).events.load(), others = p.slot(1).events.load();
    p.move_all(0);
    EXPECT_EQ(p.slot(0).events.load(), own);
    EXPECT_EQ(p.slot(1).events.load(), others + 1);  // its block has been read
}

TEST(Small, ASleepingServiceIsToldOnlyOfWhatItIsNeededFor) {
    Pair p(true);
    const uint32_t before = p.service().events.load();
    p.service().sleeping.store(1);
    ASSERT_EQ(p.post(0), PostResult::kPosted);
    EXPECT_EQ(p.service().events.load(), before);
    ASSERT_EQ(p.post(1, true), PostResult::kPosted);
    EXPECT_EQ(p.service().events.load(), before + 1);
    EXPECT_EQ(p.wake.services, 1u);
}

TEST(Small, OneThatIsAwakeIsTold) {
    Pair p(true);
    const uint32_t before = p.service().events.load();
    ASSERT_EQ(p.post(0), PostResult::kPosted);
    EXPECT_EQ(p.service().events.load(), before + 1);
    EXPECT_EQ(p.wake.services, 0u);
}

// A service process that looks at an operation while its rank leaves it and begins the next one in the same
// record: what it finds out about the one that is over is not said of the next.
TEST(Records, AnErrorBelongsToOneUseOfTheRecord) {
    OperationRecord record{};
    record.error.store(error_word(8, OperationError::kNone));
    note_error(record, 7, OperationError::kUnreadable);
    EXPECT_EQ(error_in(record.error.load()), OperationError::kNone);
    note_error(record, 8, OperationError::kTruncated);
    note_error(record, 8, OperationError::kUnreadable);
    EXPECT_EQ(error_in(record.error.load()), OperationError::kTruncated);
    EXPECT_EQ(record.error.load(), error_word(8, OperationError::kTruncated));
}

}  // namespace
}  // namespace longshore
