// Forks of a process with blocks of the heap.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "memory/adopt.h"
#include "memory/heap.h"

namespace {

constexpr size_t kMiB = 1u << 20, kPage = 4096, kHeapBytes = 512 * kMiB;

// What goes on in a fork, after the heap's part of it in the parent has begun, and before that in the child:
// handlers that were there before the heap's.
std::function<void()> in_parent;
int hold_child = -1;  // what the child reads a byte of before it goes on
[[maybe_unused]] const int is_watching = pthread_atfork(
    [] {
        if (in_parent) in_parent();
    },
    nullptr,
    [] {
        char go;
        if (hold_child >= 0 && read(hold_child, &go, 1) != 1) _exit(9);
    });

// glibc's, if no sanitizer has functions of its own; the compiler is not to know what they do.
void (*volatile others_free)(void*) = free;
void* (*volatile others_realloc)(void*, size_t) = realloc;

class Fork : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_NE(heap_, nullptr);
        longshore_heap_read_memory_by([](longshore_machine_memory* out) { *out = {}; }, 0);
    }
    void TearDown() override { EXPECT_EQ(longshore_heap_used().live_bytes, 0u); }
    static char* allocate(size_t bytes, char value) {
        auto* const block = static_cast<char*>(longshore_heap_allocate(bytes, 1, 0));
        if (block != nullptr && value != 0) memset(block, value, bytes);
        return block;
    }
    static bool has(const char* block, size_t bytes, char value) {
        for (size_t i = 0; i < bytes; i += 256)
            if (block[i] != value) return false;
        return true;
    }
    static bool is_open_to_others(const void* base, size_t bytes) {
        const int place = longshore_heap_open_buffer(base, bytes, 0);
        longshore_heap_close_buffer(place);
        return place >= 0;
    }
    static int end_of(pid_t child) {
        int status = -1;
        waitpid(child, &status, 0);
        return status;
    }
    char* in_file(const char* block) const { return others_ + (block - static_cast<char*>(heap_->base)); }

    const longshore_heap* heap_ = longshore_heap_open(kHeapBytes);
    // As another process has it.
    char* others_ = static_cast<char*>(
        mmap(nullptr, kHeapBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, heap_->file, 0));
};

TEST_F(Fork, MakesBlocksPrivateUntilTheyAreFreed) {
    char* block = allocate(3 * kMiB, 1);
    ASSERT_TRUE(is_open_to_others(block, 3 * kMiB));
    const pid_t child = fork();
    if (child == 0) _exit(has(block, 3 * kMiB, 1) ? 0 : 1);
    EXPECT_EQ(end_of(child), 0);
    EXPECT_FALSE(is_open_to_others(block, 3 * kMiB));
    EXPECT_FALSE(is_open_to_others(block + kMiB, 1));
    EXPECT_GE(longshore_heap_used().private_bytes, 3 * kMiB);
    EXPECT_TRUE(has(block, 3 * kMiB, 1));
    // Another one beside it is shared.
    char* other = allocate(kMiB, 2);
    EXPECT_TRUE(is_open_to_others(other, kMiB));
    EXPECT_EQ(in_file(other)[5], 2);
    longshore_heap_release(block);
    EXPECT_EQ(longshore_heap_used().private_bytes, 0u);
    block = allocate(3 * kMiB, 3);
    EXPECT_TRUE(is_open_to_others(block, 3 * kMiB));
    EXPECT_EQ(in_file(block)[kMiB], 3);
    longshore_heap_release(block);
    longshore_heap_release(other);
}

TEST_F(Fork, TakesNoMemoryTwice) {
    char* block = allocate(100 * kMiB, 1);
    const pid_t child = fork();
    if (child == 0) _exit(0);
    EXPECT_EQ(end_of(child), 0);
    struct stat status {};
    ASSERT_EQ(fstat(heap_->file, &status), 0);
    EXPECT_LE(static_cast<size_t>(status.st_blocks) * 512, 8 * kMiB);
    longshore_heap_release(block);
}

TEST_F(Fork, LeavesPagesOfOpenBuffersShared) {
    char* block = allocate(4 * kMiB, 1);
    const int place = longshore_heap_open_buffer(block + kMiB, kMiB, 0);
    ASSERT_GE(place, 0);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        char go;
        const bool read_it = read(ends[0], &go, 1) == 1;
        const bool right = read_it && has(block, 4 * kMiB, 1);
        memset(block, 9, 4 * kMiB);
        _exit(right ? 0 : 1);
    }
    // Others write to the buffer, and the parent has it at once; the child does not.
    memset(in_file(block) + kMiB, 5, kMiB);
    memset(block, 6, kMiB);
    EXPECT_TRUE(has(block + kMiB, kMiB, 5));
    ASSERT_EQ(write(ends[1], "x", 1), 1);
    EXPECT_EQ(end_of(child), 0);
    EXPECT_TRUE(has(block, kMiB, 6) && has(block + kMiB, kMiB, 5) && has(block + 2 * kMiB, 2 * kMiB, 1));
    EXPECT_TRUE(is_open_to_others(block + kMiB, kMiB));
    EXPECT_FALSE(is_open_to_others(block, 4 * kMiB));
    longshore_heap_close_buffer(place);
    // The next fork takes those, too.
    const pid_t next = fork();
    if (next == 0) _exit(has(block + kMiB, kMiB, 5) && has(block, kMiB, 6) ? 0 : 1);
    EXPECT_EQ(end_of(next), 0);
    EXPECT_FALSE(is_open_to_others(block + kMiB, kMiB));
    longshore_heap_release(block);
    close(ends[0]);
    close(ends[1]);
}

// What was never written takes no memory in the child, is zero, and stays so whatever its parent does.
TEST_F(Fork, PagesThatNobodyWroteStayEmpty) {
    char* block = allocate(200 * kMiB, 0);
    ASSERT_EQ(longshore_heap_discard(block, 200 * kMiB), 0);
    block[100 * kMiB] = 1;
    volatile char read_only = block[150 * kMiB];
    EXPECT_EQ(read_only, 0);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        char go;
        bool right = read(ends[0], &go, 1) == 1;
        for (size_t i = 0; i < 200 * kMiB; i += 10 * kMiB) right &= block[i] == (i == 100 * kMiB ? 1 : 0);
        right &= block[150 * kMiB] == 0;
        block[7 * kMiB] = 3;
        long resident = 0;
        FILE* const file = fopen("/proc/self/statm", "r");
        if (fscanf(file, "%*d %ld", &resident) != 1) _exit(3);
        _exit(right && static_cast<size_t>(resident) * kPage < 100 * kMiB ? 0 : 1);
    }
    block[20 * kMiB] = 9;
    memset(in_file(block) + 30 * kMiB, 9, kMiB);
    longshore_heap_release(block);
    block = allocate(200 * kMiB, 8);
    ASSERT_EQ(write(ends[1], "x", 1), 1);
    EXPECT_EQ(end_of(child), 0);
    longshore_heap_release(block);
    close(ends[0]);
    close(ends[1]);
}

// One that has not come so far as to have everything for itself keeps the pages that it may still read from
// being used.
TEST_F(Fork, PagesThatAChildMayReadAreNotUsedAgain) {
    char* block = allocate(50 * kMiB, 0);
    ASSERT_EQ(longshore_heap_discard(block, 50 * kMiB), 0);
    block[0] = 1;
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    hold_child = ends[0];
    const pid_t child = fork();
    if (child == 0) _exit(block[0] == 1 && block[10 * kMiB] == 0 && block[40 * kMiB] == 0 ? 0 : 1);
    hold_child = -1;
    const char* const before = block;
    longshore_heap_release(block);
    char* const others = allocate(50 * kMiB, 7);
    EXPECT_TRUE(others >= before + 50 * kMiB || others + 50 * kMiB <= before);
    ASSERT_EQ(write(ends[1], "x", 1), 1);
    EXPECT_EQ(end_of(child), 0);
    longshore_heap_release(others);
    // Then they are, when they are needed.
    char* const all = allocate(450 * kMiB, 0);
    EXPECT_NE(all, nullptr);
    if (all != nullptr) longshore_heap_release(all);
    close(ends[0]);
    close(ends[1]);
}

TEST_F(Fork, BlocksStayWhatOtherFunctionsTake) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizer has functions of its own";
#endif
    for (int i = 0; i < 3; ++i) {
        char* const block = allocate(kMiB, 1);
        char* const behind = allocate(kMiB, 2);
        const pid_t child = fork();
        if (child == 0) {
            auto* const grown = static_cast<char*>(others_realloc(block, 3 * kMiB));
            bool right = grown != nullptr && has(grown, kMiB, 1) && has(behind, kMiB, 2);
            others_free(grown);
            longshore_heap_release(behind);
            _exit(right ? 0 : 1);
        }
        EXPECT_EQ(end_of(child), 0);
        auto* const grown = static_cast<char*>(others_realloc(block, 3 * kMiB));
        EXPECT_FALSE(longshore_heap_holds(grown));
        memset(grown, 3, 3 * kMiB);
        EXPECT_TRUE(has(behind, kMiB, 2));
        others_free(grown);
        others_free(behind);
    }
    // Found again before the heap grows any further.
    char* const all = allocate(500 * kMiB, 0);
    EXPECT_NE(all, nullptr);
    longshore_heap_release(all);
}

TEST_F(Fork, PrivatePagesCanBeDiscarded) {
    char* block = allocate(4 * kMiB, 1);
    const int place = longshore_heap_open_buffer(block + 2 * kMiB, kMiB, 0);
    const pid_t child = fork();
    if (child == 0)
        _exit(longshore_heap_discard(block, kMiB) == 0 && has(block, kMiB, 0) &&
                      has(block + kMiB, 3 * kMiB, 1)
                  ? 0
                  : 1);
    EXPECT_EQ(end_of(child), 0);
    longshore_heap_close_buffer(place);
    EXPECT_EQ(longshore_heap_discard(block + kMiB, 2 * kMiB), 0);
    EXPECT_TRUE(has(block, kMiB, 1) && has(block + kMiB, 2 * kMiB, 0) && has(block + 3 * kMiB, kMiB, 1));
    longshore_heap_release(block);
}

// Pages that the program has closed or opened stay what they are.
TEST_F(Fork, ProtectionsStay) {
    char* block = allocate(kMiB, 1);
    ASSERT_EQ(mprotect(block, 4 * kPage, PROT_NONE), 0);
    ASSERT_EQ(mprotect(block + 8 * kPage, 4 * kPage, PROT_READ), 0);
    const auto is_refused = [](char* at, bool write) {
        const pid_t child = fork();
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL);
            if (write) *at = 5;
            _exit(*const_cast<volatile char*>(at) == 1 ? 0 : 1);
        }
        return WIFSIGNALED(end_of(child));
    };
    for (int i = 0; i < 2; ++i) {
        EXPECT_TRUE(is_refused(block, false));
        EXPECT_TRUE(is_refused(block + 8 * kPage, true));
        EXPECT_FALSE(is_refused(block + 8 * kPage, false));
    }
    ASSERT_EQ(mprotect(block, 12 * kPage, PROT_READ | PROT_WRITE), 0);
    EXPECT_TRUE(has(block, kMiB, 1));
    longshore_heap_release(block);
}

// Who locks pages in memory, or has them known to a device, keeps just those pages.
TEST_F(Fork, PagesThatAreLockedStayWhereTheyAre) {
    char* block = allocate(kMiB, 1);
    if (syscall(SYS_mlock, block, kMiB) != 0) {
        longshore_heap_release(block);
        GTEST_SKIP() << "memory cannot be locked here";
    }
    const pid_t child = fork();
    if (child == 0) {
        const bool right = has(block, kMiB, 1);
        memset(block, 2, kMiB);
        _exit(right && has(block, kMiB, 2) ? 0 : 1);
    }
    EXPECT_EQ(end_of(child), 0);
    EXPECT_TRUE(has(block, kMiB, 1));
    in_file(block)[7] = 4;
    EXPECT_EQ(block[7], 4);
    syscall(SYS_munlock, block, kMiB);
    longshore_heap_release(block);
}

TEST_F(Fork, PagesThatADeviceMayFillStayWhereTheyAre) {
    char path[] = "/tmp/longshore-direct-XXXXXX";
    close(mkstemp(path));
    const int direct = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
    unlink(path);
    if (direct < 0) GTEST_SKIP() << "no file system for O_DIRECT";
    char* block = allocate(kMiB, 1);
    const pid_t child = fork();
    if (child == 0) {
        memset(block + kPage, 2, kPage);
        _exit(has(block, kPage, 1) && has(block + kPage, kPage, 2) ? 0 : 1);
    }
    EXPECT_EQ(end_of(child), 0);
    EXPECT_TRUE(has(block, kMiB, 1));
    in_file(block)[7] = 4;
    EXPECT_EQ(block[7], 4);
    EXPECT_TRUE(is_open_to_others(block, kMiB));
    longshore_heap_release(block);
    close(direct);
}

char a_byte;
void* const fork_on_own_stack_is_right = &a_byte;

// A thread on a stack of the heap forks; its child writes to that stack at once.
void* fork_on_own_stack(void*) {
    static const pid_t self = getpid();
    volatile char local[10'000];
    bool right = true;
    for (int round = 0; round < 5; ++round) {
        for (char volatile& c : local) c = static_cast<char>(round);
        const pid_t child = fork();
        if (child == 0) {
            bool same = true;
            for (char volatile& c : local) same &= c == static_cast<char>(round);
            for (char volatile& c : local) c = 77;
            if (getpid() == self) abort();  // the parent, which was told what its child was told
            _exit(same ? 0 : 1);
        }
        if (getpid() != self) _exit(3);  // a child that came back to where its parent was before
        int status = -1;
        right &= child > 0 && waitpid(child, &status, 0) == child && status == 0;
        for (char volatile& c : local) right &= c == static_cast<char>(round);
    }
    return right ? fork_on_own_stack_is_right : nullptr;
}

TEST_F(Fork, TheStackIsItsOwnAlsoBesideADevice) {
    char path[] = "/tmp/longshore-direct-XXXXXX";
    close(mkstemp(path));
    const int direct = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
    unlink(path);
    for (int i = 0; i < 3; ++i) {
        char* const stack = allocate(kMiB, 1);
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        ASSERT_EQ(pthread_attr_setstack(&attributes, stack, kMiB), 0);
        pthread_t thread;
        ASSERT_EQ(pthread_create(&thread, &attributes, fork_on_own_stack, nullptr), 0);
        void* result = nullptr;
        pthread_join(thread, &result);
        EXPECT_EQ(result, fork_on_own_stack_is_right);
        EXPECT_FALSE(is_open_to_others(stack, kMiB));
        longshore_heap_release(stack);
    }
    if (direct >= 0) close(direct);
}

// Of a core, for a thread of this process.
int64_t nanoseconds_of(pthread_t thread) {
    clockid_t clock;
    timespec time{};
    if (pthread_getcpuclockid(thread, &clock) == 0) clock_gettime(clock, &time);
    return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

TEST_F(Fork, WhoOpensABufferWaitsForIt) {
    char* const block = allocate(kMiB, 1);
    std::atomic<bool> begins{false}, has_opened{false};
    bool is_early = false;
    int place = 0;
    std::thread opens([&] {
        while (!begins) std::this_thread::yield();
        place = longshore_heap_open_buffer(block, kMiB, 0);
        has_opened = true;
    });
    in_parent = [&] {
        constexpr int64_t kEnoughNs = 10'000'000;  // for one who does not wait; who waits looks all the time
        const int64_t before = nanoseconds_of(opens.native_handle());
        begins = true;
        while (!has_opened && nanoseconds_of(opens.native_handle()) - before < kEnoughNs)
            std::this_thread::yield();
        is_early = has_opened;
    };
    const pid_t child = fork();
    if (child == 0) _exit(0);
    in_parent = {};
    opens.join();
    EXPECT_EQ(end_of(child), 0);
    EXPECT_FALSE(is_early);
    EXPECT_EQ(place, -1);
    longshore_heap_release(block);
}

// Beside others that open and close buffers all the time: each is shared as long as it is open.
TEST_F(Fork, BuffersThatAreOpenedMeanwhile) {
    char* before = allocate(16 * kMiB, 1);  // what a fork is about when they are opened
    char* block = allocate(kMiB, 0);
    std::atomic<bool> ends{false};
    std::atomic<int> wrong{0};
    std::thread opens([&] {
        for (char value = 1; !ends; ++value) {
            const int place = longshore_heap_open_buffer(block, kMiB, 0);
            if (place < 0) {  // since a fork; one that is allocated anew is shared
                longshore_heap_release(block);
                block = static_cast<char*>(longshore_heap_allocate(kMiB, 1, 0));
                continue;
            }
            usleep(3000);
            memset(in_file(block), value, kMiB);
            if (!has(block, kMiB, value)) ++wrong;
            longshore_heap_close_buffer(place);
        }
    });
    for (int i = 0; i < 60; ++i) {
        const pid_t child = fork();
        if (child == 0) _exit(0);
        EXPECT_EQ(end_of(child), 0);
        longshore_heap_release(before);
        before = allocate(16 * kMiB, 1);
    }
    ends = true;
    opens.join();
    EXPECT_EQ(wrong, 0);
    longshore_heap_release(before);
    longshore_heap_release(block);
}

// Each of 69,632 operations may have two (kFarPostsMax in dpu/session/session.h).
TEST_F(Fork, BuffersOfAllThatIsOpenHavePlaces) {
    char* const block = allocate(kMiB, 1);
    std::vector<int> places(2 * 69'632);
    for (int& place : places) {
        place = longshore_heap_open_buffer(block, kMiB, 0);
        ASSERT_GE(place, 0) << "after " << &place - places.data();
    }
    const pid_t child = fork();
    if (child == 0) _exit(0);
    EXPECT_EQ(end_of(child), 0);
    EXPECT_TRUE(is_open_to_others(block, kMiB));
    for (const int place : places) longshore_heap_close_buffer(place);
    longshore_heap_release(block);
}

alignas(4096) char static_data[64 * kPage];

TEST_F(Fork, AdoptedMemoryIsPrivateAgainAndCanBeAdoptedAnew) {
    const auto adopt = [&] {
        uint64_t begin = 0, end = 0, offset = 0;
        return longshore_adopt(static_data, sizeof static_data, &begin, &end, &offset) != 0;
    };
    memset(static_data, 1, sizeof static_data);
    ASSERT_TRUE(adopt());
    EXPECT_FALSE(adopt()) << "it is";
    const uint32_t forks = longshore_heap_adopted_forks();
    const int place = longshore_heap_open_buffer(static_data, 100, 1);
    ASSERT_GE(place, 0);
    const auto fork_once = [&](char value) {
        const pid_t child = fork();
        if (child == 0) {
            const bool right = has(static_data, sizeof static_data, value);
            memset(static_data, 77, sizeof static_data);
            _exit(right ? 0 : 1);
        }
        EXPECT_EQ(end_of(child), 0);
        EXPECT_TRUE(has(static_data, sizeof static_data, value));
    };
    fork_once(1);  // in use: it stays
    EXPECT_EQ(longshore_heap_adopted_forks(), forks);
    EXPECT_EQ(longshore_heap_used().adopted_bytes, sizeof static_data);
    longshore_heap_close_buffer(place);
    fork_once(1);
    EXPECT_EQ(longshore_heap_adopted_forks(), forks + 1);
    EXPECT_EQ(longshore_heap_used().adopted_bytes, 0u);
    memset(static_data, 2, sizeof static_data);
    ASSERT_TRUE(adopt());
    memset(static_data, 3, sizeof static_data);
    fork_once(3);
}

}  // namespace
