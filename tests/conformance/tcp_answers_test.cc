// Who is taken for gone on a TCP stream: a machine that does not answer, not one that takes nothing.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "fabric/tcp/answers.h"
#include "fabric/tcp/stream.h"

namespace longshore {
namespace {

// Of two questions of who has no room within half a second the kernel answers one.
constexpr uint64_t kSilenceNs = 2'000'000'000;

class TcpAnswers : public testing::Test {
  protected:
    void SetUp() override {
        const Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const int small = 4096;
        setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t bytes = sizeof at;
        ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&at), bytes), 0);
        ASSERT_EQ(listen(listener.get(), 1), 0);
        getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &bytes);
        here_ = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        ASSERT_EQ(connect(here_.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
        there_ = Fd(accept(listener.get(), nullptr, nullptr));
        ASSERT_TRUE(there_);
        ProbeTimes times;
        times.idle_ns = times.step_ns = 1'000'000'000;
        times.silence_ns = kSilenceNs;
        set_up_stream(here_.get(), times);
    }
    // More than both ends' kernels take.
    void fill() {
        const std::vector<char> some(1 << 16);
        while (send(here_.get(), some.data(), some.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
        }
    }
    // Whether the other end seems to be gone while so many times the silence goes by.
    bool is_gone_within(int silences) {
        bool gone = false;
        for (int i = 0; i < 10 * silences; ++i) {
            usleep(kSilenceNs / 1000 / 10);
            gone |= answers_.are_missing(here_.get(), kSilenceNs);
        }
        return gone;
    }
    Fd here_, there_;
    Answers answers_;
};

TEST_F(TcpAnswers, AreNotMissedOfWhoTakesNothing) {
    fill();
    EXPECT_FALSE(is_gone_within(3));
    EXPECT_EQ(connect_error(here_.get()), 0) << "the kernel has not ended it either";
    std::vector<char> some(1 << 16);
    EXPECT_GT(recv(there_.get(), some.data(), some.size(), 0), 0);
}

TEST_F(TcpAnswers, AreNotMissedWhereNothingIsSaid) {
    EXPECT_FALSE(is_gone_within(1));
}

TEST_F(TcpAnswers, AreMissedOfWhoDoesNotAcknowledge) {
    sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    const sock_fprog program{1, &nothing};
    ASSERT_EQ(setsockopt(there_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
    ASSERT_EQ(send(here_.get(), "?", 1, MSG_NOSIGNAL), 1);
    EXPECT_FALSE(answers_.are_missing(here_.get(), kSilenceNs)) << "it has just been asked";
    while (!answers_.are_missing(here_.get(), kSilenceNs)) usleep(10'000);
}

}  // namespace
}  // namespace longshore
