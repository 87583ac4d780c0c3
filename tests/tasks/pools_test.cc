// What a supervisor says to task processes and to ranks that do not read: this process is the supervisor and
// all the ranks, the task process is a real one.
#include "tasks/pools.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/file.h"
#include "fabric/descriptors.h"

namespace longshore::tasks {
namespace {

constexpr uint64_t kLimitNs = 60'000'000'000;  // on a machine that is busy with other things
constexpr uint32_t kRanks = 600;               // more than a socket takes packets for
constexpr size_t kPacketBytesMax = sizeof(PoolOpened);

class Pools : public testing::Test {
  protected:
    Pools() {
        raise_descriptor_limit();
        TaskPools::Node node;
        node.rank_count = kRanks + 1;
        node.program = LONGSHORED;
        node.place = [](const char*, uint32_t processes, uint32_t, std::string*) {
            return std::vector<TaskPlace>(processes);
        };
        node.tell = [this](const char* text) { said_ += std::string(text) + "\n"; };
        pools_ = std::make_unique<TaskPools>(std::move(node));
    }
    // The rank's end of a connection that opens a pool of one process. `is_full`: with so much unread that
    // nothing more has room.
    Fd open(uint32_t rank, bool is_full = false) {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        Fd near(ends[0]), far(ends[1]);
        const char nothing = 0;
        while (is_full && send_packet(near, &nothing, sizeof nothing) == Io::kOk) {
        }
        OpenPool request;
        request.local_rank = rank;
        request.processes = 1;
        snprintf(request.plugin, sizeof request.plugin, "%s/task_plugin.so", PLUGINS);
        snprintf(request.directory, sizeof request.directory, "/");
        pools_->open(std::move(near), getpid(), request, {});
        return far;
    }
    void turn() {
        pollfd ready{pools_->fd(), POLLIN, 0};
        poll(&ready, 1, 2);
        pools_->turn();
        int status = 0;
        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0; ++ended_) pools_->reap(pid, status);
    }
    // The next packet of that kind. False: the connection has ended, or it has not come in time.
    template <class Message>
    bool hear(const Fd& rank, Message* out) {
        std::vector<std::byte> buffer(kPacketBytesMax);
        std::vector<Fd> descriptors;
        const Message blank = *out;
        for (const uint64_t end = now_ns() + kLimitNs; now_ns() < end;) {
            size_t bytes = 0;
            const Io io = receive_packet(rank, buffer.data(), buffer.size(), &bytes, &descriptors);
            if (io == Io::kClosed) return false;
            if (io == Io::kAgain) turn();
            if (io != Io::kOk || bytes != sizeof *out) continue;
            memcpy(static_cast<void*>(out), buffer.data(), sizeof *out);
            if (memcmp(out, &blank, sizeof(TaskHeader)) == 0) return true;
        }
        return false;
    }
    bool is_opened(const Fd& rank) {
        PoolOpened answer;
        return hear(rank, &answer) && answer.error == 0;
    }
    static void say_close(const Fd& rank) {
        const TaskHeader last{kControlMagic, TaskMessage::kClose};
        EXPECT_EQ(send_packet(rank, &last, sizeof last), Io::kOk);
    }
    bool is_closed(const Fd& rank) {
        TaskHeader answer{kControlMagic, TaskMessage::kClosed};
        return hear(rank, &answer);
    }
    // The only child.
    static pid_t process() {
        return static_cast<pid_t>(
            atoi(read_proc("/proc/self/task/" + std::to_string(getpid()) + "/children").c_str()));
    }
    static char state_of(pid_t pid) {
        const std::string stat = read_proc("/proc/" + std::to_string(pid) + "/stat");
        return stat[stat.rfind(')') + 2];
    }
    static void wait_for_state(pid_t pid, char state) {
        const uint64_t end = now_ns() + kLimitNs;
        while (state_of(pid) != state && now_ns() < end) usleep(1000);
        EXPECT_EQ(state_of(pid), state);
    }

    std::string said_;
    int ended_ = 0;
    std::unique_ptr<TaskPools> pools_;
};

// It runs a long task, say, or loads its plug-in.
TEST_F(Pools, AProcessThatReadsNothingServesAllRanksLater) {
    const Fd first = open(0);
    ASSERT_TRUE(is_opened(first));
    const pid_t task_process = process();
    ASSERT_GT(task_process, 0);
    kill(task_process, SIGSTOP);
    wait_for_state(task_process, 'T');
    std::vector<Fd> ranks;
    for (uint32_t r = 1; r <= kRanks; ++r) {
        ranks.push_back(open(r));
        turn();
    }
    EXPECT_EQ(ended_, 0) << said_;
    // It answers a supervisor that hears nothing meanwhile, and sleeps then.
    kill(task_process, SIGCONT);
    wait_for_state(task_process, 'S');
    for (const Fd& rank : ranks) ASSERT_TRUE(is_opened(rank)) << &rank - ranks.data() << '\n' << said_;
    kill(task_process, SIGSTOP);
    wait_for_state(task_process, 'T');
    for (const Fd& rank : ranks) say_close(rank);
    for (int i = 0; i < 100; ++i) turn();
    std::byte nothing[kPacketBytesMax];
    size_t bytes = 0;
    for (const Fd& rank : ranks)
        ASSERT_EQ(receive_packet(rank, nothing, sizeof nothing, &bytes, nullptr), Io::kAgain)
            << "the task process may be at its tasks still";
    kill(task_process, SIGCONT);
    wait_for_state(task_process, 'S');
    for (const Fd& rank : ranks) ASSERT_TRUE(is_closed(rank)) << &rank - ranks.data() << '\n' << said_;
    EXPECT_EQ(process(), task_process);
    EXPECT_EQ(ended_, 0) << said_;
}

// As where more descriptors are on their way than the system has room for.
TEST_F(Pools, ARankThatReadsLateHasItsPool) {
    const Fd rank = open(0, true);
    const Fd other = open(1);
    ASSERT_TRUE(is_opened(other));
    EXPECT_TRUE(is_opened(rank));
    say_close(rank);
    EXPECT_TRUE(is_closed(rank));
}

}  // namespace
}  // namespace longshore::tasks
