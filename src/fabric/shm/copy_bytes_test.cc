#include "fabric/shm/copy_bytes.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/prng.h"

namespace longshore {
namespace {

// Every way to copy, at any alignment: the bytes arrive, and no other is touched.
TEST(CopyBytes, CopiesExactlyWhatItIsTold) {
    constexpr size_t kRoom = 80'000, kMargin = 5000;
    std::vector<std::byte> source(kRoom), target(kRoom), expected;
    Prng prng(7);
    for (std::byte& b : source) b = static_cast<std::byte>(prng.next());
    for (int i = 0; i < 3000; ++i) {
        const uint64_t bytes = prng.below(prng.below(2) ? 300 : kRoom - 2 * kMargin + 1);
        const uint64_t from = prng.below(kMargin),
                       to = prng.below(2) ? from + prng.below(64) : prng.below(kMargin);
        const uint64_t working_set = prng.below(2) ? 0 : 2 * cache_bytes();
        for (std::byte& b : target) b = std::byte{0xa5};
        expected = target;
        std::copy_n(source.begin() + static_cast<long>(from), bytes,
                    expected.begin() + static_cast<long>(to));
        copy_bytes(target.data() + to, source.data() + from, bytes, working_set, prng.below(2) != 0);
        ASSERT_EQ(target, expected) << bytes << " bytes from " << from << " to " << to << ", " << working_set;
    }
}

TEST(CopyBytes, OverlappingSpansMoveAsMemmoveDoes) {
    Prng prng(8);
    for (int i = 0; i < 300; ++i) {
        std::vector<std::byte> memory(60'000);
        for (std::byte& b : memory) b = static_cast<std::byte>(prng.next());
        const uint64_t bytes = prng.below(40'000), from = prng.below(20'000), to = prng.below(20'000);
        const std::vector<std::byte> wanted(memory.begin() + static_cast<long>(from),
                                            memory.begin() + static_cast<long>(from + bytes));
        copy_bytes(memory.data() + to, memory.data() + from, bytes, 2 * cache_bytes(), true);
        ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(), memory.begin() + static_cast<long>(to)));
    }
}

// On other processors nothing is slow, and no copy takes the long way round for it.
TEST(CopyBytes, KnowsSlowDistances) {
#if defined(__x86_64__)
    constexpr bool kSlow = true;
#else
    constexpr bool kSlow = false;
#endif
    EXPECT_FALSE(copies_slowly(4096, 4096));
    EXPECT_EQ(copies_slowly(4096, 4097), kSlow);
    EXPECT_EQ(copies_slowly(4096, 8192 + 63), kSlow);
    EXPECT_FALSE(copies_slowly(4096, 8192 + 64));
    EXPECT_EQ(copies_slowly(100, 101), kSlow);
    EXPECT_FALSE(copies_slowly(101, 100));
}

}  // namespace
}  // namespace longshore
