// What an agent keeps of ranks that have gone is bounded, and who may open a pool of tasks.
#include "service/agent_ranks.h"

#include <gtest/gtest.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>

namespace longshore {
namespace {

constexpr uint64_t kHeapBytes = 4096;

class NoNetwork : public MemoryAgent {
  public:
    std::span<const std::byte> address() const override { return {}; }
    int event_fd() const override { return -1; }
    bool arm() override { return true; }
    bool progress() override { return false; }
    UcxOpening* open_memory(std::span<std::byte>, std::vector<std::byte>*, std::string*) override {
        return nullptr;
    }
    void close_memory(UcxOpening*) override {}
    bool export_memory(const UcxOpening*, std::vector<std::byte>*, std::string*) override { return false; }
};

// The place of the memory of each is kept, so that whoever still writes there harms nothing.
TEST(AgentRanks, NotAnyNumberOfRanksComesAndGoes) {
    NoNetwork network;
    Token token;
    token.fill(3);
    AgentRanks ranks(&network, token, [](const Fd&) { return true; });
    const Fd heap = make_memory_file("test-heap", kHeapBytes);
    AgentHello hello;
    hello.token = token;
    uint32_t welcome = 0;
    AgentAnswer answer;
    for (; welcome < 10000; ++welcome) {
        int ends[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        const Fd rank(ends[0]);
        ranks.add(Fd(ends[1]));
        const int give = heap.get();
        ASSERT_EQ(send_packet(rank, &hello, sizeof hello, {&give, 1}), Io::kOk);
        ranks.turn();
        size_t bytes = 0;
        ASSERT_EQ(receive_packet(rank, &answer, sizeof answer, &bytes, nullptr), Io::kOk);
        if (!answer.ok) break;
    }
    EXPECT_EQ(welcome, 4096u);
    EXPECT_STREQ(answer.reason, "more ranks than an agent has room for");
}

// Connections of this process, which is a rank by those that have said hello.
class Pools : public testing::Test {
  protected:
    Pools() {
        token_.fill(3);
        ranks_ = std::make_unique<AgentRanks>(
            &network_, token_, [](const Fd&) { return true; },
            [this](Fd, pid_t pid, const tasks::OpenPool&, std::vector<Fd>) { opened_ += pid == getpid(); });
    }
    Fd connect() {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        ranks_->add(Fd(ends[1]));
        return Fd(ends[0]);
    }
    Fd greet() {
        Fd rank = connect();
        AgentHello hello;
        hello.token = token_;
        const Fd heap = make_memory_file("test-heap", kHeapBytes);
        const int give = heap.get();
        EXPECT_EQ(send_packet(rank, &hello, sizeof hello, {&give, 1}), Io::kOk);
        ranks_->turn();
        return rank;
    }
    Fd ask_for_pool() {
        Fd rank = connect();
        tasks::OpenPool request;
        request.token = token_;
        EXPECT_EQ(send_packet(rank, &request, sizeof request), Io::kOk);
        return rank;
    }

    NoNetwork network_;
    Token token_;
    std::unique_ptr<AgentRanks> ranks_;
    int opened_ = 0;
};

TEST_F(Pools, AreForRanksAlone) {
    const Fd stranger = ask_for_pool();
    ranks_->turn();
    EXPECT_EQ(opened_, 0);
    const Fd rank = greet(), pool = ask_for_pool();
    ranks_->turn();
    EXPECT_EQ(opened_, 1);
}

// All in one turn of the agent.
TEST_F(Pools, AreOpenedWhileOtherConnectionsEnd) {
    Fd gone = greet();
    const Fd stays = greet(), pool = ask_for_pool();
    gone.reset();
    ranks_->turn();
    EXPECT_EQ(opened_, 1);
    EXPECT_EQ(ranks_->now(), 1u);
}

TEST_F(Pools, AreNotForARankWhoseConnectionHasEnded) {
    Fd gone = greet();
    const Fd pool = ask_for_pool();
    gone.reset();
    ranks_->turn();
    EXPECT_EQ(opened_, 0);
    EXPECT_EQ(ranks_->connections(), 0u);
}

}  // namespace
}  // namespace longshore
