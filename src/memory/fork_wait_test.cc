// A fork while no descriptor can be had: the parent still waits for its child's copy of the heap.
#include "memory/fork_wait.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <string>

#include "memory/heap.h"

namespace {

// What a forked child does before the heap's own handler copies for it, because this is registered first.
struct Child {
    std::atomic<bool> is_held = false, may_go = false, ends = false;
};
Child* const child_first =
    new (mmap(nullptr, sizeof(Child), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Child;
void before_it_copies() {
    if (child_first->ends) _exit(3);
    while (child_first->is_held && !child_first->may_go) sched_yield();
}
const int is_first = pthread_atfork(nullptr, nullptr, before_it_copies);

std::atomic<int> looks = -1;  // from 0 on: pauses that the heap has asked for, none of which is made
bool has_segments = true;

}  // namespace

extern "C" int usleep(useconds_t us) {
    if (looks.load() >= 0) {
        looks.fetch_add(1);
        return 0;
    }
    const timespec pause{us / 1'000'000, static_cast<long>(us % 1'000'000) * 1000};
    return nanosleep(&pause, nullptr);
}
extern "C" int shmget(key_t key, size_t bytes, int flags) noexcept {
    if (!has_segments) {
        errno = ENOSPC;
        return -1;
    }
    return static_cast<int>(syscall(SYS_shmget, key, bytes, flags));
}

namespace {

constexpr size_t kBytes = 5u << 20;

class ForkWait : public testing::Test {
  protected:
    void SetUp() override { ASSERT_NE(longshore_heap_open(64u << 20), nullptr); }
    static char* allocate() { return static_cast<char*>(longshore_heap_allocate(kBytes, 1, 0)); }
};

void fill(char* at, int seed) {
    for (size_t i = 0; i < kBytes; i += 509) at[i] = static_cast<char>(i / 509 + static_cast<size_t>(seed));
}
bool is_filled(const char* at, int seed) {
    for (size_t i = 0; i < kBytes; i += 509)
        if (at[i] != static_cast<char>(i / 509 + static_cast<size_t>(seed))) return false;
    return true;
}

// As long as it lives, no descriptor can be had.
class NoDescriptors {
  public:
    NoDescriptors() {
        getrlimit(RLIMIT_NOFILE, &before_);
        const int lowest_free = dup(STDERR_FILENO);
        close(lowest_free);
        const rlimit none{static_cast<rlim_t>(lowest_free), before_.rlim_max};
        setrlimit(RLIMIT_NOFILE, &none);
        EXPECT_EQ(dup(STDERR_FILENO), -1) << "or it tests nothing";
    }
    ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

  private:
    rlimit before_{};
};

std::atomic<bool> has_returned = false;
void* let_the_child_go(void*) {
    while (looks.load() < 20'000 && !has_returned) sched_yield();
    child_first->may_go = true;
    return nullptr;
}

// What was said meanwhile on stderr. The child begins to copy when fork has looked 20,000 times, or returned.
std::string fork_with_a_slow_child(char* block) {
    testing::internal::CaptureStderr();
    child_first->may_go = false;
    child_first->is_held = true;
    fill(block, 31);
    has_returned = false;
    looks = 0;
    // No std::thread: the sanitizer looks at its virtual functions with the help of a pipe, of which there is none.
    pthread_t other;
    EXPECT_EQ(pthread_create(&other, nullptr, let_the_child_go, nullptr), 0);
    pid_t child = -1;
    {
        const NoDescriptors none;
        child = fork();
        if (child == 0) _exit(is_filled(block, 31) ? 0 : 1);
    }
    EXPECT_GE(looks.load(), 20'000) << "fork returned before its child had a copy";
    fill(block, 32);
    has_returned = true;
    pthread_join(other, nullptr);
    looks = -1;
    child_first->is_held = false;
    int status = 1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "the child's copy has what its parent wrote later";
    return testing::internal::GetCapturedStderr();
}

TEST_F(ForkWait, AForkWithoutDescriptorsWaitsForASlowChild) {
    char* block = allocate();
    EXPECT_EQ(fork_with_a_slow_child(block), "");
    has_segments = false;
    const std::string said = fork_with_a_slow_child(block);
    has_segments = true;
    EXPECT_EQ(said.find("longshore: a fork waits until the child has a copy"), 0u) << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
    longshore_heap_release(block);
}

TEST_F(ForkWait, AForkWithoutDescriptorsEndsWithItsChild) {
    char* block = allocate();
    fill(block, 33);
    child_first->ends = true;
    pid_t child = -1;
    {
        const NoDescriptors none;
        child = fork();
    }
    child_first->ends = false;
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), 3);
    EXPECT_TRUE(is_filled(block, 33));
    longshore_heap_release(block);
}

}  // namespace
