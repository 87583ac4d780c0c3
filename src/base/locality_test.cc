#include "base/locality.h"

#include <gtest/gtest.h>

namespace longshore {
namespace {

using Services = std::vector<uint16_t>;
using Seats = std::vector<Seat>;
constexpr Seat kUnbound{};

// Two packages of four cores of two CPUs each, numbered as Linux does: CPUs 0-7 are the cores, 8-15 their
// siblings.
Seat cpu(int n) {
    return {static_cast<uint32_t>(n % 8 / 4), static_cast<uint32_t>(n % 4)};
}
Seats on(std::vector<int> cpus) {
    Seats seats;
    for (const int n : cpus) seats.push_back(cpu(n));
    return seats;
}
std::vector<SpareCpu> spare(std::vector<int> cpus) {
    std::vector<SpareCpu> all;
    for (const int n : cpus) all.push_back({n, cpu(n)});
    return all;
}

TEST(ShareRanks, BySocketThoughRanksAlternate) {
    EXPECT_EQ(share_ranks(on({0, 4, 1, 5, 2, 6}), 2), (Services{0, 1, 0, 1, 0, 1}));
}

TEST(ShareRanks, ByCoreWithinASocket) {
    EXPECT_EQ(share_ranks(on({3, 2, 1, 0}), 2), (Services{1, 1, 0, 0}));
}

TEST(ShareRanks, SiblingsOfACoreStayTogether) {
    EXPECT_EQ(share_ranks(on({0, 1, 8, 9}), 2), (Services{0, 1, 0, 1}));
}

TEST(ShareRanks, UnboundByLocalRank) {
    EXPECT_EQ(share_ranks(Seats(4), 2), (Services{0, 0, 1, 1}));
}

TEST(ShareRanks, BoundToASocketOnly) {
    const Seat first{0, Seat::kAnywhere}, second{1, Seat::kAnywhere};
    EXPECT_EQ(share_ranks(Seats{second, first, second, first}, 2), (Services{1, 0, 1, 0}));
}

TEST(ShareRanks, UnboundBehindBound) {
    EXPECT_EQ(share_ranks(Seats{kUnbound, cpu(5), kUnbound, cpu(0)}, 2), (Services{1, 0, 1, 0}));
}

// Other ranks say where they are, and may say anything.
TEST(ShareRanks, AnySeatsGetAServiceProcess) {
    const uint32_t numbers[] = {0, 1, 7, UINT32_MAX - 1, UINT32_MAX};
    Seats seats;
    for (int copies = 0; copies < 20; ++copies)
        for (const uint32_t package : numbers)
            for (const uint32_t core : numbers) seats.push_back({package, core});
    for (const uint32_t services : {1u, 3u, 16u}) {
        std::vector<uint32_t> count(services);
        const Services shared = share_ranks(seats, services);
        ASSERT_EQ(shared.size(), seats.size());
        for (const uint16_t s : shared) {
            ASSERT_LT(s, services);
            ++count[s];
        }
        const auto [least, most] = std::minmax_element(count.begin(), count.end());
        EXPECT_LE(*most - *least, 1u);
    }
}

TEST(ShareRanks, SharesDifferByOneAtMost) {
    for (uint32_t ranks = 1; ranks <= 40; ++ranks)
        for (uint32_t services = 1; services <= 16; ++services) {
            std::vector<uint32_t> count(services);
            uint32_t last = 0;
            for (const uint16_t s : share_ranks(Seats(ranks), services)) {
                ASSERT_LT(s, services);
                EXPECT_GE(s, last) << "not blockwise";
                last = s;
                ++count[s];
            }
            const auto [least, most] = std::minmax_element(count.begin(), count.end());
            EXPECT_LE(*most - *least, 1u) << ranks << " ranks, " << services << " services";
        }
}

TEST(ChooseCpus, InThePackageOfItsRanks) {
    // Service process 0 serves package 0, 1 serves package 1.
    EXPECT_EQ(choose_cpus(on({0, 4, 1, 5}), 2, spare({7, 6, 3, 2})), (std::vector<int>{3, 7}));
}

TEST(ChooseCpus, RatherAFreeCoreFarAwayThanASibling) {
    EXPECT_EQ(choose_cpus(on({0, 1, 2, 3}), 1, spare({11, 7})), (std::vector<int>{7}));
}

TEST(ChooseCpus, ASiblingNearbyWhereNoCoreIsFree) {
    EXPECT_EQ(choose_cpus(on({0, 4}), 2, spare({12, 8})), (std::vector<int>{8, 12}));
}

TEST(ChooseCpus, NotTwoOnOneCore) {
    EXPECT_EQ(choose_cpus(on({0, 1}), 2, spare({10, 2, 3})), (std::vector<int>{10, 3}));
}

TEST(ChooseCpus, AsManyAsThereAre) {
    EXPECT_EQ(choose_cpus(on({0, 1, 2}), 3, spare({3})), (std::vector<int>{3, -1, -1}));
    EXPECT_EQ(choose_cpus(on({0}), 1, {}), (std::vector<int>{-1}));
}

TEST(ChooseCpus, MachineThatTellsNothing) {
    const std::vector<SpareCpu> two{{3, {}}, {2, {}}};
    EXPECT_EQ(choose_cpus(Seats(2), 2, two), (std::vector<int>{3, 2}));
}

}  // namespace
}  // namespace longshore
