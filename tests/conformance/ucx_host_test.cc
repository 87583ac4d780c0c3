// What the fabric on a DPU does beyond the contracts of all fabrics: agents that go, and descriptors that
// lie.
#include <string.h>

#include <chrono>

#include "host_world.h"

namespace longshore::test {
namespace {

constexpr ServiceAddress kA{NodeId{0}, ServiceId{0}}, kB{NodeId{1}, ServiceId{0}};
constexpr LocalRank kRank0{0}, kRank1{1};
constexpr RegionId kUser = FabricWorld::kUserRegion;
constexpr MemoryRef kSlot{kStaging, RegionId{0}, 0};
constexpr uint64_t kBytes = 5000;

class HostFabricTest : public testing::Test {
  protected:
    // The event of that id.
    FabricEvent finish(uint64_t id) {
        const auto end = std::chrono::steady_clock::now() + in_time();
        while (std::chrono::steady_clock::now() < end) {
            FabricEvent event;
            world_.fabric(kB).poll({&event, 1}, 0);  // it says where its ranks' memory is
            ++polls_;
            if (world_.fabric(kA).poll({&event, 1}, 1'000'000) == 1 && event.id == id) return event;
        }
        ADD_FAILURE() << "no event of " << id;
        return {};
    }
    Post read(uint64_t id) {
        return world_.fabric(kA).read(kB, world_.name(kB.node, kRank1), 0, kSlot, kBytes, id);
    }
    explicit HostFabricTest(uint64_t agent_limit_ns = HostWorld::kAgentLimitNs) : world_(agent_limit_ns) {}
    HostWorld world_;
    uint32_t polls_ = 0;  // of a millisecond
};

class ImpatientHostFabricTest : public HostFabricTest {
  protected:
    ImpatientHostFabricTest() : HostFabricTest(500'000'000) {}
};

TEST_F(HostFabricTest, FromOneHostToTheOtherByWayOfStaging) {
    for (uint64_t i = 0; i < kBytes; ++i) world_.bytes(kB.node, kRank1)[i] = static_cast<std::byte>(i * 7);
    ASSERT_EQ(read(1), Post::kAccepted);
    EXPECT_EQ(finish(1).result, MoveResult::kMoved);
    ASSERT_EQ(world_.fabric(kA).copy(kSlot, {kRank0, kUser, 100}, kBytes, 2), Post::kAccepted);
    EXPECT_EQ(finish(2).result, MoveResult::kMoved);
    EXPECT_EQ(memcmp(world_.bytes(kA.node, kRank0) + 100, world_.bytes(kB.node, kRank1), kBytes), 0);
}

TEST_F(HostFabricTest, AnAgentThatGoesFailsWhatIsAskedOfItAlone) {
    ASSERT_EQ(read(1), Post::kAccepted);
    EXPECT_EQ(finish(1).result, MoveResult::kMoved);
    world_.end_agent(kB.node);
    for (uint64_t id = 2; id < 5; ++id) {
        ASSERT_EQ(read(id), Post::kAccepted);
        EXPECT_EQ(finish(id).result, MoveResult::kFailed) << id;
    }
    EXPECT_NE(world_.fabric(kA).take_problem().find("node 1"), std::string::npos);
    ASSERT_EQ(world_.fabric(kA).copy({kRank0, kUser, 0}, kSlot, kBytes, 9), Post::kAccepted);
    EXPECT_EQ(finish(9).result, MoveResult::kMoved);
}

// So it is at the end of every job.
TEST_F(HostFabricTest, NobodyIsToldOfAnAgentThatGoesUntilItIsNeeded) {
    ASSERT_EQ(read(1), Post::kAccepted);
    EXPECT_EQ(finish(1).result, MoveResult::kMoved);
    world_.end_agent(kB.node);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
    FabricEvent event;
    while (std::chrono::steady_clock::now() < end)
        EXPECT_EQ(world_.fabric(kA).poll({&event, 1}, 1'000'000), 0u);
    EXPECT_EQ(world_.fabric(kA).take_problem(), "");
    for (uint64_t id = 2; id < 4; ++id) {
        ASSERT_EQ(read(id), Post::kAccepted);
        EXPECT_EQ(finish(id).result, MoveResult::kFailed);
        const bool told = world_.fabric(kA).take_problem().find("node 1") != std::string::npos;
        EXPECT_EQ(told, id == 2) << "once";
    }
}

// Only where the network needs the agent's help (TCP): with RDMA nobody would notice.
TEST_F(ImpatientHostFabricTest, AnAgentThatHelpsNoMoreIsLostWithinTheLimit) {
    ASSERT_EQ(read(1), Post::kAccepted);
    ASSERT_EQ(finish(1).result, MoveResult::kMoved);
    world_.stop_agent(kB.node);
    polls_ = 0;
    for (uint64_t id = 2; id < 5; ++id) ASSERT_EQ(read(id), Post::kAccepted);
    for (uint64_t id = 2; id < 5; ++id) EXPECT_EQ(finish(id).result, MoveResult::kFailed) << id;
    EXPECT_LT(polls_, 3000u);  // not their time, of which others of this machine may take any
}

TEST_F(HostFabricTest, ARegionOfAnotherNodeIsNotItsRanks) {
    HostRegion lie;
    ASSERT_TRUE(decode_host_region(world_.descriptor(kB.node, kRank0), &lie));
    RegionEntry& entry = world_.memory(kA.node).region(kRank0, kUser);
    withdraw_region(entry);
    ASSERT_TRUE(publish_host_region(entry, lie));
    memset(world_.bytes(kB.node, kRank0), 0x11, kBytes);
    ASSERT_EQ(world_.fabric(kA).copy(kSlot, {kRank0, kUser, 0}, kBytes, 1), Post::kAccepted);
    EXPECT_EQ(finish(1).result, MoveResult::kFailed);
    EXPECT_EQ(world_.bytes(kB.node, kRank0)[17], std::byte{0x11});
    HostFabric& host = world_.host_fabric(kA);
    ASSERT_EQ(host.import_region(kB, world_.name(kB.node, kRank1), world_.descriptor(kA.node, kRank1), 2),
              Post::kAccepted);
    FabricEvent imported;
    ASSERT_EQ(host.poll({&imported, 1}, 0), 1u);
    EXPECT_EQ(imported.kind, FabricEvent::Kind::kImported);
    EXPECT_EQ(imported.region, 0u);
}

TEST_F(HostFabricTest, ImportOfNonsenseFails) {
    const std::vector<std::byte> nonsense(300, std::byte{0x77});
    HostFabric& host = world_.host_fabric(kA);
    ASSERT_EQ(host.import_region(kB, world_.name(kB.node, kRank1), nonsense, 2), Post::kAccepted);
    FabricEvent imported;
    ASSERT_EQ(host.poll({&imported, 1}, 0), 1u);
    EXPECT_EQ(imported.region, 0u);
}

TEST_F(HostFabricTest, DescriptorsAreRefusedUnlessWhole) {
    const std::vector<std::byte> whole = world_.descriptor(kB.node, kRank1);
    HostRegion region;
    EXPECT_TRUE(decode_host_region(whole, &region));
    for (size_t bytes = 0; bytes < whole.size(); ++bytes)
        EXPECT_FALSE(decode_host_region(std::span(whole).first(bytes), &region)) << bytes;
    std::vector<std::byte> longer = whole;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(decode_host_region(longer, &region));
    ASSERT_TRUE(decode_host_region(whole, &region));
    region.address = ~uint64_t{0} - 10;
    EXPECT_FALSE(decode_host_region(encode_host_region(region), &region));
    region.key.assign(kHostKeyBytesMax + 1, std::byte{1});
    EXPECT_TRUE(encode_host_region(region).empty());
}

}  // namespace
}  // namespace longshore::test
