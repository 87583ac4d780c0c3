// What aliases of hosts' memory do beyond the contracts of all fabrics, with test equipment in the place of
// cards that can have them (tests/dpu/exported_memory.cc).
#include <string.h>

#include <chrono>

#include "../dpu/exported_memory.h"
#include "host_world.h"

namespace longshore::test {
namespace {

constexpr ServiceAddress kA{NodeId{0}, ServiceId{0}}, kB{NodeId{1}, ServiceId{0}};
constexpr LocalRank kRank0{0}, kRank1{1};
constexpr RegionId kUser = FabricWorld::kUserRegion;
constexpr uint64_t kBytes = 300'000;

class AliasTest : public testing::Test {
  protected:
    void SetUp() override {
        if (!can_map_files()) GTEST_SKIP() << "/proc/PID/map_files is not for this user";
        exported_memory_rules = {kAll, kAll};
        world_ = std::make_unique<HostWorld>(HostWorld::kAgentLimitNs, true);
        aliases_before_ = aliases_made;
        gets_before_ = gets_to_aliases;
        for (uint64_t i = 0; i < kBytes; ++i) {
            world_->bytes(kB.node, kRank1)[i] = static_cast<std::byte>(i * 7);
            world_->bytes(kA.node, kRank0)[i] = static_cast<std::byte>(i * 11);
        }
    }
    Fabric& fabric() { return world_->fabric(kA); }
    FabricEvent finish(uint64_t id) {
        const auto end = std::chrono::steady_clock::now() + in_time();
        while (std::chrono::steady_clock::now() < end) {
            FabricEvent event;
            world_->fabric(kB).poll({&event, 1}, 0);  // it says where its ranks' memory is
            if (fabric().poll({&event, 1}, 1'000'000) == 1 && event.id == id) return event;
        }
        ADD_FAILURE() << "no event of " << id;
        return {};
    }
    // From the other node's host, and from the other rank of the own.
    void move_both_ways() {
        std::byte* const to = world_->bytes(kA.node, kRank1);
        memset(to, 0, FabricWorld::kRegionBytes);
        ASSERT_EQ(fabric().read(kB, world_->name(kB.node, kRank1), 0, {kRank1, kUser, 100}, kBytes, 1),
                  Post::kAccepted);
        EXPECT_EQ(finish(1).result, MoveResult::kMoved);
        EXPECT_EQ(memcmp(to + 100, world_->bytes(kB.node, kRank1), kBytes), 0);
        ASSERT_EQ(fabric().copy({kRank0, kUser, 0}, {kRank1, kUser, 500'000}, kBytes, 2), Post::kAccepted);
        EXPECT_EQ(finish(2).result, MoveResult::kMoved);
        EXPECT_EQ(memcmp(to + 500'000, world_->bytes(kA.node, kRank0), kBytes), 0);
        EXPECT_EQ(to[99], std::byte{0});
        EXPECT_EQ(to[100 + kBytes], std::byte{0});
    }
    // As no agent exports the region of rank 1; it still can be reached by its key.
    void exported_as(std::vector<std::byte> exported) {
        world_->region(kA.node, kRank1).exported = std::move(exported);
        world_->publish(kA.node, kRank1);
    }
    void expect_bounced(uint64_t refused) {
        const FabricCounters before = fabric().counters();
        gets_before_ = gets_to_aliases;
        move_both_ways();
        EXPECT_EQ(fabric().counters().bytes_bounced - before.bytes_bounced, 2 * kBytes);
        EXPECT_EQ(fabric().counters().refused - before.refused, refused);
        EXPECT_EQ(gets_to_aliases, gets_before_);
    }
    std::unique_ptr<HostWorld> world_;
    uint64_t aliases_before_ = 0, gets_before_ = 0;
};

TEST_F(AliasTest, FromHostToHostPastThisProcess) {
    move_both_ways();
    EXPECT_EQ(aliases_made - aliases_before_, 1u) << "one of the region, for both";
    EXPECT_EQ(gets_to_aliases - gets_before_, 2u);
    EXPECT_EQ(fabric().counters().bytes_bounced, 0u);
    EXPECT_EQ(fabric().counters().refused, 0u);
    EXPECT_EQ(fabric().take_problem(), "");
}

TEST_F(AliasTest, ARegionThatIsOpenedAnewGetsANewAlias) {
    move_both_ways();
    world_->publish(kA.node, kRank1);
    move_both_ways();
    move_both_ways();
    EXPECT_EQ(aliases_made - aliases_before_, 2u);
    EXPECT_EQ(gets_to_aliases - gets_before_, 6u);
}

TEST_F(AliasTest, WhereAnAliasCannotBeMadeBytesComeAllTheSame) {
    exported_memory_rules.imports = kNone;
    expect_bounced(1);
    EXPECT_NE(fabric().take_problem().find("no alias"), std::string::npos);
    // Nor is it tried again for the same memory, or said again.
    exported_memory_rules.imports = kAll;
    expect_bounced(0);
    exported_memory_rules.imports = kNone;
    world_->publish(kA.node, kRank1);
    expect_bounced(1);
    EXPECT_EQ(fabric().take_problem(), "");
    exported_memory_rules.imports = kAll;
    world_->publish(kA.node, kRank1);
    gets_before_ = gets_to_aliases;
    move_both_ways();
    EXPECT_EQ(gets_to_aliases - gets_before_, 2u);
}

TEST_F(AliasTest, AnAgentThatCouldNotExportAPieceIsNoFailure) {
    exported_as({});
    expect_bounced(1);
}

TEST_F(AliasTest, WhatIsExportedIsRefusedUnlessItIsKnownAndWhole) {
    const std::vector<std::byte> whole = world_->region(kA.node, kRank1).exported;
    ASSERT_GT(whole.size(), 8u);
    const auto with = [&](size_t at, uint8_t flip) {
        std::vector<std::byte> other = whole;
        other[at] ^= std::byte{flip};
        return other;
    };
    exported_as(with(0, 0x80));  // the version of the form
    expect_bounced(1);
    exported_as(with(1, 1));  // UCX, major and minor
    expect_bounced(1);
    exported_as(with(2, 1));
    expect_bounced(1);
    exported_as(with(4, 1));  // its length
    expect_bounced(1);
    exported_as({whole.begin(), whole.end() - 1});
    expect_bounced(1);
    exported_as({whole.begin(), whole.begin() + 3});
    expect_bounced(1);
    std::vector<std::byte> longer = whole;
    longer.push_back(std::byte{0});
    exported_as(longer);
    expect_bounced(1);
    EXPECT_EQ(aliases_made, aliases_before_) << "none of it has come to UCX";
    // Another release of the same UCX is the same.
    exported_as(with(3, 1));
    move_both_ways();
    EXPECT_EQ(aliases_made - aliases_before_, 1u);
}

TEST_F(AliasTest, WhatIsExportedIsOfTheMemoryThatItIsSaidToBe) {
    exported_as(world_->region(kA.node, kRank0).exported);
    expect_bounced(1);
    HostRegion& region = world_->region(kA.node, kRank1);
    region.bytes += 4096;
    world_->publish(kA.node, kRank1);
    expect_bounced(1);
}

TEST(ExportedMemory, IsRefusedUnlessWhole) {
    ExportedMemory memory{1, 22, 0, std::vector<std::byte>(40, std::byte{7})};
    const std::vector<std::byte> whole = encode_exported(memory);
    ASSERT_FALSE(whole.empty());
    ExportedMemory again;
    ASSERT_TRUE(decode_exported(whole, &again));
    EXPECT_EQ(again.ucx_minor, 22);
    EXPECT_EQ(again.handle, memory.handle);
    for (size_t bytes = 0; bytes < whole.size(); ++bytes)
        EXPECT_FALSE(decode_exported(std::span(whole).first(bytes), &again)) << bytes;
    memory.handle.resize(kExportedBytesMax);
    EXPECT_TRUE(encode_exported(memory).empty());
    memory.handle.clear();
    EXPECT_TRUE(encode_exported(memory).empty());
    HostRegion region{NodeId{1}, 4096, 4096, {std::byte{1}}, std::vector<std::byte>(kExportedBytesMax + 1)};
    EXPECT_TRUE(encode_host_region(region).empty());
}

}  // namespace
}  // namespace longshore::test
