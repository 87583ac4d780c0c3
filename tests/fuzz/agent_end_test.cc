// A stand-in's end of the connection to its host's agent: what it hands over is settled once, whatever the
// agent does.
#include "dpu/card/agent_end.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <utility>
#include <vector>

#include "fabric/shm/socket.h"

namespace longshore {
namespace {

class AgentEndTest : public testing::Test {
  protected:
    explicit AgentEndTest(bool wanted = true) {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        gate_ = Fd(ends[0]);
        end_ = std::make_unique<AgentEnd>(Fd(ends[1]), 5, wanted);
    }
    // As the standing service passes one on. False: the door is closed.
    bool come() {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        const Fd theirs(ends[0]);
        const int given = theirs.get();
        const std::byte nothing{};
        if (send_packet(gate_, &nothing, 1, {&given, 1}) != Io::kOk) return false;
        agent_ = SessionStream(Fd(ends[1]), 5);
        return true;
    }
    bool hear() {
        return end_->hear([this](const Copy& copy, bool ok) { settled_.emplace_back(copy.bytes, ok); });
    }
    bool agent_hears(SessionKind wanted) {
        SessionKind kind{};
        return agent_.receive(&kind, &body_) && kind == wanted;
    }
    void come_and_give(uint64_t copies) {
        ASSERT_TRUE(come());
        EXPECT_TRUE(hear());
        EXPECT_TRUE(agent_hears(SessionKind::kWelcome));
        ASSERT_TRUE(end_->attends());
        for (uint64_t i = 1; i <= copies; ++i) {
            Copy copy;
            copy.bytes = i;
            ASSERT_TRUE(end_->may_give());
            end_->give(copy, 7, 100 * i, 200 * i);
            HandedCopy handed;
            ASSERT_TRUE(agent_hears(SessionKind::kCopy) && decode(body_, &handed));
            EXPECT_EQ(handed.giver, 7u);
            EXPECT_EQ(handed.from, 100 * i);
            EXPECT_EQ(handed.to, 200 * i);
            EXPECT_EQ(handed.bytes, i);
            numbers_.push_back(handed.number);
        }
    }
    using Settled = std::vector<std::pair<uint64_t, bool>>;

    Fd gate_;
    std::unique_ptr<AgentEnd> end_;
    SessionStream agent_;
    std::span<const std::byte> body_;
    std::vector<uint32_t> numbers_;
    Settled settled_;
};

TEST_F(AgentEndTest, WhatTheAgentAnswersIsSettledAsItSays) {
    EXPECT_FALSE(end_->attends());
    EXPECT_FALSE(hear());
    ASSERT_NO_FATAL_FAILURE(come_and_give(3));
    agent_.send(SessionKind::kCopied, SessionCopied{numbers_[1], true});
    agent_.send(SessionKind::kCopied, SessionCopied{numbers_[0], false});
    EXPECT_TRUE(hear());
    EXPECT_EQ(settled_, (Settled{{2, true}, {1, false}}));
    EXPECT_FALSE(hear());
    EXPECT_TRUE(end_->attends());
}

TEST_F(AgentEndTest, WhatALostAgentHadHasFailedOnce) {
    ASSERT_NO_FATAL_FAILURE(come_and_give(3));
    agent_.send(SessionKind::kCopied, SessionCopied{numbers_[2], true});
    agent_.close();
    EXPECT_TRUE(hear());
    EXPECT_EQ(settled_, (Settled{{3, true}, {1, false}, {2, false}})) << "what it said before counts";
    EXPECT_FALSE(end_->attends() || end_->may_give());
    EXPECT_EQ(end_->connection(), -1);
    settled_.clear();
    EXPECT_FALSE(hear());
    EXPECT_TRUE(settled_.empty());
}

TEST_F(AgentEndTest, OneThatAnswersToNothingIsLost) {
    ASSERT_NO_FATAL_FAILURE(come_and_give(2));
    agent_.send(SessionKind::kCopied, SessionCopied{numbers_[0], true});
    agent_.send(SessionKind::kCopied, SessionCopied{numbers_[0], true});
    agent_.send(SessionKind::kCopied, SessionCopied{numbers_[1], true});
    EXPECT_TRUE(hear());
    ASSERT_FALSE(settled_.empty());
    EXPECT_EQ(settled_[0], std::pair(uint64_t{1}, true));
    EXPECT_EQ(settled_.size(), 2u);
    EXPECT_FALSE(end_->attends());
}

TEST_F(AgentEndTest, NoOtherComesAfterIt) {
    ASSERT_NO_FATAL_FAILURE(come_and_give(1));
    EXPECT_FALSE(come());
    EXPECT_TRUE(end_->attends());
}

class UnwantedAgentTest : public AgentEndTest {
  protected:
    UnwantedAgentTest() : AgentEndTest(false) {}
};

TEST_F(UnwantedAgentTest, DoesNotComeAtAll) {
    EXPECT_FALSE(come());
    EXPECT_FALSE(hear());
    EXPECT_FALSE(end_->attends());
}

}  // namespace
}  // namespace longshore
