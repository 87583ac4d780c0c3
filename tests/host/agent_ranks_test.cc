// What an agent keeps of ranks that have gone is bounded.
#include "service/agent_ranks.h"

#include <gtest/gtest.h>
#include <string.h>
#include <sys/socket.h>

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

}  // namespace
}  // namespace longshore
