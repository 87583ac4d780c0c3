#include "memory/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "memory/adopt.h"

namespace {

constexpr size_t kMiB = 1u << 20;
constexpr size_t kHeapBytes = 512 * kMiB;
// Each block has a page before it, and whole units of four pages with that.
constexpr size_t kUnit = 4 * 4096;
bool is_about(size_t usable, size_t bytes) {
    return usable >= bytes && usable < bytes + kUnit;
}

class Heap : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_NE(heap_, nullptr);
        longshore_heap_read_memory_by([](longshore_machine_memory* out) { *out = {}; },
                                      0);  // nobody can tell
    }
    void TearDown() override { EXPECT_EQ(longshore_heap_used().live_bytes, 0u); }
    static char* allocate(size_t bytes, size_t alignment = 1, bool zeroed = false) {
        return static_cast<char*>(longshore_heap_allocate(bytes, alignment, zeroed));
    }
    const longshore_heap* heap_ = longshore_heap_open(kHeapBytes);
};

uint8_t byte_of(uint64_t seed, size_t i) {
    return static_cast<uint8_t>(longshore::mix64(seed + i / 4096) + i);
}
void fill(char* at, size_t bytes, uint64_t seed) {
    for (size_t i = 0; i < bytes; i += 509) at[i] = static_cast<char>(byte_of(seed, i));
}
bool is_filled(const char* at, size_t bytes, uint64_t seed) {
    for (size_t i = 0; i < bytes; i += 509)
        if (static_cast<uint8_t>(at[i]) != byte_of(seed, i)) return false;
    return true;
}

TEST_F(Heap, CanBeMappedByOthers) {
    char* block = allocate(3 * kMiB);
    fill(block, 3 * kMiB, 1);
    struct stat status;
    ASSERT_EQ(fstat(heap_->file, &status), 0);
    EXPECT_EQ(status.st_ino, heap_->identity);
    void* other = mmap(nullptr, heap_->bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, heap_->file, 0);
    ASSERT_NE(other, MAP_FAILED);
    EXPECT_TRUE(
        is_filled(static_cast<char*>(other) + (block - static_cast<char*>(heap_->base)), 3 * kMiB, 1));
    munmap(other, heap_->bytes);
    longshore_heap_release(block);
}

TEST_F(Heap, KeepsItsFileOutOfTheWay) {
    EXPECT_GE(heap_->file, 800);
    EXPECT_NE(fcntl(heap_->file, F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_NE(ftruncate(heap_->file, 4096), 0) << "nobody can shrink it under a reader";
}

TEST_F(Heap, AlignsAsAsked) {
    std::vector<char*> blocks;
    for (size_t alignment = 1; alignment <= 64 * kMiB; alignment *= 2) {
        blocks.push_back(allocate(100'000, alignment));
        ASSERT_NE(blocks.back(), nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back()) % alignment, 0u);
    }
    for (char* block : blocks) longshore_heap_release(block);
}

TEST_F(Heap, RefusesWhatDoesNotFitAndGoesOn) {
    const uint64_t refused = longshore_heap_used().refused;
    errno = 7;
    // Three pages are never given out, and the last one is no unit.
    EXPECT_EQ(allocate(kHeapBytes - 5 * 4096 + 1), nullptr);
    EXPECT_EQ(longshore_heap_used().refused, refused + 1);
    EXPECT_EQ(allocate(SIZE_MAX), nullptr);
    EXPECT_EQ(allocate(4096, size_t{1} << 40), nullptr);
    EXPECT_EQ(errno, 7);
    char* all = allocate(kHeapBytes - 5 * 4096);
    ASSERT_NE(all, nullptr);
    EXPECT_EQ(allocate(4096), nullptr);
    longshore_heap_release(all);
    EXPECT_EQ(errno, 7);
}

TEST_F(Heap, ZeroedBlocksAreZeroHoweverOftenUsed) {
    for (int round = 0; round < 20; ++round) {
        char* block = allocate(2 * kMiB, 1, true);
        for (size_t i = 0; i < 2 * kMiB; i += 8) ASSERT_EQ(*reinterpret_cast<uint64_t*>(block + i), 0u);
        memset(block, 0xff, 2 * kMiB);
        longshore_heap_release(block);
    }
}

TEST_F(Heap, GivesMemoryBackWhenMuchIsFree) {
    char* block = allocate(400 * kMiB);
    for (size_t i = 0; i < 400 * kMiB; i += 4096) block[i] = 1;
    longshore_heap_release(block);
    EXPECT_LE(longshore_heap_used().kept_bytes, 256 * kMiB);
    struct stat status;
    ASSERT_EQ(fstat(heap_->file, &status), 0);
    EXPECT_LE(static_cast<size_t>(status.st_blocks) * 512, 256 * kMiB);
}

// Memory that the file has; what is freed and not given back is in it.
size_t there(int file) {
    struct stat status {};
    return fstat(file, &status) == 0 ? static_cast<size_t>(status.st_blocks) * 512 : 0;
}

// What was touched stays where it was, and is what the next blocks are made of.
void keep_all(int file) {
    constexpr size_t kBytes = 400 * kMiB;
    longshore_heap_keep();
    for (int round = 0; round < 2; ++round) {
        auto* block = static_cast<char*>(longshore_heap_allocate(kBytes, 1, round));
        if (block == nullptr) _exit(2);
        for (size_t i = 0; i < kBytes; i += 4096) {
            if (round == 1 && block[i] != 0) _exit(3);
            block[i] = 1;
        }
        longshore_heap_release(block);
        if (there(file) < kBytes || longshore_heap_used().kept_bytes < kBytes) _exit(4);
    }
    if (there(file) > kBytes + kMiB) _exit(5);
    _exit(0);
}

// In a process of its own: there is no way back.
TEST_F(Heap, GivesNothingBackOnceItIsToldToKeep) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(keep_all(heap_->file), testing::ExitedWithCode(0), "");
}

void use(size_t bytes, size_t times) {
    for (size_t round = 0; round < times; ++round) {
        auto* block = static_cast<char*>(longshore_heap_allocate(bytes, 1, 0));
        if (block == nullptr) _exit(2);
        for (size_t i = 0; i < bytes; i += 4096) block[i] = 1;
        longshore_heap_release(block);
    }
}
// Of 64 GiB so many are available.
template <int kGiB>
void available(longshore_machine_memory* out) {
    *out = {};
    out->limit_count = 1;
    out->limits[0] = {uint64_t{64} << 30, uint64_t{kGiB} << 30};
}
void stalls(longshore_machine_memory* out) {
    available<60>(out);
    out->stalls = 1;
}
constexpr int64_t kNever = int64_t{1} << 40;  // ms
constexpr size_t kWorkingSet = 320 * kMiB;
void expect(bool right, int line) {
    if (!right) {
        fprintf(stderr, "line %d: kept %zu MiB, there %zu MiB\n", line,
                longshore_heap_used().kept_bytes / kMiB, there(longshore_heap_get()->file) / kMiB);
        _exit(1);
    }
}

// Each in a process of its own, where nothing has been used before.
void keeps_what_is_used_again() {
    const int file = longshore_heap_open(kHeapBytes)->file;
    longshore_heap_read_memory_by(available<60>, 0);
    use(kWorkingSet, 1);
    expect(there(file) <= 256 * kMiB, __LINE__);
    use(kWorkingSet, 1);
    const uint64_t given_back = longshore_heap_used().given_back_bytes;
    for (int round = 0; round < 12; ++round) {
        use(kWorkingSet, 1);
        expect(there(file) >= kWorkingSet && longshore_heap_used().kept_bytes == kWorkingSet + kUnit,
               __LINE__);
    }
    expect(longshore_heap_used().given_back_bytes == given_back, __LINE__);
    _exit(0);
}
void gives_back_what_lies_idle() {
    const int file = longshore_heap_open(kHeapBytes)->file;
    longshore_heap_read_memory_by(available<60>, 0);
    use(kWorkingSet, 3);
    expect(there(file) >= kWorkingSet, __LINE__);
    size_t before = there(file);
    for (int allocated_gib = 0; allocated_gib < 16; ++allocated_gib) {
        for (int i = 0; i < 1024; ++i) {
            use(kMiB, 1);
            const size_t now = there(file);
            expect(now + 6 * kMiB + 4 * kUnit >= before, __LINE__);  // little by little
            before = now;
        }
        // Nothing before four times its size has been allocated.
        expect(allocated_gib > 0 || there(file) >= kWorkingSet, __LINE__);
    }
    expect(there(file) <= 32 * kMiB, __LINE__);
    use(kWorkingSet, 3);
    expect(there(file) >= kWorkingSet, __LINE__);  // it has come back
    _exit(0);
}
void gives_back_when_memory_is_short() {
    const int file = longshore_heap_open(kHeapBytes)->file;
    const auto look = [&](void (*read)(longshore_machine_memory*), size_t calls) {
        longshore_heap_read_memory_by(read, kNever);
        use(kMiB, calls);
        return there(file);
    };
    longshore_heap_read_memory_by(available<60>, kNever);
    use(kWorkingSet, 3);
    expect(look(available<7>, 1) >= kWorkingSet, __LINE__);  // it gets narrow
    expect(look(available<3>, 200) <= kWorkingSet / 2 + kMiB, __LINE__);
    expect(there(file) >= kWorkingSet / 2 - kMiB, __LINE__);
    use(kWorkingSet, 3);
    expect(there(file) <= kWorkingSet / 2 + kMiB, __LINE__);
    expect(look(available<60>, 1) > 0, __LINE__);
    use(kWorkingSet, 3);
    expect(there(file) >= kWorkingSet, __LINE__);
    expect(look(stalls, 200) <= kWorkingSet / 2 + kMiB, __LINE__);
    expect(look(available<1>, 1) <= kMiB, __LINE__);  // all of it, at once
    _exit(0);
}
void does_little_at_a_time() {
    longshore_heap_open(kHeapBytes);
    longshore_heap_read_memory_by(available<60>, kNever);
    use(kWorkingSet, 3);
    longshore_heap_read_memory_by(available<3>, kNever);
    for (uint64_t given_back = longshore_heap_used().given_back_bytes, now;; given_back = now) {
        void* block = longshore_heap_allocate(100'000, 1, 0);
        longshore_heap_release(block);
        now = longshore_heap_used().given_back_bytes;
        expect(now - given_back <= 3 * kMiB, __LINE__);
        if (now == given_back) break;
    }
    expect(longshore_heap_used().kept_bytes <= kWorkingSet / 2 + kMiB, __LINE__);
    _exit(0);
}
// The system gives nothing back that is locked, and what stays is zeroed when it is asked for so.
void zeroes_what_was_locked() {
    longshore_heap_open(kHeapBytes);
    auto* block = static_cast<char*>(longshore_heap_allocate(kWorkingSet, 1, 0));
    memset(block, 1, kWorkingSet);
    if (syscall(SYS_mlock, block + kWorkingSet - 4096, 4096) != 0) _exit(0);
    longshore_heap_release(block);
    block = static_cast<char*>(longshore_heap_allocate(kWorkingSet, 1, 1));
    for (size_t i = 0; i < kWorkingSet; i += 4096) expect(block[i] == 0, __LINE__);
    _exit(0);
}

// Nobody is ended by a limit on files; what does not fit into it is ordinary memory.
void grows_within_a_limit() {
    const rlimit limit{100 * kMiB, 100 * kMiB};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
    const int file = longshore_heap_open(kHeapBytes)->file;
    auto* first = static_cast<char*>(longshore_heap_allocate(60 * kMiB, 1, 0));
    expect(first != nullptr && longshore_heap_allocate(60 * kMiB, 1, 0) == nullptr, __LINE__);
    expect(!longshore_heap_resize(first, 120 * kMiB) && longshore_heap_used().refused == 1, __LINE__);
    struct stat status {};
    expect(longshore_heap_resize(first, 90 * kMiB), __LINE__);
    expect(fstat(file, &status) == 0 && status.st_size == 96 * kMiB, __LINE__);
    first[90 * kMiB - 1] = 1;
    _exit(0);
}
void grows_in_steps() {
    const longshore_heap* const heap = longshore_heap_open(kHeapBytes);
    const auto size = [&] {
        struct stat status {};
        return fstat(heap->file, &status) == 0 ? static_cast<size_t>(status.st_size) : 0;
    };
    expect(size() == 16 * kMiB, __LINE__);
    std::vector<void*> blocks;
    for (size_t mib = 1; mib <= 400; ++mib) {
        blocks.push_back(longshore_heap_allocate(kMiB, 1, 0));
        expect(blocks.back() != nullptr && longshore_heap_holds(blocks.back()), __LINE__);
        expect(size() >= mib * kMiB && size() <= mib * (kMiB + kUnit) * 9 / 8 + 17 * kMiB, __LINE__);
        expect(size() % (16 * kMiB) == 0, __LINE__);
    }
    expect(!longshore_heap_holds(static_cast<char*>(heap->base) + size()), __LINE__);
    longshore_heap_stop_growing();
    void* more = nullptr;
    while ((more = longshore_heap_allocate(kMiB, 1, 0)) != nullptr) blocks.push_back(more);
    expect(blocks.size() * kMiB <= size(), __LINE__);
    for (void* block : blocks) longshore_heap_release(block);
    expect(longshore_heap_allocate(300 * kMiB, 1, 0) != nullptr, __LINE__);
    _exit(0);
}
void there_is_none_where(__rlimit_resource_t what) {
    const rlimit limit{rlim_t{1} << 40, rlim_t{1} << 40};
    if (setrlimit(what, &limit) != 0) _exit(2);
    expect(longshore_heap_open(kHeapBytes) == nullptr && longshore_heap_allocate(kMiB, 1, 0) == nullptr,
           __LINE__);
    _exit(0);
}
void zeroes_so_much() {
    constexpr size_t kGiB = 1024 * kMiB;
    const auto processors = static_cast<size_t>(sysconf(_SC_NPROCESSORS_CONF));
    const size_t most = std::max(4 * kGiB / 2 / processors, 512 * kMiB);
    longshore_heap_open(4 * kGiB);
    void* const first = longshore_heap_allocate(most - 10 * kMiB, 1, 1);
    expect(first != nullptr && longshore_heap_allocate(11 * kMiB, 1, 1) == nullptr, __LINE__);
    expect(longshore_heap_used().refused == 0, __LINE__);
    void* const second = longshore_heap_allocate(10 * kMiB, 1, 1);
    expect(second != nullptr && longshore_heap_allocate(11 * kMiB, 1, 0) != nullptr, __LINE__);
    expect(longshore_heap_resize(first, kMiB) && longshore_heap_allocate(most - 11 * kMiB, 1, 1) != nullptr,
           __LINE__);
    longshore_heap_release(second);
    expect(longshore_heap_allocate(10 * kMiB, 1, 1) != nullptr, __LINE__);
    _exit(0);
}
void discards(bool keeps) {
    longshore_heap_open(kHeapBytes);
    if (keeps) longshore_heap_keep();
    auto* block = static_cast<char*>(longshore_heap_allocate(10 * kMiB, 1, 0));
    memset(block, 1, 10 * kMiB);
    const size_t before = there(longshore_heap_get()->file);
    expect(longshore_heap_discard(block + kMiB, 5 * kMiB) == 0, __LINE__);
    expect(keeps == (there(longshore_heap_get()->file) == before), __LINE__);
    for (size_t i = 0; i < 10 * kMiB; i += 4096)
        expect(block[i] == (i >= kMiB && i < 6 * kMiB ? 0 : 1), __LINE__);
    _exit(0);
}

void expect_exit(void (*body)()) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}
TEST(HeapGrows, InSteps) {
    expect_exit(grows_in_steps);
}
TEST(HeapGrows, WithinALimitOnFiles) {
    expect_exit(grows_within_a_limit);
}
TEST(HeapGrows, NotWhereMemoryIsLimited) {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "the sanitizer itself does not bear such limits";
#endif
    expect_exit([] { there_is_none_where(RLIMIT_AS); });
    expect_exit([] { there_is_none_where(RLIMIT_DATA); });
}
TEST(HeapGrows, NotByAllThatIsZero) {
    expect_exit(zeroes_so_much);
}
TEST(HeapGrows, AndWhatIsDiscardedIsZero) {
    expect_exit([] { discards(false); });
    expect_exit([] { discards(true); });
}
TEST(HeapKeeps, WhatIsUsedAgain) {
    expect_exit(keeps_what_is_used_again);
}
TEST(HeapKeeps, NotWhatLiesIdle) {
    expect_exit(gives_back_what_lies_idle);
}
TEST(HeapKeeps, LittleWhenMemoryIsShort) {
    expect_exit(gives_back_when_memory_is_short);
}
TEST(HeapKeeps, OrGivesBackLittleAtATime) {
    expect_exit(does_little_at_a_time);
}
TEST(HeapKeeps, WhatIsLockedAndZeroesIt) {
    expect_exit(zeroes_what_was_locked);
}

TEST_F(Heap, GrowsAndShrinksInPlaceWhereItCan) {
    char* block = allocate(kMiB);
    fill(block, kMiB, 3);
    ASSERT_TRUE(longshore_heap_resize(block, 8 * kMiB));
    EXPECT_TRUE(is_about(longshore_heap_usable(block), 8 * kMiB));
    EXPECT_TRUE(is_filled(block, kMiB, 3));
    char* behind = allocate(kMiB);
    ASSERT_TRUE(longshore_heap_resize(block, kMiB));
    EXPECT_TRUE(is_filled(block, kMiB, 3));
    ASSERT_FALSE(longshore_heap_resize(block, 400 * kMiB) && behind > block);
    longshore_heap_release(behind);
    longshore_heap_release(block);
}

TEST_F(Heap, AChildHasItsOwnCopy) {
    char* block = allocate(5 * kMiB);
    char* sparse = allocate(100 * kMiB, 1, true);
    fill(block, 5 * kMiB, 11);
    sparse[50 * kMiB] = 5;
    for (const bool closed : {false, true}) {
        // The program may close any descriptor, and open something else under its number.
        const int kept = fcntl(heap_->file, F_DUPFD_CLOEXEC, 0),
                  nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (closed) dup2(nothing, heap_->file);
        int pipes[2];
        ASSERT_EQ(pipe(pipes), 0);
        const pid_t child = fork();
        if (child == 0) {
            char go;
            // The parent has changed its own by now, and sees nothing of what is written here.
            bool right = read(pipes[0], &go, 1) == 1 && is_filled(block, 5 * kMiB, 11) &&
                         sparse[50 * kMiB] == 5 && sparse[kMiB] == 0;
            fill(block, 5 * kMiB, 12);
            right &= longshore_heap_get() == nullptr && longshore_heap_allocate(4096, 1, 0) == nullptr &&
                     longshore_heap_holds(block) && is_about(longshore_heap_usable(block), 5 * kMiB);
            longshore_heap_release(block);
            _exit(right ? 0 : 1);
        }
        fill(block, 5 * kMiB, 13);
        ASSERT_EQ(write(pipes[1], "x", 1), 1);
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
        EXPECT_TRUE(is_filled(block, 5 * kMiB, 13));
        fill(block, 5 * kMiB, 11);
        dup3(kept, heap_->file, O_CLOEXEC);
        for (int file : {pipes[0], pipes[1], kept, nothing}) close(file);
    }
    longshore_heap_release(sparse);
    longshore_heap_release(block);
}

alignas(4096) char static_data[8 * 4096];
const char read_only_data[8 * 4096] = {1};

TEST_F(Heap, AdoptedPagesKeepTheirContentsAndAChildHasItsOwn) {
    fill(static_data, sizeof static_data, 21);
    uint64_t begin = 0, end = 0, offset = 0;
    // Only whole pages; what is before and behind them stays as it is.
    ASSERT_TRUE(longshore_adopt(static_data + 100, 5 * 4096, &begin, &end, &offset));
    EXPECT_EQ(begin, 3996u);
    EXPECT_EQ(end, 3996u + 4 * 4096);
    EXPECT_EQ(longshore_heap_used().adopted_bytes, 4u * 4096);
    EXPECT_TRUE(is_filled(static_data, sizeof static_data, 21));
    char* seen = static_cast<char*>(
        mmap(nullptr, 4 * 4096, PROT_READ, MAP_SHARED, heap_->file, static_cast<off_t>(offset)));
    ASSERT_NE(seen, MAP_FAILED);
    fill(static_data, sizeof static_data, 22);
    EXPECT_EQ(memcmp(seen, static_data + 4096, 4 * 4096), 0);
    const pid_t child = fork();
    if (child == 0) {
        const bool right = is_filled(static_data, sizeof static_data, 22);
        fill(static_data, sizeof static_data, 23);
        _exit(right && is_filled(static_data, sizeof static_data, 23) ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(is_filled(static_data, sizeof static_data, 22));
    munmap(seen, 4 * 4096);
}

TEST_F(Heap, AdoptsOnlyWhatNobodyCanTakeAway) {
    uint64_t begin = 0, end = 0, offset = 0;
    const auto adopts = [&](const void* base, size_t bytes) {
        return longshore_adopt(base, bytes, &begin, &end, &offset) != 0;
    };
    char on_the_stack[4 * 4096] = {};
    EXPECT_FALSE(adopts(on_the_stack, sizeof on_the_stack));
    char* block = static_cast<char*>(malloc(200'000));
    EXPECT_FALSE(adopts(block, 200'000));
    free(block);
    void* mapped = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_FALSE(adopts(mapped, 1 << 20));
    munmap(mapped, 1 << 20);
    EXPECT_FALSE(adopts(read_only_data, sizeof read_only_data));
    char* shared = allocate(1 << 20);
    EXPECT_FALSE(adopts(shared, 1 << 20)) << "it is shared";
    longshore_heap_release(shared);
    EXPECT_FALSE(adopts(static_data + 5 * 4096 + 1, 4096)) << "no whole page";
    // As a registered page is: not for children, or locked.
    char* const registered = static_data + 6 * 4096;
    ASSERT_EQ(madvise(registered, 4096, MADV_DONTFORK), 0);
    EXPECT_FALSE(adopts(registered, 4096));
    ASSERT_EQ(madvise(registered, 4096, MADV_DOFORK), 0);
    if (syscall(SYS_mlock, registered, 4096) == 0) {  // ASan's mlock does nothing
        EXPECT_FALSE(adopts(registered, 4096));
        syscall(SYS_munlock, registered, 4096);
    }
    EXPECT_TRUE(adopts(registered, 4096));
}

// The first child of this thread, seen from another one; 0: there is none yet.
pid_t child_of(pid_t thread) {
    char path[64], text[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/children", thread);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    const ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    return got > 0 ? static_cast<pid_t>(atoi(text)) : 0;
}

TEST_F(Heap, AChildThatDiesWhileItCopiesHoldsNobodyUp) {
    if (child_of(gettid()) < 0) GTEST_SKIP() << "this kernel does not list a thread's children";
    char* block = allocate(300 * kMiB);
    memset(block, 1, 300 * kMiB);
    const pid_t self = gettid();
    std::thread killer([&] {
        pid_t child;
        while ((child = child_of(self)) <= 0) usleep(100);
        kill(child, SIGKILL);
    });
    const pid_t child = fork();  // returns when it has copied, or is gone
    if (child == 0) pause();
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    killer.join();
    longshore_heap_release(block);
}

// Two threads, blocks of any size and age, each checked before it goes.
TEST_F(Heap, KeepsBlocksApart) {
    const auto churn = [&](uint64_t seed) {
        longshore::Prng prng(seed);
        std::map<char*, std::pair<size_t, uint64_t>> blocks;
        for (int i = 0; i < 4000; ++i) {
            const uint64_t what = prng.below(10);
            if (what < 5 && blocks.size() < 40) {
                const size_t bytes = 1 + prng.below(prng.below(8) == 0 ? 8 * kMiB : 200'000);
                const bool zeroed = prng.below(3) == 0;
                char* block = allocate(bytes, prng.below(4) == 0 ? 1u << prng.below(20) : 1, zeroed);
                if (block == nullptr) continue;
                if (zeroed) {
                    for (size_t k = 0; k < bytes; k += 997) ASSERT_EQ(block[k], 0);
                }
                fill(block, bytes, seed + i);
                ASSERT_TRUE(blocks.try_emplace(block, bytes, seed + i).second);
            } else if (!blocks.empty()) {
                auto it = blocks.begin();
                std::advance(it, static_cast<long>(prng.below(blocks.size())));
                auto& [bytes, filled] = it->second;
                ASSERT_TRUE(is_filled(it->first, bytes, filled)) << "seed " << seed << ", step " << i;
                if (what < 7) {
                    const size_t now = 1 + prng.below(2 * bytes);
                    if (longshore_heap_resize(it->first, now)) {
                        ASSERT_TRUE(is_filled(it->first, std::min(bytes, now), filled));
                        bytes = now;
                        fill(it->first, bytes, filled);
                    }
                } else {
                    longshore_heap_release(it->first);
                    blocks.erase(it);
                }
            }
        }
        for (auto& [block, what] : blocks) longshore_heap_release(block);
    };
    std::thread other(churn, 1000003);
    churn(1);
    other.join();
}

}  // namespace
