#include "bench/lateness.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace longshore::bench {
namespace {

constexpr int kIterations = 20000;
constexpr std::uint32_t kRanks = 8;

std::vector<double> all_of(const Lateness& lateness) {
    std::vector<double> all;
    for (std::uint64_t i = 0; i < kIterations; ++i)
        for (std::uint32_t rank = 0; rank < kRanks; ++rank) all.push_back(lateness.of(i, rank));
    return all;
}

TEST(Lateness, ShareBoundsAndMean) {
    std::vector<double> all = all_of(Lateness(7, kLateShare));
    const double entries = double(all.size());
    std::erase(all, 0.0);
    EXPECT_NEAR(double(all.size()) / entries, kLateShare, 0.003);  // some four standard deviations
    const auto [least, most] = std::minmax_element(all.begin(), all.end());
    EXPECT_GE(*least, kLatenessMin);
    EXPECT_LE(*most, kLatenessMax);
    EXPECT_LT(*least, kLatenessMin + 0.01);
    EXPECT_GT(*most, kLatenessMax - 0.01);
    double sum = 0;
    for (const double late : all) sum += late;
    EXPECT_NEAR(sum / double(all.size()), (kLatenessMin + kLatenessMax) / 2, 0.005);
}

TEST(Lateness, NobodyOrEverybody) {
    for (const double late : all_of(Lateness(1, 0))) ASSERT_EQ(late, 0);
    for (const double late : all_of(Lateness(1, 1))) ASSERT_GE(late, kLatenessMin);
}

TEST(Lateness, FollowsFromTheSeed) {
    EXPECT_EQ(all_of(Lateness(3, 0.5)), all_of(Lateness(3, 0.5)));
    EXPECT_NE(all_of(Lateness(3, 0.5)), all_of(Lateness(4, 0.5)));
}

// Neither the same rank always, nor all at once.
TEST(Lateness, RanksAreLateIndependently) {
    const Lateness lateness(11, 0.5);
    for (std::uint32_t rank = 1; rank < kRanks; ++rank) {
        int together = 0;
        for (std::uint64_t i = 0; i < kIterations; ++i)
            together += lateness.of(i, 0) > 0 && lateness.of(i, rank) > 0;
        EXPECT_NEAR(double(together) / kIterations, 0.25, 0.02) << "ranks 0 and " << rank;
    }
}

TEST(CallTimes, WaitingForTheLastIsUnavoidable) {
    const std::vector<double> entry = {10, 100}, exit = {50, 130}, last = {30, 100};
    const CallTimes times = split(entry, exit, last);
    EXPECT_EQ(times.total, (std::vector<double>{40, 30}));
    EXPECT_EQ(times.unavoidable, (std::vector<double>{20, 0}));
    const CallMean all = mean(times);
    EXPECT_DOUBLE_EQ(all.total, 35);
    EXPECT_DOUBLE_EQ(all.unavoidable, 10);
    EXPECT_DOUBLE_EQ(all.avoidable(), 25);
    EXPECT_DOUBLE_EQ(mean(times, 1, 5).avoidable(), 30);  // there is only one from there on
    EXPECT_DOUBLE_EQ(mean(CallTimes{}).avoidable(), 0);
}

TEST(CallTimes, SumIsPerIteration) {
    CallTimes both = sum({{1, 2}, {0, 1}}, {{10, 20}, {5, 6}});
    EXPECT_EQ(both.total, (std::vector<double>{11, 22}));
    EXPECT_EQ(both.unavoidable, (std::vector<double>{5, 7}));
    append(both, {{3}, {2}});
    EXPECT_EQ(both.total.size(), 3u);
    EXPECT_EQ(both.unavoidable.back(), 2);
}

TEST(CallTimes, RatioOfEachTurn) {
    const CallTimes ours = {{3, 5, 12}, {1, 1, 2}}, theirs = {{5, 9, 22}, {1, 1, 2}};
    const std::vector<double> ratios = avoidable_ratios(ours, theirs, 2);  // 3 of 6, then 10 of 20
    ASSERT_EQ(ratios.size(), 2u);
    EXPECT_DOUBLE_EQ(ratios[0], 0.5);
    EXPECT_DOUBLE_EQ(ratios[1], 0.5);
    EXPECT_EQ(avoidable_ratios(ours, {{1, 1, 2}, {1, 1, 2}}, 3),
              std::vector<double>{0});  // nothing to divide by
}

}  // namespace
}  // namespace longshore::bench
