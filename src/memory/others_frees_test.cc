// Blocks of the heap in the hands of glibc's own functions, which this test has by their names: nothing
// stands before them here.
#include <gtest/gtest.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <vector>

#include "memory/heap.h"

namespace {

constexpr size_t kMiB = 1u << 20, kPage = 4096, kHeapBytes = 256 * kMiB;

// Sanitizers have functions of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsGlibcs = false;
#else
constexpr bool kIsGlibcs = true;
#endif

// The compiler is not to know what they do.
void (*volatile others_free)(void*) = free;
void* (*volatile others_realloc)(void*, size_t) = realloc;
size_t (*volatile others_usable)(void*) = malloc_usable_size;

class OthersFrees : public testing::Test {
  protected:
    void SetUp() override {
        if (!kIsGlibcs) GTEST_SKIP() << "the sanitizer has functions of its own";
        ASSERT_NE(heap_, nullptr);
        longshore_heap_read_memory_by([](longshore_machine_memory* out) { *out = {}; }, 0);
    }
    static char* allocate(size_t bytes, size_t alignment = 1) {
        auto* const block = static_cast<char*>(longshore_heap_allocate(bytes, alignment, 0));
        if (block != nullptr) memset(block, 7, bytes);
        return block;
    }
    static bool is_mapped(const void* page) {
        unsigned char there;
        return mincore(const_cast<void*>(page), 1, &there) == 0;
    }
    size_t file_bytes() const {
        struct stat status {};
        return fstat(heap_->file, &status) == 0 ? static_cast<size_t>(status.st_size) : 0;
    }
    const longshore_heap* heap_ = longshore_heap_open(kHeapBytes);
};

TEST_F(OthersFrees, KnowTheirSize) {
    for (size_t alignment = 1; alignment <= 4 * kMiB; alignment *= 4) {
        char* const block = allocate(100'000, alignment);
        EXPECT_EQ(others_usable(block), longshore_heap_usable(block));
        longshore_heap_release(block);
    }
    char* const block = allocate(kMiB);
    ASSERT_TRUE(longshore_heap_resize(block, 3 * kMiB));
    EXPECT_EQ(others_usable(block), longshore_heap_usable(block));
    EXPECT_GE(others_usable(block), 3 * kMiB);
    ASSERT_TRUE(longshore_heap_resize(block, 2 * kMiB));
    EXPECT_EQ(others_usable(block), longshore_heap_usable(block));
    EXPECT_LT(others_usable(block), 2 * kMiB + 4 * kPage);
    longshore_heap_release(block);
}

TEST_F(OthersFrees, LeaveNothingBehindButTheFilesPages) {
    char* const before = allocate(kMiB);
    char* const block = allocate(kMiB);
    char* const behind = allocate(kMiB);
    others_free(block);
    EXPECT_FALSE(is_mapped(block - kPage) || is_mapped(block) || is_mapped(block + kMiB - kPage));
    EXPECT_EQ(before[kMiB - 1], 7);
    EXPECT_EQ(behind[0], 7);
    longshore_heap_release(before);
    longshore_heap_release(behind);
}

// However many there were.
TEST_F(OthersFrees, AreFoundBeforeTheHeapGrows) {
    char* const stays = allocate(kMiB);
    for (int i = 0; i < 2000; ++i) {
        char* const block = allocate(kMiB + static_cast<size_t>(i % 5) * kPage, i % 3 == 0 ? 2 * kMiB : 1);
        ASSERT_TRUE(longshore_heap_holds(block));
        others_free(block);
    }
    EXPECT_LE(file_bytes(), 96 * kMiB);
    EXPECT_LE(longshore_heap_used().live_bytes, 96 * kMiB);
    EXPECT_EQ(stays[kMiB / 2], 7);
    longshore_heap_release(stays);
}

TEST_F(OthersFrees, AreFoundWhenNothingElseIsLeft) {
    std::vector<char*> blocks;
    while (char* const block = allocate(8 * kMiB)) blocks.push_back(block);
    const size_t count = blocks.size();
    ASSERT_GE(count, 20u);
    for (char* block : blocks) others_free(block);
    blocks.clear();
    for (size_t refused = 0; refused < count;) {  // not at once: looking costs something
        char* const block = allocate(8 * kMiB);
        block != nullptr ? blocks.push_back(block) : static_cast<void>(++refused);
    }
    EXPECT_GE(blocks.size(), count);
    for (char* block : blocks) longshore_heap_release(block);
}

TEST_F(OthersFrees, GrowByACopyAndTouchNoNeighbour) {
    char* const block = allocate(kMiB);
    char* const behind = allocate(kMiB);
    auto* const grown = static_cast<char*>(others_realloc(block, 4 * kMiB));
    ASSERT_NE(grown, nullptr);
    EXPECT_FALSE(longshore_heap_holds(grown));
    EXPECT_EQ(grown[kMiB - 1], 7);
    memset(grown, 8, 4 * kMiB);
    EXPECT_EQ(behind[0], 7);
    EXPECT_EQ(behind[kMiB - 1], 7);
    others_free(grown);
    longshore_heap_release(behind);
}

// A block of one page, whose page in front is not the only one that is a mapping of its own.
TEST_F(OthersFrees, GrowByACopyWhateverWasThereBefore) {
    std::vector<char*> blocks;
    for (int i = 0; i < 64; ++i) blocks.push_back(allocate(kPage));
    for (char* block : blocks) longshore_heap_release(block);
    blocks.clear();
    char* const shifted = allocate(3 * kPage);
    for (int i = 0; i < 40; ++i) blocks.push_back(allocate(kPage));
    for (char*& block : blocks) {
        auto* const grown = static_cast<char*>(others_realloc(block, 100 * kMiB));
        ASSERT_NE(grown, nullptr);
        EXPECT_FALSE(longshore_heap_holds(grown));
        EXPECT_EQ(grown[kPage - 1], 7);
        others_free(grown);
    }
    EXPECT_EQ(shifted[3 * kPage - 1], 7);
    longshore_heap_release(shifted);
}

TEST_F(OthersFrees, ShrinkWhereTheBlockIs) {
    for (const bool is_freed_here : {true, false}) {
        char* const block = allocate(4 * kMiB);
        ASSERT_EQ(others_realloc(block, kMiB), block);
        EXPECT_FALSE(is_mapped(block + 3 * kMiB));
        const size_t left = longshore_heap_usable(block);
        EXPECT_GE(left, kMiB);
        EXPECT_LE(left, kMiB + 4 * kPage);
        EXPECT_TRUE(is_mapped(block + 3 * kMiB)) << "it is free, and the heap's";
        EXPECT_EQ(block[kMiB - 1], 7);
        char* const next = allocate(2 * kMiB);
        EXPECT_EQ(block[kMiB - 1], 7);
        ASSERT_TRUE(!is_freed_here || longshore_heap_resize(block, 2 * kPage));
        is_freed_here ? longshore_heap_release(block) : others_free(block);
        longshore_heap_release(next);
    }
}

// As glibc's free ends the process.
TEST_F(OthersFrees, WhatIsWrittenInFrontOfABlockIsFoundOut) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    char* const block = allocate(kMiB);
    EXPECT_EXIT((memset(block - 8, 0x55, 8), longshore_heap_release(block)), testing::KilledBySignal(SIGABRT),
                "");
    EXPECT_EXIT(longshore_heap_release(block + kPage), testing::KilledBySignal(SIGABRT), "");
    longshore_heap_release(block);
}

// A process may have so many mappings; what others leave of them is enough for them.
TEST_F(OthersFrees, BlocksLeaveMappingsForOthers) {
    std::vector<void*> blocks;
    void* block = nullptr;
    while ((block = longshore_heap_allocate(1, 1, 0)) != nullptr) blocks.push_back(block);
    EXPECT_GE(blocks.size(), 4000u);
    void* const more = mmap(nullptr, 1000 * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(more, MAP_FAILED);
    for (size_t page = 0; page < 1000; page += 2)
        ASSERT_EQ(mprotect(static_cast<char*>(more) + page * kPage, kPage, PROT_NONE), 0);
    munmap(more, 1000 * kPage);
    for (void* one : blocks) longshore_heap_release(one);
    // Nor do pages that once stood in front of a block add up.
    for (size_t round = 1; round < 40; ++round) {
        blocks.clear();
        for (size_t i = 0; i < 1000; ++i) blocks.push_back(allocate(round * kPage));
        for (void* one : blocks) {
            ASSERT_NE(one, nullptr);
            longshore_heap_release(one);
        }
    }
}

}  // namespace
