// What a supervisor has to say to the user, and hears from its service processes, when one of both ends comes
// late or goes early.
#include "service/node_ranks.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

namespace longshore {
namespace {

struct SocketEnds {
    Fd ours, theirs;
    SocketEnds() {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        ours = Fd(ends[0]);
        theirs = Fd(ends[1]);
    }
};

// A node of one rank, which is this process.
class OneRank : public testing::Test {
  protected:
    OneRank() {
        parameters_.node_limits.ranks_max = parameters_.node_limits.services_max = 1;
        parameters_.node_limits.records_max = 1;
        parameters_.node_limits.claims_bytes = parameters_.node_limits.arena_bytes =
            parameters_.node_limits.groups_bytes = 4096;
        block_ = Mapping::anonymous(NodeLayout::of(parameters_.node_limits).total_bytes);
        memory_ = NodeMemory::create(block_.data(), parameters_.node_limits, NodeId{0}, 1, 1, 1);
        groups_ = std::make_unique<GroupTable>(memory_);
        NodeRanks::Given given;
        given.descriptors = {0};
        ranks_ = std::make_unique<NodeRanks>(
            parameters_, memory_, groups_.get(), &book_, given,
            NodeRanks::Events{[] {}, [] {}, {}, [this](const WakeSet& wake) { woken_ |= wake.services; }});
    }
    void attach(SocketEnds& pair) {
        ranks_->add(std::move(pair.ours));
        AttachRequest request;
        request.pid = static_cast<uint32_t>(getpid());
        ASSERT_EQ(send_packet(pair.theirs, &request, sizeof request), Io::kOk);
        ranks_->turn();
        AttachAnswer answer;
        size_t bytes = 0;
        ASSERT_EQ(receive_packet(pair.theirs, &answer, sizeof answer, &bytes, nullptr), Io::kOk);
        ASSERT_EQ(answer.header.kind, ControlKind::kAttached);
    }
    static std::string hear(const SocketEnds& pair) {
        ProblemReport report;
        size_t bytes = 0;
        const bool heard = receive_packet(pair.theirs, &report, sizeof report, &bytes, nullptr) == Io::kOk;
        return heard && report.header.kind == ControlKind::kProblem ? report.text : "";
    }

    ServiceParameters parameters_;
    Mapping block_;
    NodeMemory memory_;
    std::unique_ptr<GroupTable> groups_;
    AddressBook book_{JobShape{1, 1, false, false}};
    std::unique_ptr<NodeRanks> ranks_;
    uint32_t woken_ = 0;  // service processes, a bit each
};

// A service process that cannot start may end before the first rank has attached.
TEST_F(OneRank, HearsWhatWasSaidBeforeItCame) {
    ranks_->tell_leader("first");
    ranks_->tell_leader("second");
    SocketEnds pair;
    attach(pair);
    EXPECT_EQ(hear(pair), "first");
    EXPECT_EQ(hear(pair), "second");
    EXPECT_EQ(hear(pair), "");
    ranks_->tell_leader("third");
    EXPECT_EQ(hear(pair), "third");
}

TEST_F(OneRank, WhenItHasGoneNothingIsKept) {
    {
        SocketEnds pair;
        attach(pair);
    }
    ranks_->turn();
    ASSERT_EQ(ranks_->connections(), 0u);
    ranks_->tell_leader("late");
    SocketEnds again;
    attach(again);
    EXPECT_EQ(hear(again), "");
}

// Its rank is on a host, and a stand-in that is gone moves nothing any more: what it had claimed for its rank
// is for others, who perhaps sleep.
TEST_F(OneRank, OnADpuWhatItHeldIsFreeWhenItHasGone) {
    const LocalRank self{0};
    for (const bool on_dpu : {true, false}) {
        parameters_.host_agents = on_dpu;
        OperationRecord& record = memory_.record(self, RecordId{0});
        record.claims_offset.store(memory_.claims_begin(self));
        record.chunk_count.store(1);
        memory_.rank(self).active[0].store(1);
        Atomic<ChunkWord>& word = *memory_.at<Atomic<ChunkWord>>(memory_.claims_begin(self));
        memory_.service(ServiceId{0}).sleeping.store(1);
        woken_ = 0;
        {
            SocketEnds pair;
            attach(pair);
            word.store(chunk_word(7, ChunkState::kClaimed, rank_worker(self)));
        }
        ranks_->turn();
        EXPECT_EQ(memory_.rank(self).attached.load(), 0u);
        EXPECT_EQ(chunk_state(word.load()), on_dpu ? ChunkState::kFree : ChunkState::kClaimed);
        EXPECT_EQ(woken_, on_dpu ? 1u : 0u);
    }
}

// Whoever waits for what its rank would have entered has to be told.
TEST_F(OneRank, OnADpuOneThatGoesWithoutAWordIsLost) {
    parameters_.host_agents = 1;
    for (const bool says_so : {true, false}) {
        SocketEnds pair;
        attach(pair);
        const ControlHeader leaving{kControlMagic, ControlKind::kDetach};
        if (says_so) {
            ASSERT_EQ(send_packet(pair.theirs, &leaving, sizeof leaving), Io::kOk);
        }
        pair.theirs.reset();
        ranks_->turn();
        EXPECT_EQ(ranks_->attached_now(), 0u);
        EXPECT_EQ(ranks_->has_lost(), !says_so);
    }
}

TEST_F(OneRank, OnANodeOneThatGoesWithoutAWordIsNoLoss) {
    {
        SocketEnds pair;
        attach(pair);
    }
    ranks_->turn();
    EXPECT_FALSE(ranks_->has_lost());
}

// A service process that ends at once has not read what its supervisor has told it. The system tells of that
// before it hands out why it has ended.
TEST(ControlSocket, LastWordsAreHeardAlthoughSomethingWasUnread) {
    SocketEnds pair;
    char word = 'a';
    ASSERT_EQ(send_packet(pair.ours, &word, 1), Io::kOk);
    word = 'b';
    ASSERT_EQ(send_packet(pair.theirs, &word, 1), Io::kOk);
    pair.theirs.reset();
    size_t bytes = 0;
    EXPECT_EQ(receive_packet(pair.ours, &word, 1, &bytes, nullptr), Io::kOk);
    EXPECT_EQ(word, 'b');
    EXPECT_EQ(receive_packet(pair.ours, &word, 1, &bytes, nullptr), Io::kClosed);
}

}  // namespace
}  // namespace longshore
