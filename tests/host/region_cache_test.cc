// What a rank withdraws when it gives an operation up: from then on nobody copies out of its buffers. Both
// ranks are this process.
#include "host/region_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "fabric/shm/node_copier.h"
#include "fabric/shm/system.h"

namespace longshore {
namespace {

class RegionCacheTest : public testing::Test {
  protected:
    static constexpr LocalRank kGiver{0}, kTaker{1};
    RegionCacheTest() {
        NodeLimits limits;
        limits.ranks_max = 2;
        limits.services_max = 1;
        limits.arena_bytes = limits.claims_bytes = limits.groups_bytes = 1 << 16;
        const uint64_t bytes = NodeLayout::of(limits).total_bytes;
        file_ = make_memory_file("test-node", bytes);
        mapping_ = Mapping::shared(file_.get(), bytes);
        memory_ = NodeMemory::create(mapping_.data(), limits, NodeId{0}, 1, 2, 1);
    }
    RegionCache cache(LocalRank rank, const ls_shared_memory& shared) const {
        const auto pid = static_cast<uint32_t>(getpid());
        return {memory_, rank, pid, process_start_time(pid), shared};
    }
    // The taker copies so much of what the giver has there.
    MoveResult copy(const MemoryRef& from) {
        RegionCache own = cache(kTaker, {});
        MemoryRef to;
        EXPECT_TRUE(own.acquire(to_.data(), to_.size(), 0, &to));
        NodeCopier::Options options;
        options.is_rank = true;
        options.self = kTaker;
        return NodeCopier(memory_, options).copy(from, to, to_.size());
    }

    Fd file_;
    Mapping mapping_;
    NodeMemory memory_;
    std::vector<std::byte> given_ = std::vector<std::byte>(10'000, std::byte{7}),
                           to_ = std::vector<std::byte>(10'000);
};

TEST_F(RegionCacheTest, WhatIsWithdrawnIsCopiedNoMore) {
    RegionCache giver = cache(kGiver, {});
    MemoryRef from, again;
    ASSERT_TRUE(giver.acquire(given_.data(), given_.size(), 0, &from));
    ASSERT_EQ(copy(from), MoveResult::kMoved);
    EXPECT_EQ(to_, given_);
    giver.withdraw(from.region);
    EXPECT_EQ(copy(from), MoveResult::kFailed);
    ASSERT_TRUE(giver.acquire(given_.data(), given_.size(), 0, &again));
    EXPECT_NE(again.region, from.region);
    giver.release(from.region);
    EXPECT_EQ(copy(again), MoveResult::kMoved);
    EXPECT_EQ(copy(from), MoveResult::kFailed);
}

// Else the chunk would be left to its rank, which takes nothing any more.
TEST_F(RegionCacheTest, IntoWhatIsWithdrawnACopyFailsAlsoFromMemoryThatCannotBeReached) {
    RegionCache taker = cache(kTaker, {}), gone(memory_, kGiver, UINT32_MAX / 2, 1, {});
    MemoryRef from, to;
    ASSERT_TRUE(gone.acquire(given_.data(), given_.size(), 0, &from));
    ASSERT_TRUE(taker.acquire(to_.data(), to_.size(), 0, &to));
    NodeCopier service(memory_, {});
    ASSERT_EQ(service.copy(from, to, to_.size()), MoveResult::kNotPermitted);
    taker.withdraw(to.region);
    EXPECT_EQ(service.copy(from, to, to_.size()), MoveResult::kFailed);
}

// All that it shares is one region.
TEST_F(RegionCacheTest, WhatARankSharesIsFoundByAnotherNumberThen) {
    ls_shared_memory shared{};
    shared.base = given_.data();
    shared.bytes = given_.size();
    shared.identity = 77;  // no such file: it is copied by way of the system
    shared.file = file_.get();
    RegionCache giver = cache(kGiver, shared);
    MemoryRef from, again, third;
    ASSERT_TRUE(giver.acquire(given_.data(), given_.size(), 0, &from));
    ASSERT_EQ(copy(from), MoveResult::kMoved);
    giver.withdraw(from.region);
    ASSERT_TRUE(giver.acquire(given_.data(), given_.size(), 0, &again));
    EXPECT_NE(again.region, from.region);
    EXPECT_EQ(copy(from), MoveResult::kFailed);
    EXPECT_EQ(copy(again), MoveResult::kMoved);
    giver.withdraw(again.region);
    EXPECT_EQ(copy(again), MoveResult::kFailed);
    ASSERT_TRUE(giver.acquire(given_.data(), given_.size(), 0, &third));
    EXPECT_EQ(copy(third), MoveResult::kMoved);
}

}  // namespace
}  // namespace longshore
