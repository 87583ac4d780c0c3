#include "bench/statistics.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace longshore::bench {
namespace {

TEST(Summarize, NothingIsZero) {
    const Summary summary = summarize({});
    EXPECT_EQ(summary.min, 0);
    EXPECT_EQ(summary.p99, 0);
}

TEST(Summarize, OneSampleIsEverything) {
    const Summary summary = summarize(std::vector<double>{3.5});
    EXPECT_EQ(summary.min, 3.5);
    EXPECT_EQ(summary.median, 3.5);
    EXPECT_EQ(summary.p99, 3.5);
    EXPECT_EQ(summary.max, 3.5);
}

TEST(Summarize, OrderDoesNotMatter) {
    const Summary summary = summarize(std::vector<double>{4, 1, 3, 2});
    EXPECT_EQ(summary.min, 1);
    EXPECT_EQ(summary.median, 2.5);
    EXPECT_EQ(summary.max, 4);
}

TEST(Summarize, P99LeavesOneInAHundred) {
    std::vector<double> samples(100);
    std::iota(samples.begin(), samples.end(), 1.0);
    EXPECT_EQ(summarize(samples).p99, 99);
    samples.resize(50);  // 99 % of 50 is more than 49: no sample may exceed it
    EXPECT_EQ(summarize(samples).p99, 50);
}

TEST(Overlap, FollowsOsu) {
    EXPECT_DOUBLE_EQ(overlap_percent(0, 100), 100);
    EXPECT_DOUBLE_EQ(overlap_percent(25, 100), 75);
    EXPECT_DOUBLE_EQ(overlap_percent(100, 100), 0);
    EXPECT_DOUBLE_EQ(overlap_percent(190, 100), 0);  // never negative
    EXPECT_DOUBLE_EQ(overlap_percent(1, 0), 0);
}

TEST(Ratio, NothingOfNothing) {
    EXPECT_EQ(ratio(0, 0), 0);
    EXPECT_EQ(ratio(1, 4), 0.25);
}

TEST(AffordableIterations, KeepsToTheTime) {
    EXPECT_EQ(affordable_iterations(20, 1.0, 1.0, 10), 20);         // plenty of time
    EXPECT_EQ(affordable_iterations(20, 10'000.0, 1.0, 10), 10);    // 100 in all
    EXPECT_EQ(affordable_iterations(20, 5'000'000.0, 1.0, 10), 1);  // never none
    EXPECT_EQ(affordable_iterations(20, 0.0, 1.0, 10), 20);
}

}  // namespace
}  // namespace longshore::bench
