// Copies that ranks make for their stand-ins: the two ends by themselves, in whatever order things happen,
// and then whole operations, in which a block crosses to a node once and nobody lets go of it too early.
#include "engine/hand_over.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <set>

#include "base/prng.h"
#include "cluster.h"

namespace longshore {
namespace {

// --- the two ends

TEST(HandOver, AnAnswerIsTakenOnce) {
    HandOver stand_in;
    stand_in.attend(true);
    Copy copy;
    copy.bytes = 5;
    const uint32_t number = stand_in.give(copy);
    Copy back;
    EXPECT_FALSE(stand_in.take_back(0, &back));
    EXPECT_FALSE(stand_in.take_back(number + 1, &back));
    EXPECT_FALSE(stand_in.take_back(number + kHandedMax, &back));
    ASSERT_TRUE(stand_in.take_back(number, &back));
    EXPECT_EQ(back.bytes, 5u);
    EXPECT_FALSE(stand_in.take_back(number, &back));
    EXPECT_NE(stand_in.give(copy), number);  // in the same place
}

TEST(HandOver, NoMoreIsOutThanARankHasRoomFor) {
    HandOver stand_in;
    HandedCopies rank;
    EXPECT_FALSE(stand_in.may_give(false));
    stand_in.attend(true);
    for (uint32_t i = 0; i < kHandedMax; ++i) {
        ASSERT_TRUE(stand_in.may_give(false));
        EXPECT_TRUE(rank.take({stand_in.give({}), 0, 0, 0, 0, 1}, true));
    }
    EXPECT_FALSE(stand_in.may_give(true));
    EXPECT_FALSE(rank.take({1, 0, 0, 0, 0, 1}, true));
}

TEST(HandOver, ARankThatDoesNotWaitIsHandedNothing) {
    HandedCopies rank;
    EXPECT_FALSE(rank.take({1, 0, 0, 0, 0, 1}, false));
    EXPECT_TRUE(rank.take({1, 0, 0, 0, 0, 1}, true));
    EXPECT_TRUE(rank.attend());
    EXPECT_FALSE(rank.attend());
    EXPECT_TRUE(rank.take({2, 0, 0, 0, 0, 1}, false));
    EXPECT_FALSE(rank.left(rank.serial()));  // nobody answers that
    EXPECT_TRUE(rank.leave());
    EXPECT_FALSE(rank.leave());
    EXPECT_TRUE(rank.take({3, 0, 0, 0, 0, 1}, false));  // on its way when the rank said so
    EXPECT_FALSE(rank.left(rank.serial() + 2));
    EXPECT_TRUE(rank.left(rank.serial()));
    EXPECT_FALSE(rank.left(rank.serial()));
    EXPECT_FALSE(rank.take({4, 0, 0, 0, 0, 1}, false));
}

TEST(HandOver, AnAnswerToAnEarlierLeaveEndsNoLaterWait) {
    HandedCopies rank;
    rank.attend();
    rank.leave();
    const uint32_t first = rank.serial();
    EXPECT_TRUE(rank.attend());
    EXPECT_TRUE(rank.left(first));
    EXPECT_TRUE(rank.is_attended());
}

TEST(HandOver, WhatBelongsToAnOperationThatFailedIsTakenOut) {
    HandedCopies rank;
    for (uint32_t i = 0; i < 9; ++i) EXPECT_TRUE(rank.take({i + 1, i % 3, 0, 0, 0, 1}, true));
    HandedCopy copy;
    for (const uint32_t number : {2u, 5u, 8u}) {
        ASSERT_TRUE(rank.drop(1, &copy));
        EXPECT_EQ(copy.number, number);
    }
    EXPECT_FALSE(rank.drop(1, &copy));
    for (const uint32_t number : {1u, 3u, 4u, 6u, 7u, 9u}) {
        ASSERT_TRUE(rank.next(&copy));
        EXPECT_EQ(copy.number, number);
    }
    EXPECT_FALSE(rank.next(&copy));
}

constexpr uint64_t kMs = 1'000'000;

Patience patience_from(uint64_t now_ns) {
    Patience p;
    p.begin(now_ns);
    return p;
}

TEST(HandOver, PatienceLastsAsLongAsTheOperationTookUntilAllWasThere) {
    Patience p = patience_from(7 * kMs);
    EXPECT_EQ(p.until_ns(false), 107 * kMs);
    p.note_there(27 * kMs);
    EXPECT_EQ(p.until_ns(false), 47 * kMs);
    p.note_there(30 * kMs);
    EXPECT_EQ(p.until_ns(false), 47 * kMs);
    EXPECT_EQ(p.choose(false, false, 47 * kMs), Copier::kRank);
    EXPECT_EQ(p.choose(false, false, 47 * kMs + 1), Copier::kServices);
}

TEST(HandOver, PatienceHasALeastAndAMost) {
    Patience at_once = patience_from(7 * kMs), late = patience_from(7 * kMs), looks = patience_from(7 * kMs);
    at_once.note_there(7 * kMs);
    EXPECT_EQ(at_once.until_ns(false), 9 * kMs);
    late.note_there(90 * kMs);
    EXPECT_EQ(late.until_ns(false), 107 * kMs);
    looks.note_looks(8 * kMs);
    EXPECT_EQ(looks.until_ns(false), 10 * kMs);
}

TEST(HandOver, AnAgentCopiesForARankThatDoesNotSoonBeginToWait) {
    const Patience p = patience_from(7 * kMs);
    EXPECT_EQ(p.choose(false, true, 9 * kMs), Copier::kRank);
    EXPECT_EQ(p.choose(false, true, 9 * kMs + 1), Copier::kAgent);
    EXPECT_EQ(p.choose(true, true, 200 * kMs), Copier::kRank) << "it waits, and copies itself";
    EXPECT_EQ(p.choose(false, false, 9 * kMs + 1), Copier::kRank) << "the agent is lost";
    EXPECT_EQ(p.choose(false, false, 107 * kMs + 1), Copier::kServices);
}

TEST(HandOver, ALostAgentHasEachOfItsCopiesOnce) {
    HandOver stand_in;
    Copy copy;
    EXPECT_FALSE(stand_in.lose(&copy));
    stand_in.attend(true);
    std::set<uint64_t> out;
    uint32_t answered = 0;
    for (uint64_t i = 1; i <= 5; ++i) {
        copy.bytes = i;
        const uint32_t number = stand_in.give(copy);
        if (i == 3) answered = number;
    }
    ASSERT_TRUE(stand_in.take_back(answered, &copy));
    while (stand_in.lose(&copy)) EXPECT_TRUE(out.insert(copy.bytes).second);
    EXPECT_EQ(out, (std::set<uint64_t>{1, 2, 4, 5}));
    EXPECT_FALSE(stand_in.attends());
    EXPECT_FALSE(stand_in.may_give(false));
}

// A stand-in and a rank, and the connection between them, which brings everything in order, when it likes,
// and may be lost.
class RankAndStandIn {
  public:
    explicit RankAndStandIn(uint64_t seed) : random_(seed) {}

    void run(uint32_t chunks, bool is_lost_at_some_time) {
        left_ = chunks;
        const uint32_t lost_at =
            is_lost_at_some_time ? static_cast<uint32_t>(random_.below(40 * chunks)) : UINT32_MAX;
        for (uint32_t step = 0; step < 4000 * chunks && !over(); ++step) {
            if (step == lost_at) return lose();
            switch (random_.below(5)) {
                case 0:
                    give();
                    break;
                case 1:
                    wait_or_not();
                    break;
                case 2:
                    copy();
                    break;
                case 3:
                    hear_stand_in();
                    break;
                default:
                    hear_rank();
            }
        }
        EXPECT_TRUE(over()) << "it does not come to an end";
        EXPECT_EQ(copied_.size(), chunks);
    }

  private:
    struct ToRank {
        bool is_copy;
        HandedCopy copy;
        uint32_t serial;
    };
    struct ToStandIn {
        bool is_answer;
        uint32_t number;
        bool on;
    };
    bool over() const { return left_ == 0 && stand_in_.out() == 0; }
    void give() {
        if (left_ == 0 || !stand_in_.may_give(false)) return;
        Copy copy;
        copy.bytes = left_--;
        const uint32_t number = stand_in_.give(copy);
        EXPECT_TRUE(out_.insert(number).second);
        to_rank_.push_back({true, {number, 0, 0, 0, 0, copy.bytes}, 0});
    }
    void wait_or_not() {
        const bool on = random_.below(2) != 0;
        if (!(on ? rank_.attend() : rank_.leave())) return;
        to_stand_in_.push_back({false, rank_.serial(), on});
    }
    void copy() {
        HandedCopy copy;
        if (!rank_.next(&copy)) return;
        to_stand_in_.push_back({true, copy.number, true});
    }
    void hear_stand_in() {
        if (to_rank_.empty()) return;
        const ToRank m = to_rank_.front();
        to_rank_.pop_front();
        EXPECT_TRUE(m.is_copy ? rank_.take(m.copy, false) : rank_.left(m.serial));
    }
    void hear_rank() {
        if (to_stand_in_.empty()) return;
        const ToStandIn m = to_stand_in_.front();
        to_stand_in_.pop_front();
        if (!m.is_answer) {
            stand_in_.attend(m.on);
            if (!m.on) to_rank_.push_back({false, {}, m.number});
            return;
        }
        Copy copy;
        ASSERT_TRUE(stand_in_.take_back(m.number, &copy));
        EXPECT_EQ(out_.erase(m.number), 1u);
        EXPECT_TRUE(copied_.insert(copy.bytes).second) << "settled twice";
    }
    // The claims of what is out are freed by others (RankSlot::attached); the rank has nothing left to copy.
    void lose() {
        rank_.lose();
        HandedCopy copy;
        EXPECT_FALSE(rank_.next(&copy));
        EXPECT_FALSE(rank_.is_attended());
    }

    Prng random_;
    HandOver stand_in_;
    HandedCopies rank_;
    std::deque<ToRank> to_rank_;
    std::deque<ToStandIn> to_stand_in_;
    std::set<uint32_t> out_;
    std::set<uint64_t> copied_;
    uint32_t left_ = 0;
};

TEST(HandOver, InWhateverOrderEachChunkIsSettledOnce) {
    for (uint64_t seed = 1; seed <= 2000 && !testing::Test::HasFailure(); ++seed) {
        SCOPED_TRACE(seed);
        RankAndStandIn(seed).run(1 + seed % 60, seed % 4 == 0);
    }
}

// --- whole operations

constexpr uint64_t kHandedBlock = 200;  // more than three chunks

// Two nodes of a DPU's kind: whatever service processes move goes through their memory, and what comes from
// ranks of the node is copied by its ranks when the test says so.
class HandedOperation : public testing::Test {
  protected:
    static constexpr uint32_t kRanks = 5;
    static Cluster::Shape shape() {
        Cluster::Shape s;
        s.ranks_of_node = {3, 2};
        s.cooperative = false;
        s.service_limits.staging_slots = 4;
        s.service_limits.staging_slot_bytes = 64;
        s.service_limits.staging_only = true;
        return s;
    }
    HandedOperation() {
        for (uint32_t r = 0; r < kRanks; ++r) {
            memory().rank(cluster_.local(r)).attached.store(0);
            for (uint64_t i = 0; i < kHandedBlock; ++i) send_[r][i] = static_cast<uint8_t>(37 * r + i);
        }
    }
    const NodeMemory& memory(uint32_t rank = 0) { return cluster_.rank(rank).memory(); }

    void enter(uint32_t rank, bool hands_over = true, Collective collective = Collective::kAllgather) {
        memory(rank).rank(cluster_.local(rank)).attached.store(1);
        OperationArguments a;
        a.sequence = 1;
        a.collective = collective;
        a.hands_over = hands_over;
        const bool takes = rules_of(collective).takes(Rank{rank}, Rank{0});
        const bool gives = rules_of(collective).gives(Rank{rank}, Rank{0});
        if (gives) a.send = cluster_.add_region(rank, send_[rank], sizeof send_[rank]);
        if (takes) a.recv = cluster_.add_region(rank, recv_[rank], sizeof recv_[rank]);
        a.send_block_bytes = gives ? kHandedBlock : 0;
        a.recv_block_bytes = takes ? kHandedBlock : 0;
        send_at_[rank] = a.send;
        ASSERT_EQ(cluster_.post(rank, a, &record_[rank]), PostResult::kPosted);
        turn();
    }
    void turn() {
        // Nothing more that services would do.
        for (uint32_t idle = 0; idle < 100; ++idle)
            if (cluster_.step_timed()) idle = 0;
    }
    uint32_t claim(uint32_t rank) {
        Copy copy;
        for (; cluster_.rank(rank).claim_for_rank(record_[rank], &copy);) claimed_[rank].push_back(copy);
        return static_cast<uint32_t>(claimed_[rank].size());
    }
    // What was claimed is copied, and answered.
    void copy(uint32_t rank) {
        WakeSet wake;
        for (const Copy& c : claimed_[rank]) {
            memcpy(address(rank, c.to), address(rank, c.from), c.bytes);
            cluster_.rank(rank).finish(c, MoveResult::kMoved, &wake);
            copied_ += c.bytes;
        }
        claimed_[rank].clear();
        turn();
    }
    void copy_all() {
        for (bool more = true; more;) {
            more = false;
            for (uint32_t r = 0; r < kRanks; ++r)
                if (claim(r) != 0) {
                    copy(r);
                    more = true;
                }
        }
    }
    uint8_t* address(uint32_t rank, const MemoryRef& at) {
        for (uint32_t r = 0; r < kRanks; ++r) {
            if (!(memory(r).node() == memory(rank).node()) || !(cluster_.local(r) == at.rank)) continue;
            return (at.region == send_at_[r].region ? send_[r] : recv_[r]) + at.offset;
        }
        return nullptr;
    }
    bool is_complete(uint32_t rank) { return cluster_.rank(rank).poll(record_[rank]) == Progress::kComplete; }
    void check(uint32_t rank, uint32_t sources = kRanks) {
        EXPECT_TRUE(is_complete(rank)) << rank;
        EXPECT_EQ(cluster_.rank(rank).error(record_[rank]), OperationError::kNone);
        for (uint32_t s = 0; s < sources; ++s)
            EXPECT_EQ(memcmp(recv_[rank] + s * kHandedBlock, send_[s], kHandedBlock), 0) << rank << " " << s;
    }
    uint64_t service_copies() {
        uint64_t sum = 0;
        for (uint32_t n = 0; n < 2; ++n)
            sum += cluster_.service(n, 0).counters().copies +
                   cluster_.service(n, 0).counters().staged_for_others;
        return sum;
    }

    Cluster cluster_{shape()};
    uint8_t send_[kRanks][kHandedBlock] = {}, recv_[kRanks][kRanks * kHandedBlock] = {};
    MemoryRef send_at_[kRanks];
    RecordId record_[kRanks];
    std::vector<Copy> claimed_[kRanks];
    uint64_t copied_ = 0;
};

TEST_F(HandedOperation, EachBlockCrossesToANodeOnce) {
    for (uint32_t r = 0; r < kRanks; ++r) enter(r);
    copy_all();
    for (uint32_t r = 0; r < kRanks; ++r) check(r);
    EXPECT_EQ(cluster_.bytes_between_nodes,
              (2 + 3) * kHandedBlock);  // two blocks to the one node, three to the other
    EXPECT_EQ(service_copies(), 0u);
    // All that a rank has but what it has read for its node.
    EXPECT_EQ(copied_, (kRanks * kRanks - (2 + 3)) * kHandedBlock);
}

TEST_F(HandedOperation, WhoeverHasABlockForTheNodeWaitsForAllWhoCopyIt) {
    for (uint32_t r = 0; r < kRanks; ++r) enter(r);
    for (const uint32_t r : {0u, 1u, 3u, 4u}) {
        while (claim(r) != 0) copy(r);
    }
    // Rank 2 has copied nothing, and what it has claimed is not copied either.
    EXPECT_NE(claim(2), 0u);
    uint32_t complete = 0;
    for (const uint32_t r : {0u, 1u}) complete += is_complete(r);
    EXPECT_EQ(complete, 0u) << "both give it their own block";
    copy_all();
    for (uint32_t r = 0; r < kRanks; ++r) check(r);
}

TEST_F(HandedOperation, ALateRankCopiesWhatCameBefore) {
    for (const uint32_t r : {0u, 1u, 3u, 4u}) enter(r);
    copy_all();
    enter(2);
    copy_all();
    for (uint32_t r = 0; r < kRanks; ++r) check(r);
    EXPECT_EQ(cluster_.bytes_between_nodes, (2 + 3) * kHandedBlock);
    EXPECT_EQ(service_copies(), 0u);
}

TEST_F(HandedOperation, ARankThatDoesNotCopyGetsItFromServiceProcesses) {
    for (uint32_t r = 0; r < kRanks; ++r) enter(r);
    EXPECT_FALSE(is_complete(2));
    WakeSet wake;
    cluster_.rank(2).leave_to_services(record_[2], true, &wake);
    turn();
    EXPECT_EQ(claim(2), 0u);
    copy_all();
    for (uint32_t r = 0; r < kRanks; ++r) check(r);
    EXPECT_GT(service_copies(), 0u);
}

TEST_F(HandedOperation, ARankThatWaitsAfterAllCopiesWhatIsLeft) {
    for (uint32_t r = 0; r < kRanks; ++r) enter(r);
    WakeSet wake;
    cluster_.rank(2).leave_to_services(record_[2], true, &wake);
    cluster_.rank(2).leave_to_services(record_[2], false, &wake);
    turn();
    copy_all();
    for (uint32_t r = 0; r < kRanks; ++r) check(r);
    EXPECT_EQ(service_copies(), 0u);
}

TEST_F(HandedOperation, AllIsThereWhenNothingIsWaitedForButCopies) {
    for (const uint32_t r : {0u, 1u, 2u, 3u}) {
        enter(r);
        EXPECT_FALSE(cluster_.rank(r).is_all_there(record_[r]));
    }
    enter(4);
    for (uint32_t r = 0; r < kRanks; ++r) EXPECT_TRUE(cluster_.rank(r).is_all_there(record_[r])) << r;
    copy_all();
    for (uint32_t r = 0; r < kRanks; ++r) check(r);
}

TEST_F(HandedOperation, SomeMayHandOverAndOthersNot) {
    for (uint32_t r = 0; r < kRanks; ++r) enter(r, r % 2 == 0);
    copy_all();
    for (uint32_t r = 0; r < kRanks; ++r) check(r);
}

TEST_F(HandedOperation, WhatAStandInHeldThatIsGoneIsMovedForTheOthers) {
    for (uint32_t r = 0; r < kRanks; ++r) enter(r);
    EXPECT_NE(claim(2), 0u);
    // As its supervisor does (service/node_ranks.cc).
    memory(2).rank(cluster_.local(2)).attached.store(0);
    WakeSet wake;
    EXPECT_GT(free_lost_claims(memory(2), rank_worker(cluster_.local(2)), &wake), 0u);
    claimed_[2].clear();
    turn();
    for (bool more = true; more;) {
        more = false;
        for (const uint32_t r : {0u, 1u, 3u, 4u})
            if (claim(r) != 0) {
                copy(r);
                more = true;
            }
    }
    for (uint32_t r = 0; r < kRanks; ++r) check(r);
}

TEST_F(HandedOperation, ABroadcastIsHandedOverToo) {
    for (uint32_t r = 0; r < kRanks; ++r) enter(r, true, Collective::kBcast);
    copy_all();
    for (uint32_t r = 1; r < kRanks; ++r) check(r, 1);
    EXPECT_TRUE(is_complete(0));
    EXPECT_EQ(cluster_.bytes_between_nodes, kHandedBlock);
    EXPECT_EQ(service_copies(), 0u);
}

// Small blocks are in the stand-in's own memory, which its rank does not reach.
TEST_F(HandedOperation, WhatLiesInAnArenaIsMovedByServiceProcesses) {
    for (uint32_t r = 0; r < kRanks; ++r) {
        memory(r).rank(cluster_.local(r)).attached.store(1);
        OperationArguments a;
        a.sequence = 1;
        a.collective = Collective::kAllgather;
        a.hands_over = a.send_is_stable = true;
        const uint64_t at = cluster_.rank(r).arena().allocate(kHandedBlock);
        memcpy(memory(r).at<uint8_t>(at), send_[r], kHandedBlock);
        a.send = {cluster_.local(r), kArenaRegion, at - cluster_.arena_begin(r)};
        a.recv = cluster_.add_region(r, recv_[r], sizeof recv_[r]);
        a.send_block_bytes = a.recv_block_bytes = kHandedBlock;
        send_at_[r] = a.send;
        ASSERT_EQ(cluster_.post(r, a, &record_[r]), PostResult::kPosted);
    }
    turn();
    copy_all();
    for (uint32_t r = 0; r < kRanks; ++r) check(r);
    EXPECT_EQ(copied_, (2 * 2 + 3 * 1) * kHandedBlock);  // what others had read of the other node
}

}  // namespace
}  // namespace longshore
