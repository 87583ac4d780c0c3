#include "../lateness.h"

#include <gtest/gtest.h>

namespace {

TEST(Lateness, IsAsOftenAndAsLongAsSaid) {
    const Lateness lateness{0.3, 0.09, 7};
    int late = 0;
    constexpr int kCalls = 20000;
    for (int call = 0; call < kCalls; ++call) {
        const double seconds = lateness.seconds(std::uint64_t(call), 0, 1);
        if (seconds == 0) continue;
        ++late;
        EXPECT_GE(seconds, 0.15 * 0.3);
        EXPECT_LE(seconds, 0.5 * 0.3);
    }
    EXPECT_NEAR(late / double(kCalls), 0.09, 0.01);
}

TEST(Lateness, IsTwoOfThreeTimesThatOfTheWholeNode) {
    const Lateness lateness{0.3, 0.09, 3};
    int both = 0, one = 0;
    for (std::uint64_t call = 0; call < 20000; ++call) {
        const double a = lateness.seconds(call, 5, 10), b = lateness.seconds(call, 5, 11);
        if (a == 0) continue;
        (a == b ? both : one) += 1;
    }
    EXPECT_NEAR(both / double(both + one), 2.0 / 3, 0.05);
}

TEST(Lateness, IsTheSameInEveryRun) {
    const Lateness a{0.3, 0.5, 1}, b{0.3, 0.5, 1}, other{0.3, 0.5, 2};
    int differ = 0;
    for (std::uint64_t call = 0; call < 100; ++call) {
        EXPECT_EQ(a.seconds(call, 0, 0), b.seconds(call, 0, 0));
        differ += a.seconds(call, 0, 0) != other.seconds(call, 0, 0);
    }
    EXPECT_GT(differ, 10);
}

TEST(Lateness, IsNoneWithoutALength) {
    const Lateness lateness{0, 1, 1};
    EXPECT_EQ(lateness.seconds(1, 2, 3), 0);
}

}  // namespace
