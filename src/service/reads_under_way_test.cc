#include "service/reads_under_way.h"

#include <gtest/gtest.h>

namespace longshore {
namespace {

constexpr uint64_t kChunk = 1 << 20;

TEST(ReadsUnderWay, AReadKnowsWhenItWasPostedAndBehindHowMuch) {
    ReadsUnderWay reads(4, kChunk);
    reads.post(0, 100, 1000);
    reads.post(3, 200, 1500);
    const ReadsUnderWay::Read last = reads.finish(3, 2000);
    EXPECT_EQ(last.posted_ns, 1500u);
    EXPECT_EQ(last.bytes, 200u);
    EXPECT_EQ(last.behind, 100u);
    EXPECT_EQ(reads.finish(3, 2000).bytes, 0u) << "it has come already";
    EXPECT_EQ(reads.finish(0, 3000).behind, 0u);
}

TEST(ReadsUnderWay, MovesThroughStagingMemoryAreNotReads) {
    ReadsUnderWay reads(4, kChunk);
    reads.post(4, 100, 1000);
    EXPECT_FALSE(reads.asks_core_wait(10'000'000)) << "nothing is under way";
    EXPECT_EQ(reads.finish(4, 2000).bytes, 0u);
}

TEST(ReadsUnderWay, AsksNowAndThenHowLongTheCoreIsWaitedFor) {
    ReadsUnderWay reads(4, kChunk);
    reads.post(0, 100, 5'000'000);
    EXPECT_TRUE(reads.asks_core_wait(5'000'000));
    reads.set_core_wait(10, 5'000'000);
    EXPECT_FALSE(reads.asks_core_wait(5'999'999));
    EXPECT_TRUE(reads.asks_core_wait(6'000'000));
    reads.finish(0, 6'000'000);
    EXPECT_FALSE(reads.asks_core_wait(9'000'000));
}

TEST(ReadsUnderWay, TheWindowIsAtMostWhatAllReadsHold) {
    EXPECT_EQ(ReadsUnderWay(2, kChunk).window_bytes(), 2 * kChunk);
}

}  // namespace
}  // namespace longshore
