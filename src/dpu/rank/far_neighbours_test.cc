// What ranks of a machine copy from each other where a DPU does their work. Both are in this process here:
// the system reads it like any other.
#include "dpu/rank/far_neighbours.h"

#include <gtest/gtest.h>

#include <cstring>

namespace longshore {
namespace {

constexpr uint64_t kHeapBytes = 1 << 16;

struct FarRank {
    std::vector<std::byte> heap = std::vector<std::byte>(kHeapBytes);
    FarNeighbours neighbours;
    FarNeighbours::Identity identity;
    explicit FarRank(std::byte first) {
        for (size_t i = 0; i < heap.size(); ++i)
            heap[i] = static_cast<std::byte>(static_cast<size_t>(first) + i * 37);
        ls_context context;
        context.options.shared.base = heap.data();
        context.options.shared.bytes = heap.size();
        identity = neighbours.identity(context);
    }
};

class FarNeighboursTest : public testing::Test {
  protected:
    FarNeighboursTest() {
        for (FarRank* of : {&a_, &b_}) {
            of->neighbours.add(2, a_.identity);
            of->neighbours.add(5, b_.identity);
        }
    }
    FarRank a_{std::byte{1}}, b_{std::byte{2}};
    std::byte to_[300] = {};
};

TEST_F(FarNeighboursTest, CopyFromEachOtherAndFromThemselves) {
    ASSERT_TRUE(a_.neighbours.probe());
    ASSERT_TRUE(b_.neighbours.probe());
    EXPECT_TRUE(b_.neighbours.copy(2, 1000, to_, sizeof to_));
    EXPECT_EQ(memcmp(to_, a_.heap.data() + 1000, sizeof to_), 0);
    EXPECT_TRUE(b_.neighbours.copy(5, 7, to_, sizeof to_));
    EXPECT_EQ(memcmp(to_, b_.heap.data() + 7, sizeof to_), 0);
}

TEST_F(FarNeighboursTest, HaveTheirHeapsAndNothingElse) {
    const FarNeighbours& n = a_.neighbours;
    EXPECT_TRUE(n.has(2, 0, kHeapBytes));
    EXPECT_TRUE(n.has(5, kHeapBytes - 1, 1));
    EXPECT_FALSE(n.has(5, kHeapBytes - 1, 2));
    EXPECT_FALSE(n.has(5, kHeapBytes + 1, 0));
    EXPECT_FALSE(n.has(5, 1, UINT64_MAX));
    EXPECT_FALSE(n.has(5, UINT64_MAX, 2));
    for (const uint32_t stranger : {0u, 3u, 6u}) EXPECT_FALSE(n.has(stranger, 0, 1));
}

TEST_F(FarNeighboursTest, TakeNothingFromOneThatHasWithdrawn) {
    EXPECT_TRUE(b_.neighbours.copy(2, 0, to_, sizeof to_));
    a_.neighbours.withdraw();
    EXPECT_FALSE(b_.neighbours.copy(2, 0, to_, sizeof to_));
    EXPECT_FALSE(b_.neighbours.probe());
    EXPECT_TRUE(a_.neighbours.copy(5, 0, to_, sizeof to_));
}

TEST_F(FarNeighboursTest, CannotAllBeReadWhereOneIsNotThere) {
    FarNeighbours::Identity other = a_.identity;
    other.word_address = 16;
    b_.neighbours.add(7, other);
    EXPECT_FALSE(b_.neighbours.probe());
    EXPECT_FALSE(b_.neighbours.copy(7, 0, to_, sizeof to_));
}

TEST_F(FarNeighboursTest, WithoutAHeapThereIsNothingToCopy) {
    FarNeighbours alone;
    FarNeighbours::Identity none = a_.identity;
    none.heap = 0;
    alone.add(0, none);
    EXPECT_FALSE(alone.probe());
}

}  // namespace
}  // namespace longshore
