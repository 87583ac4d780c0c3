#include "bench/stages.h"

#include <gtest/gtest.h>

#include <vector>

namespace longshore::bench {
namespace {

TEST(Stages, FollowEachOther) {
    const Stages stages = stages_of({1, 3, 6, 10, 15, 21});
    EXPECT_EQ(stages, (Stages{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(total(stages), 21);
}

TEST(Stages, AreNeverNegativeAndAddUp) {
    // Read before the last block had landed; a chunk moved before its rank had looked at the clock.
    const Stages stages = stages_of({2, 1, 1.5, 10, 8, 12});
    EXPECT_EQ(stages, (Stages{2, 0, 0, 8, 0, 2}));
}

TEST(Stages, BlocksMoveBeforeTheLastRankEnters) {
    const Stages stages = stages_of({1, 9, 4, 12, 12, 13});
    EXPECT_EQ(stages, (Stages{1, 3, 0, 8, 0, 1}));
}

TEST(Stages, ARootReceivesNothing) {
    const Stages stages = stages_of({1, 2, 3, -1, 8, 9});
    EXPECT_EQ(stages, (Stages{1, 1, 1, 5, 0, 1}));
}

TEST(Stages, NothingMoved) {
    const Stages stages = stages_of({1, 2, -1, -1, -1, 7});
    EXPECT_EQ(stages, (Stages{1, 1, 0, 0, 0, 5}));
}

TEST(Stages, WhatHappensAfterTheReturnIsNotPartOfTheCall) {
    // A copy of a small block is read when its rank has long gone.
    EXPECT_EQ(total(stages_of({1, 2, 3, 4, 50, 6})), 6);
}

TEST(Stages, TheSlowestCallCounts) {
    const std::vector<Stages> ranks = {{1, 0, 0, 0, 0, 0}, {0, 0, 2, 0, 0, 1}, {0, 2, 0, 0, 0, 0}};
    EXPECT_EQ(slowest(ranks), 1u);
}

}  // namespace
}  // namespace longshore::bench
