#include "service/pace.h"

#include <gtest/gtest.h>

namespace longshore {
namespace {

constexpr Pace::Outlook kNothing{false, false, false}, kActive{false, true, false},
    kBlocked{true, true, false}, kYielded{false, true, true};

TEST(Pace, ItSleepsAfterATurnWithoutWorkAsLongAsThereIsNothingToWatch) {
    Pace pace;
    pace.begin_turn(1);
    EXPECT_EQ(pace.take_wait_ns(1, kNothing), Pace::kIdleWaitNs);
    pace.end_turn(true, false, 2);
    EXPECT_EQ(pace.take_wait_ns(3, kNothing), 0u);
    pace.end_turn(false, false, 4);
    EXPECT_EQ(pace.take_wait_ns(5, kActive), Pace::kTickNs);
    EXPECT_EQ(pace.take_wait_ns(5, kBlocked), Pace::kBlockedWaitNs);
}

TEST(Pace, ItSpinsForAWhileFirst) {
    Pace pace;
    pace.set_spin(1000);
    pace.begin_turn(1);
    pace.end_turn(true, false, 10);
    EXPECT_FALSE(pace.spins(11)) << "the last turn worked";
    pace.end_turn(false, false, 20);
    EXPECT_TRUE(pace.spins(1009));
    EXPECT_EQ(pace.take_wait_ns(1009, kActive), 0u);
    EXPECT_FALSE(pace.spins(1010));
    EXPECT_NE(pace.take_wait_ns(1010, kActive), 0u);
}

TEST(Pace, LooksAtYieldedBlocksBecomeRarerUntilSomethingIsDone) {
    Pace pace;
    pace.begin_turn(1);
    uint64_t last = 0;
    for (int i = 0; i < 10; ++i) {
        pace.end_turn(false, true, 1);
        EXPECT_TRUE(pace.leaves_all_to_ranks());
        const uint64_t wait = pace.take_wait_ns(2, kYielded);
        EXPECT_GE(wait, last);
        last = wait;
    }
    EXPECT_EQ(last, Pace::kYieldedWaitMaxNs);
    pace.end_turn(true, true, 3);
    EXPECT_FALSE(pace.leaves_all_to_ranks());
    pace.end_turn(false, true, 4);
    EXPECT_EQ(pace.take_wait_ns(5, kYielded), Pace::kYieldedWaitNs);
}

TEST(Pace, TicksComeWhileTheEngineIsActive) {
    Pace pace;
    pace.begin_turn(100);
    EXPECT_FALSE(pace.take_tick(99 + Pace::kTickNs, true));
    EXPECT_FALSE(pace.take_tick(100 + Pace::kTickNs, false));
    EXPECT_TRUE(pace.take_tick(100 + Pace::kTickNs, true));
    EXPECT_FALSE(pace.take_tick(101 + Pace::kTickNs, true));
}

}  // namespace
}  // namespace longshore
