#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace longshore {
namespace {

TEST(ReadProc, GivesTheWholeFile) {
    std::string words;
    for (const std::string& word : testing::internal::GetArgvs()) words += word + '\0';
    EXPECT_EQ(read_proc("/proc/self/cmdline"), words);
    EXPECT_GT(read_proc("/proc/self/smaps").size(), 4096u);
}

TEST(ReadProc, IsEmptyWhereThereIsNothingToRead) {
    EXPECT_EQ(read_proc("/proc/0/stat"), "");
    EXPECT_EQ(read_proc("/proc/self"), "") << "a folder";
}

// The process ends between open() and read(): this process opens the file first, and read_proc opens what it
// has open.
TEST(ReadProc, IsEmptyWhenTheProcessEndsMeanwhile) {
    for (const char* name : {"cmdline", "stat", "comm"}) {
        const pid_t child = fork();
        if (child == 0) {
            pause();
            _exit(0);
        }
        const int file = open(("/proc/" + std::to_string(child) + "/" + name).c_str(), O_RDONLY | O_CLOEXEC);
        ASSERT_GE(file, 0);
        const std::string again = "/proc/self/fd/" + std::to_string(file);
        EXPECT_NE(read_proc(again), "") << name;
        kill(child, SIGKILL);
        ASSERT_EQ(waitpid(child, nullptr, 0), child);
        EXPECT_EQ(read_proc(again), "") << name;
        char byte;
        EXPECT_EQ(read(file, &byte, 1), -1) << name;
        EXPECT_EQ(errno, ESRCH) << name;
        close(file);
    }
}

TEST(WaitUntilRead, ReturnsWhenAllIsRead) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    wait_until_read(ends[1]);
    ASSERT_EQ(write(ends[1], "ab", 2), 2);
    const pid_t reader = fork();
    if (reader == 0) {
        char byte;
        for (int i = 0; i < 2; ++i) {
            usleep(100'000);
            if (read(ends[0], &byte, 1) != 1) _exit(1);
        }
        _exit(0);
    }
    wait_until_read(ends[1]);
    ASSERT_EQ(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    char byte;
    EXPECT_EQ(read(ends[0], &byte, 1), -1);
    EXPECT_EQ(errno, EAGAIN);
    int status = 1;
    ASSERT_EQ(waitpid(reader, &status, 0), reader);
    EXPECT_EQ(status, 0);
    close(ends[0]);
    close(ends[1]);
}

TEST(WaitUntilRead, EndsWhereNobodyReads) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    ASSERT_EQ(write(ends[1], "a", 1), 1);
    wait_until_read(ends[1], 1);
    close(ends[0]);
    wait_until_read(ends[1]);
    close(ends[1]);
    wait_until_read(ends[1]);
    wait_until_read(open("/proc/self/stat", O_RDONLY | O_CLOEXEC));  // no pipe
}

}  // namespace
}  // namespace longshore
