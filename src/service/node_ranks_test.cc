// What a supervisor has to say to its ranks, and hears from them and from its service processes, when one end
// comes late, goes early, or does not read.
#include "service/node_ranks.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>

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

// A node whose ranks are all this process.
class Ranks : public testing::Test {
  protected:
    explicit Ranks(uint16_t ranks) {
        parameters_.rank_count = ranks;
        parameters_.node_limits.ranks_max = ranks;
        parameters_.node_limits.services_max = 1;
        parameters_.node_limits.records_max = 1;
        parameters_.node_limits.groups_max = 2;
        parameters_.node_limits.claims_bytes = parameters_.node_limits.arena_bytes = 4096;
        parameters_.node_limits.groups_bytes = 64 * 1024;
        block_ = Mapping::anonymous(NodeLayout::of(parameters_.node_limits).total_bytes);
        memory_ = NodeMemory::create(block_.data(), parameters_.node_limits, NodeId{0}, 1, ranks, 1);
        groups_ = std::make_unique<GroupTable>(memory_);
        NodeRanks::Given given;
        given.descriptors = {0};
        ranks_ = std::make_unique<NodeRanks>(
            parameters_, memory_, groups_.get(), &book_, given,
            NodeRanks::Events{[] {}, [] {}, {}, [this](const WakeSet& wake) { woken_ |= wake.services; }});
    }
    void attach(SocketEnds& pair, uint32_t local_rank = 0) {
        ranks_->add(std::move(pair.ours));
        AttachRequest request;
        request.local_rank = local_rank;
        request.pid = static_cast<uint32_t>(getpid());
        ASSERT_EQ(send_packet(pair.theirs, &request, sizeof request), Io::kOk);
        ranks_->turn();
        AttachAnswer answer;
        size_t bytes = 0;
        ASSERT_EQ(receive_packet(pair.theirs, &answer, sizeof answer, &bytes, nullptr), Io::kOk);
        ASSERT_EQ(answer.header.kind, ControlKind::kAttached);
    }
    static Io join(const SocketEnds& pair, uint64_t id, uint16_t ranks) {
        GroupJoinPiece piece;
        piece.id = id;
        piece.size = piece.count = ranks;
        std::vector<std::byte> packet(sizeof piece + ranks * sizeof(Member));
        memcpy(packet.data(), &piece, sizeof piece);
        for (uint16_t r = 0; r < ranks; ++r) {
            const Member member{NodeId{0}, ServiceId{0}, LocalRank{r}, r};
            memcpy(packet.data() + sizeof piece + r * sizeof member, &member, sizeof member);
        }
        return send_packet(pair.theirs, packet.data(), packet.size());
    }
    static Io leave(const SocketEnds& pair, uint64_t id) {
        GroupLeaveRequest request;
        request.id = id;
        return send_packet(pair.theirs, &request, sizeof request);
    }
    // The next answer to a join; lines before it are counted. Null: there is none yet.
    static std::optional<GroupJoinAnswer> answer(const SocketEnds& pair, uint32_t* lines = nullptr) {
        alignas(8) std::byte packet[sizeof(ProblemReport)];
        size_t bytes = 0;
        while (receive_packet(pair.theirs, packet, sizeof packet, &bytes, nullptr) == Io::kOk) {
            GroupJoinAnswer answer;
            memcpy(&answer, packet, sizeof answer);
            if (answer.header.kind == ControlKind::kGroupJoined) return answer;
            if (lines != nullptr) ++*lines;
        }
        return std::nullopt;
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
struct OneRank : Ranks {
    OneRank() : Ranks(1) {}
};
struct TwoRanks : Ranks {
    TwoRanks() : Ranks(2) {}
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
        if (says_so) memory_.rank(LocalRank{0}).attached.store(kRankLeaves);
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

// A rank that computes reads nothing, whatever a task process prints meanwhile. It is there all the same.
TEST_F(OneRank, ThatReadsNothingIsToldOfLinesThatAreLeftOut) {
    constexpr uint32_t kLines = 2000;
    SocketEnds pair;
    attach(pair);
    for (uint32_t i = 0; i < kLines; ++i) {
        ranks_->tell_leader(("line " + std::to_string(i)).c_str());
        ranks_->turn();
    }
    ASSERT_EQ(join(pair, 1, 1), Io::kOk);
    ranks_->turn();
    ASSERT_EQ(ranks_->connections(), 1u);
    uint32_t next = 0, left_out = 0;
    bool answered = false;
    for (uint32_t turn = 0; next + left_out < kLines || !answered; ++turn) {
        ASSERT_LT(turn, 2 * kLines);
        alignas(8) std::byte packet[sizeof(ProblemReport)];
        size_t bytes = 0;
        while (receive_packet(pair.theirs, packet, sizeof packet, &bytes, nullptr) == Io::kOk) {
            ControlHeader header;
            memcpy(&header, packet, sizeof header);
            answered |= header.kind == ControlKind::kGroupJoined;
            if (header.kind != ControlKind::kProblem) continue;
            ProblemReport report;
            memcpy(&report, packet, sizeof report);
            const std::string line = report.text;
            if (line == "line " + std::to_string(next)) {
                ++next;
            } else {
                ASSERT_NE(line.find(" more lines came while this rank read none"), line.npos) << line;
                left_out += static_cast<uint32_t>(std::stoul(line));
            }
        }
        ranks_->turn();
    }
    EXPECT_EQ(next + left_out, kLines);
    EXPECT_GT(left_out, 0u) << "all of them found room";
    ranks_->tell_leader("now");
    EXPECT_EQ(hear(pair), "now");
}

// Nor do answers that it does not read make an end of it: what it says waits until it reads.
TEST_F(OneRank, ThatReadsNothingIsAnsweredWhenItReads) {
    constexpr uint32_t kGroups = 2000;
    SocketEnds pair;
    attach(pair);
    uint32_t said = 0, heard = 0;
    bool was_full = false;
    for (uint32_t turn = 0; heard < kGroups; ++turn) {
        ASSERT_LT(turn, 4 * kGroups);
        // A group is joined and left, as often as the socket takes that.
        while (said < 2 * kGroups) {
            const uint64_t id = 1 + said / 2;
            const Io io = said % 2 == 0 ? join(pair, id, 1) : leave(pair, id);
            was_full |= io == Io::kAgain;
            if (io != Io::kOk) break;
            ++said;
            ranks_->turn();
            ASSERT_EQ(ranks_->connections(), 1u);
        }
        if (!was_full) continue;
        for (std::optional<GroupJoinAnswer> next; (next = answer(pair)).has_value();) {
            ASSERT_EQ(next->id, ++heard);
            ASSERT_EQ(next->result, JoinResult::kOk);
        }
        ranks_->turn();
    }
    EXPECT_TRUE(was_full);
    ranks_->turn();
    EXPECT_EQ(groups_->open(), said % 2);
}

// It ends by its process's end, or its connection's, whatever it has not read.
TEST_F(OneRank, ThatReadsNothingCanEnd) {
    {
        SocketEnds pair;
        attach(pair);
        for (uint64_t id = 1; join(pair, id, 1) == Io::kOk && leave(pair, id) == Io::kOk; ++id)
            ranks_->turn();
        EXPECT_EQ(ranks_->connections(), 1u);
    }
    ranks_->turn();
    EXPECT_EQ(ranks_->connections(), 0u);
    EXPECT_EQ(groups_->open(), 0u);
    EXPECT_EQ(memory_.rank(LocalRank{0}).attached.load(), 0u);
}

// Both have left their groups before either joins the next one. That of the second is still unread when the
// first one's join comes.
TEST_F(TwoRanks, HaveTheRoomOfWhatBothHaveLeft) {
    SocketEnds first, second;
    attach(first, 0);
    attach(second, 1);
    for (uint64_t id = 1; id <= 2; ++id) {
        ASSERT_EQ(join(first, id, 2), Io::kOk);
        ASSERT_EQ(join(second, id, 2), Io::kOk);
    }
    ranks_->turn();
    for (uint64_t id = 1; id <= 2; ++id) {
        ASSERT_EQ(answer(first)->result, JoinResult::kOk);
        ASSERT_EQ(answer(second)->result, JoinResult::kOk);
    }
    ASSERT_EQ(join(first, 3, 2), Io::kOk);
    ranks_->turn();
    EXPECT_EQ(answer(first)->result, JoinResult::kTableFull);
    for (const SocketEnds* of : {&first, &second}) {
        for (uint64_t id = 1; id <= 2; ++id) ASSERT_EQ(leave(*of, id), Io::kOk);
        ASSERT_EQ(join(*of, 4, 2), Io::kOk);
    }
    ranks_->turn();
    EXPECT_EQ(answer(first)->result, JoinResult::kOk);
    EXPECT_EQ(answer(second)->result, JoinResult::kOk);
    EXPECT_EQ(groups_->open(), 1u);
}

// Groups that have gone keep their room until no service process can be looking at them. Who wants it
// meanwhile is answered after that, and can end before.
TEST_F(OneRank, IsAnsweredOnceServicesHaveTurned) {
    groups_->service_started(ServiceId{0});
    ServiceSlot& service = memory_.service(ServiceId{0});
    for (const bool waits : {true, false}) {
        SocketEnds pair;
        attach(pair);
        for (uint64_t id = 1; id <= 2; ++id) ASSERT_EQ(join(pair, id, 1), Io::kOk);
        for (uint64_t id = 1; id <= 2; ++id) ASSERT_EQ(leave(pair, id), Io::kOk);
        ASSERT_EQ(join(pair, 3, 1), Io::kOk);
        ranks_->turn();
        EXPECT_EQ(answer(pair)->id, 1u);
        EXPECT_EQ(answer(pair)->id, 2u);
        EXPECT_FALSE(answer(pair).has_value());
        EXPECT_TRUE(ranks_->has_asking());
        if (waits) {
            service.heartbeat.fetch_add(1);
            ranks_->turn();
            EXPECT_EQ(answer(pair)->result, JoinResult::kOk);
        }
        pair.theirs.reset();
        ranks_->turn();
        EXPECT_EQ(ranks_->connections(), 0u);
        EXPECT_FALSE(ranks_->has_asking());
        service.heartbeat.fetch_add(1);
    }
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
