// The process_vm mover between two processes, and what it says when it cannot.
#include "dpu_bench/mover.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "failure.h"

namespace longshore::dpu_bench {
namespace {

// Another process with the same memory as this one had at the fork, asleep.
class Twin {
  public:
    Twin() : pid_(fork()) {
        if (pid_ == 0)
            for (;;) pause();
    }
    ~Twin() { end(); }
    void end() {
        if (pid_ <= 0) return;
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }
    std::uint64_t pid() const { return std::uint64_t(pid_); }

  private:
    pid_t pid_;
};

TEST(ProcessVmMover, ReadsAndWritesAtOffsetsOfThePeersRegion) {
    char region[16] = "0123456789abcde";
    const auto mover = make_process_vm_mover();
    RegionHandle mine = mover->expose(region, sizeof region);
    Twin twin;
    const RegionHandle handles[] = {mine, {mine.address, twin.pid()}};
    mover->connect(handles);
    std::memset(region, '.', 15);
    mover->read(1, 10, 0, 3);  // the twin still has the old bytes
    mover->wait_all();
    EXPECT_STREQ(region, "abc............");
    mover->write(1, 0, 1, 2);
    mover->read(1, 0, 8, 4);
    mover->read(0, 8, 12, 2);  // from itself
    mover->wait_all();
    EXPECT_STREQ(region, "abc.....bc23bc.");
}

TEST(ProcessVmMover, AFailureIsToldOnceByTheWaitAndNothingFollowsIt) {
    char region[16] = "0123456789abcde";
    const auto mover = make_process_vm_mover();
    const RegionHandle mine = mover->expose(region, sizeof region);
    Twin twin;
    const RegionHandle handles[] = {mine, {mine.address, twin.pid()}, {16, twin.pid()}};
    mover->connect(handles);
    mover->read(2, 0, 0, 4);  // no memory there
    mover->read(0, 8, 0, 4);
    EXPECT_NE(failure(*mover).find("cannot read the memory of rank 2"), std::string::npos);
    EXPECT_STREQ(region, "0123456789abcde");
    EXPECT_EQ(failure(*mover), "");
    mover->write(1, 0, 8, 9);
    EXPECT_NE(failure(*mover).find("leaves this process's region"), std::string::npos);
    twin.end();
    mover->write(1, 0, 0, 4);
    EXPECT_NE(failure(*mover).find("cannot write the memory of rank 1"), std::string::npos);
}

}  // namespace
}  // namespace longshore::dpu_bench
