// What an agent keeps of ranks that have gone is bounded; who may open a pool of tasks; and what it copies
// from one rank to another, for a stand-in that is this test.
#include "dpu/host_agent/agent_ranks.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <functional>
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
    AgentRanks ranks(&network, token, [](const Fd&, uint32_t) { return true; });
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

// A rank that reads nothing is there all the same, and is heard on when it has read.
TEST(AgentRanks, WhoReadsNothingIsAnsweredWhenItReads) {
    NoNetwork network;
    Token token;
    token.fill(3);
    uint32_t watched = 0;
    AgentRanks ranks(&network, token, [&](const Fd&, uint32_t events) {
        watched = events;
        return true;
    });
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    const Fd rank(ends[0]), heap = make_memory_file("test-heap", kHeapBytes);
    ranks.add(Fd(ends[1]));
    AgentHello hello;
    hello.token = token;
    const int give = heap.get();
    ASSERT_EQ(send_packet(rank, &hello, sizeof hello, {&give, 1}), Io::kOk);
    // It asks for more and more until nobody hears it any more.
    AgentOpen request;
    request.bytes = kHeapBytes;
    for (;;) {
        request.id += 1;
        const Io io = send_packet(rank, &request, sizeof request);
        if (io == Io::kAgain) break;
        ASSERT_EQ(io, Io::kOk) << "after " << request.id;
        ranks.turn();
        ASSERT_EQ(ranks.connections(), 1u) << "after " << request.id;
    }
    EXPECT_EQ(watched, uint32_t{EPOLLOUT});
    uint32_t answered = 0;  // the first to its hello
    AgentAnswer answer;
    size_t bytes = 0;
    for (int quiet = 0; quiet < 2; ++quiet) {
        for (; receive_packet(rank, &answer, sizeof answer, &bytes, nullptr) == Io::kOk;
             ++answered, quiet = 0)
            ASSERT_EQ(answer.id, answered);
        ranks.turn();
    }
    EXPECT_EQ(answered, request.id);
    EXPECT_EQ(watched, uint32_t{EPOLLIN});
    EXPECT_EQ(ranks.now(), 1u);
}

// Connections of this process, which is a rank by those that have said hello.
class Pools : public testing::Test {
  protected:
    Pools() {
        token_.fill(3);
        ranks_ = std::make_unique<AgentRanks>(
            &network_, token_, [](const Fd&, uint32_t) { return true; },
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

// Two ranks with a heap each, whose agent is turned by hand, and the standing service of a DPU.
class AgentCopying : public testing::Test {
  protected:
    static constexpr uint64_t kHeap = 1 << 20;
    struct Rank {
        Fd socket, heap;
        std::byte* memory = nullptr;
        uint64_t word = 0;
    };
    AgentCopying() {
        token_.fill(3);
        sockaddr_in own{};
        own.sin_family = AF_INET;
        own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof own;
        listener_ = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        bind(listener_.get(), reinterpret_cast<sockaddr*>(&own), sizeof own);
        listen(listener_.get(), 4);
        getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&own), &length);
        snprintf(job_.dpu, sizeof job_.dpu, "127.0.0.1:%d", ntohs(own.sin_port));
        job_.job = 77;
        job_.job_token.fill(9);
        agent_ = std::make_unique<AgentRanks>(
            &network_, token_, [](const Fd&, uint32_t) { return true; }, AgentRanks::PoolOpened(),
            [this](uint32_t rank, const std::vector<pid_t>&) {
                return std::make_unique<AgentCopier>(job_, rank, [](int, bool) { return true; });
            });
        for (uint32_t r = 0; r < 2; ++r) join(r);
    }
    void SetUp() override {
        uint64_t from = 1, to = 0;
        const iovec here{&to, sizeof to}, there{&from, sizeof from};
        if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != sizeof to)
            GTEST_SKIP() << "nobody reads another's memory here (emulated): no agent copies";
    }
    ~AgentCopying() override {
        for (const Rank& rank : ranks_) munmap(rank.memory, kHeap);
    }
    void join(uint32_t r) {
        Rank& rank = ranks_[r];
        int ends[2];
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends);
        rank.socket = Fd(ends[0]);
        agent_->add(Fd(ends[1]));
        rank.heap = make_memory_file("test-heap", kHeap);
        rank.memory = static_cast<std::byte*>(
            mmap(nullptr, kHeap, PROT_READ | PROT_WRITE, MAP_SHARED, rank.heap.get(), 0));
        memset(rank.memory, static_cast<int>(r + 1), kHeap);
        rank.word = 1000 + r;
        AgentHello hello;
        hello.token = token_;
        const int give = rank.heap.get();
        send_packet(rank.socket, &hello, sizeof hello, {&give, 1});
        ASSERT_TRUE(is_answered(r));
    }
    bool is_answered(uint32_t r) {
        agent_->turn();
        AgentAnswer answer;
        size_t bytes = 0;
        return receive_packet(ranks_[r].socket, &answer, sizeof answer, &bytes, nullptr) == Io::kOk &&
               answer.ok != 0;
    }
    void tell(uint32_t r, bool copies) {
        AgentCopies said;
        said.rank = 10 + r;
        said.copies = copies;
        said.word_address = reinterpret_cast<uint64_t>(&ranks_[r].word);
        said.word = ranks_[r].word;
        send_packet(ranks_[r].socket, &said, sizeof said);
    }
    // Turns the agent until something is true; it needs no more than the kernel's own time.
    bool turn_until(const std::function<bool()>& condition) {
        for (const uint64_t end = now_ns() + 60'000'000'000; now_ns() < end;) {
            agent_->turn();
            if (condition()) return true;
        }
        return false;
    }
    // The agent comes to the stand-in of rank 10.
    void connect(SessionCopier* copier) {
        tell(0, true);
        ASSERT_TRUE(turn_until([&] {
            Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
            if (socket) stand_in_ = SessionStream(std::move(socket), 5);
            return stand_in_.open();
        }));
        ASSERT_TRUE(turn_until([&] { return hear(SessionKind::kCopier); }));
        ASSERT_TRUE(decode(body_, copier));
        stand_in_.send(SessionKind::kWelcome, SessionWelcome{true, ""});
        ASSERT_TRUE(turn_until([&] { return is_answered(0); }));
    }
    bool hear(SessionKind wanted) {
        SessionKind kind{};
        return stand_in_.receive(&kind, &body_) && kind == wanted;
    }
    // The answer to a copy; false: there is none.
    bool copy(const HandedCopy& copy, bool* ok) {
        SessionCopied copied;
        stand_in_.send(SessionKind::kCopy, copy);
        if (!turn_until([&] { return hear(SessionKind::kCopied) || !stand_in_.open(); }) ||
            !stand_in_.open() || !decode(body_, &copied) || copied.number != copy.number)
            return false;
        *ok = copied.ok;
        return true;
    }

    NoNetwork network_;
    AgentParameters job_;
    Token token_{};
    Fd listener_;
    Rank ranks_[2];
    std::unique_ptr<AgentRanks> agent_;
    SessionStream stand_in_;
    std::span<const std::byte> body_;
};

TEST_F(AgentCopying, BytesGoFromHeapToHeapAsTheStandInSays) {
    tell(1, false);
    SessionCopier said;
    ASSERT_NO_FATAL_FAILURE(connect(&said));
    EXPECT_EQ(said.job, 77u);
    EXPECT_EQ(said.rank, 10u);
    EXPECT_EQ(said.token, job_.job_token);
    bool ok = false;
    constexpr uint64_t kBytes = 600'000;  // in pieces
    ASSERT_TRUE(copy({5, 0, 11, 1000, 2000, kBytes}, &ok));
    EXPECT_TRUE(ok);
    for (uint64_t i = 0; i < kHeap; ++i)
        ASSERT_EQ(ranks_[0].memory[i], std::byte(i >= 2000 && i < 2000 + kBytes ? 2 : 1)) << i;
    ASSERT_TRUE(copy({6, 0, 10, 0, 4000, 100}, &ok));  // its own
    EXPECT_TRUE(ok);
    EXPECT_EQ(ranks_[0].memory[4050], std::byte{1});
}

TEST_F(AgentCopying, WhatIsInNoHeapOrWasLetGoFails) {
    tell(1, false);
    SessionCopier said;
    ASSERT_NO_FATAL_FAILURE(connect(&said));
    bool ok = true;
    ASSERT_TRUE(copy({1, 0, 11, kHeap - 10, 0, 11}, &ok));
    EXPECT_FALSE(ok) << "behind the end of the giver's heap";
    ASSERT_TRUE(copy({2, 0, 11, 0, kHeap - 10, 11}, &ok));
    EXPECT_FALSE(ok) << "behind the end of the taker's";
    ASSERT_TRUE(copy({3, 0, 12, 0, 0, 10}, &ok));
    EXPECT_FALSE(ok) << "of a rank that is not here";
    ASSERT_TRUE(copy({4, 0, 11, 0, 0, 10}, &ok));
    EXPECT_TRUE(ok);
    ranks_[1].word = 0;
    ASSERT_TRUE(copy({5, 0, 11, 0, 0, 10}, &ok));
    EXPECT_FALSE(ok) << "its giver has withdrawn its word";
}

// It may have said so before the stand-in heard of its buffers, and after the agent last looked.
TEST_F(AgentCopying, AGiverThatHasSaidWhoItIsIsFound) {
    SessionCopier said;
    ASSERT_NO_FATAL_FAILURE(connect(&said));
    tell(1, false);
    bool ok = false;
    ASSERT_TRUE(copy({5, 0, 11, 0, 0, 10}, &ok));
    EXPECT_TRUE(ok);
}

TEST_F(AgentCopying, WhenARankWantsNoMoreNothingMoreIsWritten) {
    tell(1, false);
    SessionCopier said;
    ASSERT_NO_FATAL_FAILURE(connect(&said));
    for (uint32_t i = 1; i <= kHandedMax; ++i)
        stand_in_.send(SessionKind::kCopy, HandedCopy{i, 0, 11, 0, 0, 1000});
    const AgentStopCopies stop;
    send_packet(ranks_[0].socket, &stop, sizeof stop);
    ASSERT_TRUE(is_answered(0));
    memset(ranks_[0].memory, 7, kHeap);
    ASSERT_TRUE(turn_until([&] {
        SessionKind kind{};
        while (stand_in_.receive(&kind, &body_)) {
        }
        return !stand_in_.open();
    }));
    EXPECT_EQ(ranks_[0].memory[0], std::byte{7});
    EXPECT_FALSE(agent_->has_copies());
}

TEST_F(AgentCopying, WhatNoStandInSaysEndsTheConnection) {
    SessionCopier said;
    ASSERT_NO_FATAL_FAILURE(connect(&said));
    for (uint32_t i = 1; i <= 10 * kHandedMax; ++i)
        stand_in_.send(SessionKind::kCopy, HandedCopy{i, 0, 10, 0, 0, 1 << 19});
    EXPECT_TRUE(turn_until([&] {
        hear(SessionKind::kCopied);
        return !stand_in_.open();
    }));
}

TEST_F(AgentCopying, ACopyOfNothingEndsTheConnection) {
    SessionCopier said;
    ASSERT_NO_FATAL_FAILURE(connect(&said));
    stand_in_.send(SessionKind::kCopy, HandedCopy{1, 0, 11, 0, 0, 0});
    EXPECT_TRUE(turn_until([&] {
        EXPECT_FALSE(hear(SessionKind::kCopied));
        return !stand_in_.open();
    }));
}

// A rank that has gone leaves its place in the list empty until all have been heard.
TEST_F(AgentCopying, ARankIsLookedForWhileAnotherGoes) {
    ranks_[0].socket.reset();
    tell(1, true);
    agent_->turn();
    EXPECT_EQ(agent_->connections(), 1u);
}

TEST_F(AgentCopying, AWordThatCouldNotBeWithdrawnIsNone) {
    ranks_[0].word = 0;
    tell(0, true);
    agent_->turn();
    EXPECT_EQ(agent_->connections(), 1u);
}

TEST_F(AgentCopying, NoTwoAreTheSameRank) {
    tell(0, false);
    tell(0, false);
    agent_->turn();
    EXPECT_EQ(agent_->connections(), 1u);
}

}  // namespace
}  // namespace longshore
