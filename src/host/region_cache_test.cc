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
        AcquiredSpan to;
        EXPECT_TRUE(own.acquire(to_.data(), to_.size(), 0, &to));
        NodeCopier::Options options;
        options.is_rank = true;
        options.self = kTaker;
        return NodeCopier(memory_, options).copy(from, to.ref, to_.size());
    }

    Fd file_;
    Mapping mapping_;
    NodeMemory memory_;
    std::vector<std::byte> given_ = std::vector<std::byte>(10'000, std::byte{7}),
                           to_ = std::vector<std::byte>(10'000);
};

TEST_F(RegionCacheTest, WhatIsWithdrawnIsCopiedNoMore) {
    RegionCache giver = cache(kGiver, {});
    AcquiredSpan from, again;
    ASSERT_TRUE(giver.acquire(given_.data(), given_.size(), 0, &from));
    ASSERT_EQ(copy(from.ref), MoveResult::kMoved);
    EXPECT_EQ(to_, given_);
    giver.withdraw(from.ref.region);
    EXPECT_EQ(copy(from.ref), MoveResult::kFailed);
    ASSERT_TRUE(giver.acquire(given_.data(), given_.size(), 0, &again));
    EXPECT_NE(again.ref.region, from.ref.region);
    giver.release(from);
    EXPECT_EQ(copy(again.ref), MoveResult::kMoved);
    EXPECT_EQ(copy(from.ref), MoveResult::kFailed);
}

// Else the chunk would be left to its rank, which takes nothing any more.
TEST_F(RegionCacheTest, IntoWhatIsWithdrawnACopyFailsAlsoFromMemoryThatCannotBeReached) {
    RegionCache taker = cache(kTaker, {}), gone(memory_, kGiver, UINT32_MAX / 2, 1, {});
    AcquiredSpan from, to;
    ASSERT_TRUE(gone.acquire(given_.data(), given_.size(), 0, &from));
    ASSERT_TRUE(taker.acquire(to_.data(), to_.size(), 0, &to));
    NodeCopier service(memory_, {});
    ASSERT_EQ(service.copy(from.ref, to.ref, to_.size()), MoveResult::kNotPermitted);
    taker.withdraw(to.ref.region);
    EXPECT_EQ(service.copy(from.ref, to.ref, to_.size()), MoveResult::kFailed);
}

// All that it shares is one region.
TEST_F(RegionCacheTest, WhatARankSharesIsFoundByAnotherNumberThen) {
    ls_shared_memory shared{};
    shared.base = given_.data();
    shared.bytes = given_.size();
    shared.identity = 77;  // no such file: it is copied by way of the system
    shared.file = file_.get();
    RegionCache giver = cache(kGiver, shared);
    AcquiredSpan from, again, third;
    ASSERT_TRUE(giver.acquire(given_.data(), given_.size(), 0, &from));
    ASSERT_EQ(copy(from.ref), MoveResult::kMoved);
    giver.withdraw(from.ref.region);
    ASSERT_TRUE(giver.acquire(given_.data(), given_.size(), 0, &again));
    EXPECT_NE(again.ref.region, from.ref.region);
    EXPECT_EQ(copy(from.ref), MoveResult::kFailed);
    EXPECT_EQ(copy(again.ref), MoveResult::kMoved);
    giver.withdraw(again.ref.region);
    EXPECT_EQ(copy(again.ref), MoveResult::kFailed);
    ASSERT_TRUE(giver.acquire(given_.data(), given_.size(), 0, &third));
    EXPECT_EQ(copy(third.ref), MoveResult::kMoved);
}

// A memory of the rank's own, of which a fork may have made a part private.
struct PlayedMemory {
    static inline int opened = 0, closed = 0;
    static inline bool is_private = false;
    static inline uint32_t forks = 0;

    static ls_shared_memory as_shared(void* base, size_t bytes, int file) {
        opened = closed = 0;
        is_private = false;
        forks = 0;
        ls_shared_memory shared{};
        shared.base = base;
        shared.bytes = bytes;
        shared.identity = 77;  // no such file: it is copied by way of the system
        shared.file = file;
        shared.open_buffer = [](const void*, size_t, int anywhere) {
            return is_private && anywhere == 0 ? -1 : opened++;
        };
        shared.close_buffer = [](int) { ++closed; };
        shared.adopted_forks = [] { return forks; };
        return shared;
    }
};

TEST_F(RegionCacheTest, ABufferIsOpenAsLongAsItIsAcquired) {
    RegionCache giver = cache(kGiver, PlayedMemory::as_shared(given_.data(), given_.size(), file_.get()));
    AcquiredSpan one, two;
    ASSERT_TRUE(giver.acquire(given_.data(), 100, 0, &one));
    ASSERT_TRUE(giver.acquire(given_.data() + 50, 100, 0, &two));
    EXPECT_EQ(one.ref.region, two.ref.region);
    EXPECT_EQ(PlayedMemory::opened, 2);
    giver.release(one);
    giver.release(two);
    EXPECT_EQ(PlayedMemory::closed, 2);
    ASSERT_TRUE(giver.acquire(to_.data(), 100, 0, &one));  // no shared memory
    giver.release(one);
    EXPECT_EQ(PlayedMemory::opened, 2);
}

TEST_F(RegionCacheTest, WhatAForkHasMadePrivateIsCopiedFromTheProcess) {
    RegionCache giver = cache(kGiver, PlayedMemory::as_shared(given_.data(), given_.size(), file_.get()));
    AcquiredSpan shared, own, again;
    ASSERT_TRUE(giver.acquire(given_.data(), given_.size(), 0, &shared));
    giver.release(shared);
    PlayedMemory::is_private = true;
    ASSERT_TRUE(giver.acquire(given_.data(), given_.size(), 0, &own));
    EXPECT_NE(own.ref.region, shared.ref.region);
    ProcessSpan span;
    ASSERT_TRUE(read_region(memory_.region(kGiver, own.ref.region), &span));
    EXPECT_EQ(span.shared.identity, 0u);
    EXPECT_EQ(copy(own.ref), MoveResult::kMoved);
    EXPECT_EQ(to_, given_);
    giver.release(own);
    PlayedMemory::is_private = false;  // it was freed, and is another block
    ASSERT_TRUE(giver.acquire(given_.data(), given_.size(), 0, &again));
    EXPECT_EQ(again.ref.region, shared.ref.region);
    giver.release(again);
}

TEST_F(RegionCacheTest, WhatWasAdoptedBeforeAForkIsNotFoundAnyMore) {
    std::vector<std::byte> large(1 << 20, std::byte{9});
    ls_shared_memory memory = PlayedMemory::as_shared(given_.data(), given_.size(), file_.get());
    memory.adopt = [](const void*, size_t bytes, uint64_t* begin, uint64_t* end, uint64_t* offset) {
        *begin = *offset = 0;
        *end = bytes;
        return 1;
    };
    RegionCache giver = cache(kGiver, memory);
    const auto is_parted = [&](const AcquiredSpan& span) {
        ProcessSpan found;
        return read_region(memory_.region(kGiver, span.ref.region), &found) && found.shared.identity != 0;
    };
    AcquiredSpan open, beside, next;
    ASSERT_TRUE(giver.acquire(large.data(), large.size(), large.size(), &open));
    ASSERT_TRUE(is_parted(open));
    PlayedMemory::forks = 1;
    ASSERT_TRUE(giver.acquire(large.data(), large.size() / 2, 0, &beside));
    EXPECT_FALSE(is_parted(beside));
    EXPECT_TRUE(is_parted(open)) << "its pages stay, as long as it is open";
    giver.release(open);
    EXPECT_FALSE(is_parted(open));
    giver.release(beside);
    EXPECT_EQ(PlayedMemory::opened, PlayedMemory::closed);
    ASSERT_TRUE(giver.acquire(large.data(), large.size(), large.size(), &next));
    EXPECT_TRUE(is_parted(next)) << "adopted anew";
    giver.release(next);
}

}  // namespace
}  // namespace longshore
