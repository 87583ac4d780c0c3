// What a fork calls while it is under way, in parent and child: no function of libc that a library may have
// in its place, with a lock that it holds over a fork so that its child finds it free. Whoever calls such a
// function then waits for ever. Of those that fork.c and its like could use this program has its own, as such
// a library would.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "memory/adopt.h"
#include "memory/heap.h"

namespace {

constexpr size_t kMiB = 1u << 20, kPage = 4096;

volatile bool locks_are_held = false;  // the library's, by the thread that forks
volatile int calls_that_hang = 0;      // since the locks were taken

void note(const char* name) {
    if (!locks_are_held) return;
    calls_that_hang = calls_that_hang + 1;
    syscall(SYS_write, STDERR_FILENO, name, strlen(name));
    syscall(SYS_write, STDERR_FILENO, " while a fork is under way\n", 27);
}

template <typename... Arguments>
long call(const char* name, long number, Arguments... arguments) {
    note(name);
    return syscall(number, arguments...);
}

}  // namespace

extern "C" {
#define OWN __attribute__((visibility("default")))
OWN int open(const char* path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    const int mode = (flags & O_CREAT) != 0 ? va_arg(more, int) : 0;
    va_end(more);
    return static_cast<int>(call("open", SYS_openat, AT_FDCWD, path, flags, mode));
}
OWN int openat(int folder, const char* path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    const int mode = (flags & O_CREAT) != 0 ? va_arg(more, int) : 0;
    va_end(more);
    return static_cast<int>(call("openat", SYS_openat, folder, path, flags, mode));
}
OWN int close(int file) {
    return static_cast<int>(call("close", SYS_close, file));
}
OWN ssize_t read(int file, void* to, size_t bytes) {
    return call("read", SYS_read, file, to, bytes);
}
OWN ssize_t write(int file, const void* from, size_t bytes) {
    return call("write", SYS_write, file, from, bytes);
}
OWN ssize_t pread(int file, void* to, size_t bytes, off_t at) {
    return call("pread", SYS_pread64, file, to, bytes, at);
}
OWN off_t lseek(int file, off_t at, int from) noexcept {
    return call("lseek", SYS_lseek, file, at, from);
}
OWN int fstat(int file, struct stat* out) noexcept {
    return static_cast<int>(call("fstat", SYS_fstat, file, out));
}
OWN int fstatat(int folder, const char* path, struct stat* out, int flags) noexcept {
    return static_cast<int>(call("fstatat", SYS_newfstatat, folder, path, out, flags));
}
OWN ssize_t readlinkat(int folder, const char* path, char* to, size_t bytes) noexcept {
    return call("readlinkat", SYS_readlinkat, folder, path, to, bytes);
}
OWN int fcntl(int file, int command, ...) {
    va_list more;
    va_start(more, command);
    void* const argument = va_arg(more, void*);
    va_end(more);
    return static_cast<int>(call("fcntl", SYS_fcntl, file, command, argument));
}
OWN int fallocate(int file, int mode, off_t at, off_t bytes) {
    return static_cast<int>(call("fallocate", SYS_fallocate, file, mode, at, bytes));
}
// What is exchanged at its place is told to those who watch what is mapped (backing.h).
OWN void* mmap(void* at, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
    if ((flags & MAP_FIXED) == 0) note("mmap");
    return reinterpret_cast<void*>(syscall(SYS_mmap, at, bytes, protection, flags, file, offset));
}
OWN int munmap(void* at, size_t bytes) noexcept {
    return static_cast<int>(call("munmap", SYS_munmap, at, bytes));
}
OWN int madvise(void* at, size_t bytes, int advice) noexcept {
    return static_cast<int>(call("madvise", SYS_madvise, at, bytes, advice));
}
}

namespace {

void hold() {
    locks_are_held = true;
}
void let_go() {
    locks_are_held = false;
}

alignas(4096) char static_data[16 * kPage];

class ForkCalls : public testing::Test {
  protected:
    // The library comes after the heap: its handlers are before the heap's in front of a fork, and after them
    // behind.
    static void SetUpTestSuite() {
        ASSERT_NE(longshore_heap_open(256 * kMiB), nullptr);
        ASSERT_EQ(pthread_atfork(hold, let_go, let_go), 0);
    }
    void SetUp() override {
        calls_that_hang = 0;
        block_ = static_cast<char*>(longshore_heap_allocate(4 * kMiB, 1, 0));
        memset(block_, 1, 2 * kMiB);  // and the rest was never written
    }
    void TearDown() override { longshore_heap_release(block_); }

    void fork_and_look() {
        const pid_t child = fork();
        if (child == 0) _exit(calls_that_hang == 0 && block_[kMiB] == 1 && block_[3 * kMiB] == 0 ? 0 : 1);
        int status = -1;
        waitpid(child, &status, 0);
        EXPECT_EQ(status, 0);
        EXPECT_EQ(calls_that_hang, 0);
    }

    char* block_ = nullptr;
};

TEST_F(ForkCalls, OfBlocksThatBecomePrivate) {
    fork_and_look();
    EXPECT_GE(longshore_heap_used().private_bytes, 4 * kMiB);
}

TEST_F(ForkCalls, OfBuffersThatAreCopied) {
    const int place = longshore_heap_open_buffer(block_, kMiB, 0);
    ASSERT_GE(place, 0);
    fork_and_look();
    longshore_heap_close_buffer(place);
}

TEST_F(ForkCalls, BesideFilesThatDevicesMayRead) {
    char path[] = "/tmp/longshore-direct-XXXXXX";
    close(mkstemp(path));
    const int direct = open(path, O_RDWR | O_DIRECT | O_CLOEXEC),
              null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    unlink(path);
    fork_and_look();
    close(null);
    if (direct >= 0) close(direct);
}

TEST_F(ForkCalls, OfAdoptedMemory) {
    uint64_t begin = 0, end = 0, offset = 0;
    memset(static_data, 1, sizeof static_data);
    ASSERT_NE(longshore_adopt(static_data, sizeof static_data, &begin, &end, &offset), 0);
    fork_and_look();
    EXPECT_EQ(longshore_heap_used().adopted_bytes, 0u);
}

TEST_F(ForkCalls, ForThreadsThatWaitForAWord) {
    auto* const word = reinterpret_cast<int*>(block_);
    *word = 0;
    std::atomic<pid_t> tid{0};
    std::thread waits([&] {
        tid = static_cast<pid_t>(syscall(SYS_gettid));
        while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0)
            syscall(SYS_futex, word, FUTEX_WAIT, 0, nullptr, nullptr, 0);
    });
    const std::string in_futex = std::to_string(SYS_futex) + " ";
    for (std::string line; line.compare(0, in_futex.size(), in_futex) != 0; std::this_thread::yield()) {
        const int file = open(("/proc/self/task/" + std::to_string(tid.load()) + "/syscall").c_str(),
                              O_RDONLY | O_CLOEXEC);
        char text[160] = "";
        if (file >= 0 && read(file, text, sizeof text - 1) > 0) line = text;
        close(file);
    }
    fork_and_look();
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    waits.join();
}

}  // namespace
