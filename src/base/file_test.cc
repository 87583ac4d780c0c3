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

}  // namespace
}  // namespace longshore
