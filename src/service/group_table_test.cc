// A group's slot and memory are not used again while a service process may be looking at them.
#include "service/group_table.h"

#include <gtest/gtest.h>

#include <optional>

#include "fabric/shm/system.h"

namespace longshore {
namespace {

class GroupTableTest : public testing::Test {
  protected:
    GroupTableTest() {
        limits_.ranks_max = 2;
        limits_.services_max = 2;
        limits_.groups_max = 1;
        mapping_ = Mapping::anonymous(NodeLayout::of(limits_).total_bytes);
        memory_ = NodeMemory::create(mapping_.data(), limits_, NodeId{0}, 1, 2, 2);
        table_.emplace(memory_);
        for (uint16_t r = 0; r < 2; ++r) members_.push_back({NodeId{0}, ServiceId{r}, LocalRank{r}, r});
        table_->service_started(ServiceId{0});
        table_->service_started(ServiceId{1});
        for (uint16_t s = 0; s < 2; ++s) memory_.service(ServiceId{s}).heartbeat.store(100 + s);
    }
    bool join(uint64_t id) {
        GroupSlot slot;
        return table_->join(GroupId{id}, members_, &slot) == JoinResult::kOk;
    }
    ServiceSlot& service(uint16_t s) { return memory_.service(ServiceId{s}); }

    NodeLimits limits_;
    Mapping mapping_;
    NodeMemory memory_;
    std::optional<GroupTable> table_;
    std::vector<Member> members_;
};

TEST_F(GroupTableTest, AJoinThatIsRefusedHoldsNoGroup) {
    ASSERT_TRUE(join(1));
    const std::vector<Member> one(members_.begin(), members_.begin() + 1);
    GroupSlot slot;
    EXPECT_EQ(table_->join(GroupId{1}, one, &slot), JoinResult::kUnsound) << "it has two members";
    table_->leave(GroupId{1});
    EXPECT_EQ(table_->open(), 0u);
}

TEST_F(GroupTableTest, WaitsForATurnOfEveryService) {
    ASSERT_TRUE(join(1));
    ASSERT_TRUE(join(1));
    table_->leave(GroupId{1});
    EXPECT_EQ(table_->open(), 1u);
    table_->leave(GroupId{1});
    EXPECT_EQ(table_->open(), 0u);
    EXPECT_EQ(memory_.group(GroupSlot{0}).id.load(), 0u);
    EXPECT_FALSE(join(2));  // the one slot there is may still be looked at
    service(0).heartbeat.fetch_add(1);
    EXPECT_FALSE(join(2));
    service(1).heartbeat.fetch_add(1);
    EXPECT_TRUE(join(2));
}

TEST_F(GroupTableTest, SleepersLookAtNothing) {
    ASSERT_TRUE(join(1));
    service(0).sleeping.store(1);
    table_->leave(GroupId{1});
    service(0).sleeping.store(0);  // it has slept since: whatever it looks at now, it finds no group
    EXPECT_FALSE(join(2));
    service(1).sleeping.store(1);
    EXPECT_TRUE(join(2));
}

TEST_F(GroupTableTest, TheDeadLookAtNothing) {
    ASSERT_TRUE(join(1));
    table_->service_ended(ServiceId{0});
    table_->leave(GroupId{1});
    EXPECT_FALSE(join(2));
    table_->service_ended(ServiceId{1});
    EXPECT_TRUE(join(2));
    table_->service_started(ServiceId{0});
    table_->leave(GroupId{2});
    EXPECT_FALSE(join(3));
    service(0).heartbeat.fetch_add(1);
    EXPECT_TRUE(join(3));
}

// What a communicator costs a rank: its heap, and its share of what lies in the node's memory.
TEST(GroupMemory, IsAtMost4KiBAnd64BytesForEachRank) {
    constexpr uint64_t kRankBytes = 1792;  // at most, whatever its size: growth.cc measures it
    struct Shape {
        uint32_t nodes, ranks_per_node;
    };
    for (const Shape& shape : {Shape{1, 2}, {1, 64}, {1, 512}, {2, 1}, {2, 64}, {8, 64}, {64, 8}, {256, 1}}) {
        const uint32_t size = shape.nodes * shape.ranks_per_node;
        std::vector<Member> members(size);
        for (uint32_t i = 0; i < size; ++i)
            members[i].node = NodeId{static_cast<uint16_t>(i / shape.ranks_per_node)};
        const uint64_t node = sizeof(GroupEntry) + NodeMemory::group_bytes(NodeLimits{}, members, NodeId{0});
        EXPECT_LE(kRankBytes + node / shape.ranks_per_node, 4096 + 64 * uint64_t{size})
            << shape.nodes << " nodes, " << shape.ranks_per_node << " ranks on each";
    }
}

}  // namespace
}  // namespace longshore
