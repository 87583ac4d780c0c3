// The supervisor's side of write-behind and a true writer, with a rank that is played: what is said when
// ranks have ended before all is written.
#include "io/keeper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <functional>
#include <string>

#include "io/rings.h"

namespace longshore::io {
namespace {

constexpr uint64_t kRingBytes = 1 << 20;
constexpr uint64_t kFile = 1;  // its number

struct Ends {
    Fd first, second;
};

Ends make_sockets() {
    int fds[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    return {Fd(fds[0]), Fd(fds[1])};
}

class KeeperTest : public testing::Test {
  protected:
    KeeperTest() {
        int fds[2] = {-1, -1};
        EXPECT_EQ(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
        said_ = Fd(fds[0]);
        errors_ = Fd(fds[1]);
    }

    // A rank that has opened its queue.
    void start(uint64_t stuck_ns) {
        Keeper::Node node;
        node.program = LONGSHORED;
        node.restarts_max = 1;
        node.stuck_ns = stuck_ns;
        node.tell = [](const char*) {};
        keeper_ = std::make_unique<Keeper>(std::move(node));
        Ends ends = make_sockets();
        socket_ = std::move(ends.first);
        OpenQueue request;
        request.has_stderr = 1;
        request.ring_bytes = kRingBytes;
        std::vector<Fd> given;
        given.emplace_back(fcntl(errors_.get(), F_DUPFD_CLOEXEC, 0));
        keeper_->open(std::move(ends.second), getpid(), request, std::move(given));
        QueueOpened answer;
        std::vector<Fd> got;
        hear(&answer, &got);
        ASSERT_EQ(answer.ok, 1u) << answer.text;
        ASSERT_EQ(got.size(), 2u);
        board_mapping_ = Mapping::shared(got[0].get(), board_bytes(1));
        ring_ = Mapping::shared(got[1].get(), kRingBytes);
        ASSERT_TRUE(board_mapping_ && ring_);
    }

    template <class Message>
    void hear(Message* message, std::vector<Fd>* descriptors) {
        size_t bytes = 0;
        ASSERT_EQ(receive_packet(socket_, message, sizeof *message, &bytes, descriptors), Io::kOk);
        ASSERT_EQ(bytes, sizeof *message);
    }

    Queue& queue() { return reinterpret_cast<Board*>(board_mapping_.data())->queues[0]; }

    void submit(RecordKind kind, const std::string& data) {
        Record record;
        record.kind = static_cast<uint32_t>(kind);
        record.number = kFile;
        record.bytes = data.size();
        const uint64_t at = queue().submitted.load();
        memcpy(static_cast<void*>(ring_.data() + at), &record, sizeof record);
        memcpy(ring_.data() + at + sizeof record, data.data(), data.size());
        queue().submitted.store(at + sizeof record + padded(data.size()));
        wake(queue().kicks);
    }

    // The number of this process's child.
    static pid_t writer() {
        std::ifstream children("/proc/self/task/" + std::to_string(gettid()) + "/children");
        pid_t pid = 0;
        children >> pid;
        return pid;
    }

    // A file that is the end of a pipe, which tells when nobody has it any more; and the answer.
    Fd hold_a_pipe() {
        int ends[2] = {-1, -1};
        EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
        const Fd given(ends[1]);
        HoldFile message;
        message.number = kFile;
        queue().slots[0].number.store(kFile);
        EXPECT_EQ(send_packet(socket_, &message, sizeof message, {&ends[1], 1}), Io::kOk);
        keeper_->turn();
        hear(&message, nullptr);
        EXPECT_EQ(message.error, 0);
        return Fd(ends[0]);
    }

    // Whether nobody has the other end.
    static bool is_let_go(const Fd& end) {
        pollfd look{end.get(), POLLIN, 0};
        return poll(&look, 1, 0) == 1 && (look.revents & POLLHUP) != 0;
    }

    void turn_until(const std::function<bool()>& is_so) {
        for (const uint64_t end = now_ns() + 60'000'000'000; !is_so();) {
            ASSERT_LT(now_ns(), end);
            pollfd ready{keeper_->fd(), POLLIN, 0};
            poll(&ready, 1, 10);
            keeper_->turn();
        }
    }

    // All lines, when the keeper says that it is over.
    std::string finish() {
        while (keeper_->finish()) {
            pollfd ready{keeper_->fd(), POLLIN, 0};
            poll(&ready, 1, 10);
            keeper_->turn();
        }
        std::array<char, 4096> text{};
        const ssize_t bytes = read(said_.get(), text.data(), text.size());
        return bytes > 0 ? std::string(text.data(), static_cast<size_t>(bytes)) : "";
    }

    Fd said_, errors_, socket_;
    std::unique_ptr<Keeper> keeper_;
    Mapping board_mapping_, ring_;
};

TEST_F(KeeperTest, WritesWhatRanksHaveLeft) {
    start(60'000'000'000);
    char name[] = "/tmp/longshore-keeper-XXXXXX";
    Fd file(mkostemp(name, O_CLOEXEC));
    ASSERT_TRUE(file);
    unlink(name);
    const std::string data(100'000, 'x');
    submit(RecordKind::kWrite, data);
    submit(RecordKind::kClose, "");
    const uint64_t waiting = keeper_->waiting();
    EXPECT_EQ(waiting, 2 * sizeof(Record) + padded(data.size()));
    // The writer waits for the file: it cannot have written anything.
    ASSERT_TRUE(keeper_->finish());
    HoldFile message;
    message.number = kFile;
    const int give[] = {file.get()};
    ASSERT_EQ(send_packet(socket_, &message, sizeof message, give), Io::kOk);
    keeper_->turn();
    hear(&message, nullptr);
    EXPECT_EQ(message.error, 0);
    EXPECT_EQ(finish(),
              "longshore: the ranks of node 0 have ended; 1 MB of their files are still being written\n"
              "longshore: all is written\n");
    EXPECT_EQ(keeper_->waiting(), 0u);
    std::string found(data.size() + 1, 0);
    ASSERT_EQ(pread(file.get(), found.data(), found.size(), 0), static_cast<ssize_t>(data.size()));
    EXPECT_EQ(found.substr(0, data.size()), data);
}

TEST_F(KeeperTest, GivesUpADiskThatWritesNothing) {
    start(1'000'000'000);
    // Its file never comes, which holds up the writer for longer than that.
    submit(RecordKind::kWrite, std::string(700'000, 'x'));
    EXPECT_EQ(finish(),
              "longshore: the ranks of node 0 have ended; 1 MB of their files are still being written\n"
              "longshore: nothing has been written for 1 s; 1 MB of files are lost\n");
}

// Else each file to which nothing was written would cost a descriptor for as long as the job runs.
TEST_F(KeeperTest, ForgetsFilesThatAreClosedBeforeTheWriterHasThem) {
    start(60'000'000'000);
    submit(RecordKind::kClose, "");
    turn_until([&] { return keeper_->waiting() == 0; });
    const Fd end = hold_a_pipe();
    turn_until([&] { return is_let_go(end); });
}

TEST_F(KeeperTest, ForgetsFilesThatALostWriterHadClosed) {
    start(60'000'000'000);
    kill(writer(), SIGSTOP);
    const Fd end = hold_a_pipe();
    EXPECT_FALSE(is_let_go(end));
    // All that the rank knows of it is done, and the writer is lost before it says so.
    const pid_t lost = writer();
    kill(lost, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(lost, &status, 0), lost);
    ASSERT_TRUE(keeper_->reap(lost, status));
    turn_until([&] { return is_let_go(end); });
}

TEST_F(KeeperTest, KeepsFilesThatAreOpenWhenAWriterIsLost) {
    start(60'000'000'000);
    queue().slots[0].is_open.store(1);
    const Fd end = hold_a_pipe();
    const pid_t lost = writer();
    kill(lost, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(lost, &status, 0), lost);
    ASSERT_TRUE(keeper_->reap(lost, status));
    EXPECT_FALSE(is_let_go(end));
    submit(RecordKind::kClose, "");
    turn_until([&] { return is_let_go(end); });
}

TEST_F(KeeperTest, SaysNothingWhereAllIsWritten) {
    start(60'000'000'000);
    EXPECT_EQ(finish(), "");
}

}  // namespace
}  // namespace longshore::io
