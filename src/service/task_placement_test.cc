#include "service/task_placement.h"

#include <gtest/gtest.h>

namespace longshore {
namespace {

using Cpus = std::vector<int>;

// Two sockets of four cores: ranks on the first `ranks`, a service process on the one after.
NodeCpus node(int ranks, bool service = true) {
    NodeCpus node;
    for (int cpu = 0; cpu < 8; ++cpu)
        node.all.push_back({cpu,
                            {static_cast<uint32_t>(cpu / 4), static_cast<uint32_t>(cpu % 4)},
                            cpu < ranks,
                            service && cpu == ranks});
    node.ranks_are_bound = true;
    return node;
}

std::vector<Cpus> cpus_of(const NodeCpus& node, const char* cores, uint32_t processes, uint32_t threads = 1) {
    std::string error;
    std::vector<Cpus> all;
    for (const tasks::TaskPlace& place : place_tasks(node, cores, processes, threads, &error))
        all.push_back(place.cpus);
    return all;
}

TEST(TaskPlacement, TakesCoresThatNobodyHas) {
    EXPECT_EQ(cpus_of(node(2), "auto", 2), (std::vector<Cpus>{{3}, {4}}));
    EXPECT_EQ(cpus_of(node(2), "auto", 2, 2), (std::vector<Cpus>{{3, 4}, {5, 6}}));
    EXPECT_EQ(cpus_of(node(4), "auto", 4), (std::vector<Cpus>{{5}, {6}, {7}, {5}}));
    std::string error;
    EXPECT_TRUE(place_tasks(node(2), "auto", 2, 1, &error)[0].may_spin);
    EXPECT_FALSE(place_tasks(node(4), "auto", 4, 1, &error)[0].may_spin);
}

TEST(TaskPlacement, SharesTheServiceProcesssCoreWhereThereIsNoOther) {
    std::string error;
    const auto places = place_tasks(node(7), "auto", 1, 1, &error);
    ASSERT_EQ(places.size(), 1u);
    EXPECT_EQ(places[0].cpus, Cpus{7});
    EXPECT_FALSE(places[0].may_spin);
}

TEST(TaskPlacement, LeavesItToTheSystemWhereNoCoreIsSpare) {
    EXPECT_EQ(cpus_of(node(8, false), "auto", 2), (std::vector<Cpus>{{}, {}}));
    NodeCpus unbound = node(0);
    unbound.ranks_are_bound = false;
    EXPECT_EQ(cpus_of(unbound, "auto", 1), (std::vector<Cpus>{{}}));
    EXPECT_EQ(cpus_of(node(2), "none", 1), (std::vector<Cpus>{{}}));
}

TEST(TaskPlacement, GoesWhereItIsTold) {
    EXPECT_EQ(cpus_of(node(2), "ranks", 2), (std::vector<Cpus>{{0}, {1}}));
    EXPECT_EQ(cpus_of(node(2), "other-socket", 2), (std::vector<Cpus>{{4}, {5}}));
    EXPECT_EQ(cpus_of(node(2), "6-7", 3), (std::vector<Cpus>{{6}, {7}, {6}}));
}

TEST(TaskPlacement, SaysWhatCannotBeHad) {
    std::string error;
    EXPECT_TRUE(place_tasks(node(5), "other-socket", 1, 1, &error).empty());
    EXPECT_NE(error.find("no other socket"), std::string::npos) << error;
    EXPECT_TRUE(place_tasks(node(2), "12", 1, 1, &error).empty());
    EXPECT_NE(error.find("none of these cores"), std::string::npos) << error;
}

}  // namespace
}  // namespace longshore
