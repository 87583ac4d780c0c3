#include "tools/tune/table.h"

#include <gtest/gtest.h>

namespace longshore::tools {
namespace {

constexpr Carrier kMpi = Carrier::kMpi, kDirect = Carrier::kDirect, kStaged = Carrier::kStaged;

TunedPoint point(uint64_t nodes, uint64_t bytes, double mpi, double direct, double staged,
                 double spread = 0) {
    return {nodes, bytes, {{kMpi, mpi, spread}, {kDirect, direct, spread}, {kStaged, staged, spread}}};
}

std::string rules(Selected collective, std::vector<TunedPoint> points) {
    return format_rules(collective, make_rules(collective, std::move(points)));
}

TEST(TuneTable, DirectIsKeptWithinTheMargin) {
    EXPECT_EQ(pick_carrier(point(1, 1, 100, 104, 130).figures), kDirect);
    EXPECT_EQ(pick_carrier(point(1, 1, 100, 106, 130).figures), kMpi);
    EXPECT_EQ(pick_carrier(point(1, 1, 100, 106, 130, 0.1).figures), kDirect);
    EXPECT_EQ(pick_carrier(point(1, 1, 100, 130, 99, 0.9).figures), kStaged) << "noise excuses 25 % at most";
    EXPECT_EQ(pick_carrier(std::vector<Figure>{{kStaged, 2, 0}, {kMpi, 3, 0}}), kStaged);
}

TEST(TuneTable, BoundariesAreGeometricMeansInRoundNumbers) {
    EXPECT_EQ(boundary_between(1024, 4096), 2048u);
    EXPECT_EQ(boundary_between(4096, 8192), 6144u);
    EXPECT_EQ(boundary_between(4096, 65536), 16384u);
    EXPECT_EQ(boundary_between(1, 2), 2u);
    EXPECT_EQ(boundary_between(1000, 1001), 1001u);
    for (uint64_t a : {1u, 3u, 100u, 4096u, 999999u})
        for (uint64_t b : {a + 1, a + 2, 2 * a, 3 * a, 100 * a})
            if (b > a) {
                EXPECT_GT(boundary_between(a, b), a);
                EXPECT_LE(boundary_between(a, b), b);
            }
}

TEST(TuneTable, NeighboursWithTheSameWinnerMerge) {
    EXPECT_EQ(
        rules(Selected::kBcast, {point(1, 64, 9, 5, 7), point(1, 4096, 9, 5, 7), point(4, 64, 9, 5, 7)}),
        "bcast  direct\n");
    EXPECT_EQ(rules(Selected::kBcast, {point(1, 16384, 9, 7, 5), point(1, 64, 5, 7, 9),
                                       point(1, 1024, 5, 7, 9), point(1, 4096, 9, 5, 7)}),
              "bcast  bytes 0-2K   mpi\n"
              "bcast  bytes 2K-8K  direct\n"
              "bcast  bytes 8K-    staged-flat\n");
}

TEST(TuneTable, NodesAreRangesToo) {
    EXPECT_EQ(
        rules(Selected::kAlltoall, {point(1, 64, 9, 5, 7), point(1, 1024, 9, 5, 7), point(2, 64, 5, 9, 7),
                                    point(2, 1024, 9, 7, 5), point(4, 64, 5, 9, 7), point(4, 1024, 9, 7, 5),
                                    point(9, 64, 5, 9, 7), point(9, 1024, 5, 9, 7)}),
        "alltoall  nodes 1                 direct\n"
        "alltoall  nodes 2-5  bytes 0-256  mpi\n"
        "alltoall  nodes 2-5  bytes 256-   staged\n"
        "alltoall  nodes 6-                mpi\n");
}

TEST(TuneTable, WithoutBytesOneAlgorithmServesAllSizes) {
    // mpi is best at one size, direct by more at the other; staged lacks one.
    std::vector<TunedPoint> points = {point(1, 64, 5, 6, 1), point(1, 4096, 90, 30, 1)};
    points[1].figures.pop_back();
    EXPECT_EQ(rules(Selected::kAlltoallv, points), "alltoallv  direct\n");
    EXPECT_EQ(pick_carrier(whole_of(points).figures), Carrier::kDirect);
}

TEST(TuneTable, PointsWithoutFiguresAreLeftOut) {
    EXPECT_TRUE(make_rules(Selected::kBcast, {}).empty());
    EXPECT_TRUE(make_rules(Selected::kBcast, {{1, 64, {}}}).empty());
    EXPECT_EQ(rules(Selected::kBcast, {{1, 64, {}}, point(2, 64, 1, 9, 9)}), "bcast  mpi\n");
}

TEST(TuneTable, WhatComesOutIsAWholeTable) {
    uint64_t state = 1;
    const auto next = [&] {
        return state = state * 6364136223846793005u + 1442695040888963407u, state >> 33;
    };
    for (int round = 0; round < 500; ++round) {
        std::vector<TunedPoint> points;
        for (const uint64_t nodes : {1u, 2u, 3u, 8u})
            for (uint64_t bytes = 1 + next() % 9; bytes < 1u << 20; bytes += 1 + bytes * (next() % 5))
                points.push_back(point(nodes, bytes, double(1 + next() % 9), double(1 + next() % 9), 5));
        const auto collective = static_cast<Selected>(next() % kSelectedCount);
        const std::vector<SelectionRule> made = make_rules(collective, points);
        if (made.size() > kSelectionRulesMax) continue;
        Selection selection = built_in_selection();
        SelectionError error;
        ASSERT_TRUE(parse_selection(format_rules(collective, made), &selection, &error)) << error.message;
        if (!has_bytes(collective)) continue;
        for (const TunedPoint& one : points)
            EXPECT_EQ(choose(selection, collective, {1, one.nodes, one.bytes}), pick_carrier(one.figures));
    }
}

TEST(TuneTable, Samples) {
    EXPECT_EQ(median_of({3, 1, 2}), 2);
    EXPECT_EQ(median_of({4, 1, 2, 3}), 2.5);
    EXPECT_EQ(quartile_distance({5}), 0);
    EXPECT_EQ(quartile_distance({1, 2, 3, 100}), 1);
    EXPECT_EQ(quartile_distance({1, 9}), 8);
}

}  // namespace
}  // namespace longshore::tools
