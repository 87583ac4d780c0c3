// What the fabric between machines does beyond the contracts of all fabrics: credits, and successors.
#include <string.h>

#include <algorithm>
#include <chrono>
#include <functional>

// LONGSHORE_TCP_WORLDS: the fabric over TCP, else the one over UCX.
#ifdef LONGSHORE_TCP_WORLDS
#include "tcp_world.h"
#else
#include "ucx_world.h"
#endif

namespace longshore::test {
namespace {

#ifdef LONGSHORE_TCP_WORLDS
using World = TcpWorld;
#else
using World = UcxWorld;
#endif

constexpr ServiceAddress kA{NodeId{0}, ServiceId{0}}, kB{NodeId{1}, ServiceId{0}};
constexpr LocalRank kRank0{0}, kRank1{1};
constexpr uint64_t kLimitNs =
    20'000'000'000;               // so that nothing here is mended by asking whether a peer is there
constexpr uint32_t kFrames = 16;  // UCX: sent to a peer that has not looked at them yet

class NetworkFabricTest : public testing::Test {
  protected:
    // `more`: what else the world is told.
    template <class... More>
    explicit NetworkFabricTest(More... more) : world_{false, false, kLimitNs, more...} {}
    // False: not in time.
    bool turn_until(const std::function<bool()>& done) {
        const auto end = std::chrono::steady_clock::now() + in_time();
        while (!done()) {
            if (std::chrono::steady_clock::now() > end) return false;
            turn();
        }
        return true;
    }
    void turn() {
        for (const ServiceAddress at : {kA, kB}) {
            if (!lost_ || at == kA) turn(at);
        }
    }
    void turn(ServiceAddress at) {
        FabricEvent events[8];
        const size_t count = world_.fabric(at).poll(events, 0);
        for (size_t i = 0; i < count; ++i) {
            const FabricEvent& e = events[i];
            messages_ += e.kind == FabricEvent::Kind::kMessage;
            moved_ += e.kind == FabricEvent::Kind::kMoved && e.result == MoveResult::kMoved;
            failed_ += e.kind == FabricEvent::Kind::kMoved && e.result != MoveResult::kMoved;
            lost_told_ += e.kind == FabricEvent::Kind::kPeerLost;
        }
    }
    bool send(ServiceAddress from, ServiceAddress to) {
        const uint32_t before = messages_;
        std::byte byte{};
        return turn_until([&] {
                   return world_.fabric(from).send(to, {&byte, 1}) == Post::kAccepted;
               }) &&
               turn_until([&] { return messages_ > before; });
    }
    void lose_b() {
        world_.lose(kB);
        lost_ = true;
    }
    // Its successor; until then nothing has ended.
    void restart_b() {
        for (int i = 0; i < 100; ++i) turn();
        EXPECT_EQ(moved_ + failed_, 0u);
        world_.restart(kB, 2);
        lost_ = false;
        ASSERT_TRUE(send(kB, kA));
    }
    RegionName from_b() { return world_.name(kB.node, kRank1); }
    void read(uint64_t bytes) {
        ASSERT_EQ(world_.fabric(kA).read(kB, from_b(), 0, {kRank0, FabricWorld::kUserRegion, 0}, bytes, 2),
                  Post::kAccepted);
    }
    World world_;
    uint32_t messages_ = 0, moved_ = 0, failed_ = 0, lost_told_ = 0;
    bool lost_ = false;
};

// The data of reads has a connection of its own: what it would say of messages is not in their order.
TEST_F(NetworkFabricTest, MessagesGoOnBesideReads) {
    for (uint32_t i = 1; i <= 10 * kFrames; ++i) {
        ASSERT_TRUE(send(kA, kB)) << i;
        read(1000);
        ASSERT_TRUE(turn_until([&] { return moved_ == i; })) << i;
    }
}

// A service process is woken when enough of what it has asked for has come. Less may come.
TEST_F(NetworkFabricTest, ReadsThatFailKeepNobodyWaiting) {
    constexpr uint64_t kBytes = 256 * 1024, kReads = 16, kGood = 2;
    for (uint32_t round = 1; round <= 20; ++round) {
        for (uint64_t i = 0; i < kReads; ++i) {
            const bool beyond = round % 4 == 0 && i >= kGood;
            const uint64_t at = i * kBytes % FabricWorld::kRegionBytes;
            ASSERT_EQ(world_.fabric(kA).read(kB, from_b(), beyond ? FabricWorld::kRegionBytes : at,
                                             {kRank0, FabricWorld::kUserRegion, at}, kBytes, 2),
                      Post::kAccepted);
        }
        ASSERT_TRUE(turn_until([&] { return moved_ + failed_ == round * kReads; })) << round;
        EXPECT_EQ(failed_, round / 4 * (kReads - kGood));
    }
}

// A rank's memory is mapped here, and the rank may give pages of it back and get others: a network card that
// remembered where they were would read, and write, what is nobody's any more.
TEST_F(NetworkFabricTest, PagesThatWereGivenBackAreNotRemembered) {
    world_.share(kA.node, kRank0);
    world_.share(kB.node, kRank1);
    constexpr uint64_t kBytes = FabricWorld::kRegionBytes;
    for (uint32_t round = 1; round <= 8; ++round) {
        if (round % 3 == 0) world_.give_back(kB.node, kRank1);
        if (round % 4 == 0) world_.give_back(kA.node, kRank0);
        memset(world_.bytes(kB.node, kRank1), static_cast<int>(round), kBytes);
        memset(world_.bytes(kA.node, kRank0), 0xee, kBytes);
        read(kBytes);
        ASSERT_TRUE(turn_until([&] { return moved_ == round; })) << round;
        ASSERT_EQ(memcmp(world_.bytes(kA.node, kRank0), world_.bytes(kB.node, kRank1), kBytes), 0) << round;
    }
    // By the way that it is about: as the memory is mapped, without copies by the system.
    EXPECT_EQ(world_.fabric(kB).counters().bytes_bounced, 0u);
}

TEST_F(NetworkFabricTest, ASuccessorGivesWhatWasAskedOfItsFormerSelf) {
    ASSERT_TRUE(send(kA, kB));
    ASSERT_TRUE(send(kB, kA));
    memset(world_.bytes(kB.node, kRank1), 0x6b, 500000);
    lose_b();
    read(500000);
    restart_b();
    EXPECT_TRUE(turn_until([&] { return moved_ == 1; }));
    EXPECT_EQ(memcmp(world_.bytes(kA.node, kRank0), world_.bytes(kB.node, kRank1), 500000), 0);
    EXPECT_EQ(failed_ + lost_told_, 0u);
    ASSERT_TRUE(send(kA, kB));
}

// What a former self has said is not taken for its successor's.
TEST_F(NetworkFabricTest, EveryLifeIsKnownByItsNumber) {
    for (uint32_t life = 2; life < 6; ++life) {
        ASSERT_TRUE(send(kB, kA));
        ASSERT_TRUE(send(kA, kB));
        world_.lose(kB);
        world_.restart(kB, life);
    }
    EXPECT_TRUE(send(kB, kA));
}

// A rank withdraws its region and writes there while blocks of it are on their way. Each word says where it
// was read, and whether that was before: what comes later, and fails, goes to the same places.
TEST_F(NetworkFabricTest, WhatWasWithdrawnWhenItWasHalfSentDoesNotCome) {
    constexpr uint32_t kWords = 25'000, kReads = 128, kStep = 128, kAfter = 1u << 31;
    constexpr uint64_t kBytes = kWords * sizeof(uint32_t), kPlaces = FabricWorld::kRegionBytes / kBytes;
    world_.share(kB.node, kRank1);
    const auto write_words = [&](uint32_t when) {
        auto* const words = reinterpret_cast<uint32_t*>(world_.bytes(kB.node, kRank1));
        for (uint32_t i = 0; i < FabricWorld::kRegionBytes / sizeof *words; ++i) words[i] = i | when;
    };
    write_words(0);
    read(kBytes);
    ASSERT_TRUE(turn_until([&] { return moved_ == 1; }));
    for (uint64_t i = 0; i < kReads; ++i)
        ASSERT_EQ(world_.fabric(kA).read(kB, from_b(), i * kStep * sizeof(uint32_t),
                                         {kRank0, FabricWorld::kUserRegion, i % kPlaces * kBytes}, kBytes, i),
                  Post::kAccepted);
    uint64_t moved = 0, failed = 0, right = 0, wrong = 0;
    const auto end = std::chrono::steady_clock::now() + in_time();
    // One at a time: what comes later may go to the same place.
    const auto look = [&] {
        FabricEvent event;
        if (world_.fabric(kA).poll({&event, 1}, 0) == 0) return;
        ++(event.result == MoveResult::kMoved ? moved : failed);
        if (event.result != MoveResult::kMoved) return;
        const std::byte* const place = world_.bytes(kA.node, kRank0) + event.id % kPlaces * kBytes;
        const auto* const words = reinterpret_cast<const uint32_t*>(place);
        for (uint32_t i = 0; i < kWords; ++i) {
            right += words[i] == event.id * kStep + i;
            wrong += words[i] == ((event.id * kStep + i) | kAfter);
        }
    };
    while (moved == 0 && std::chrono::steady_clock::now() < end) {
        turn(kB);
        look();
    }
    // Nobody takes what comes: at some time no more can be sent.
    for (int i = 0; i < 1000; ++i) turn(kB);
    withdraw_region(world_.memory(kB.node).region(kRank1, FabricWorld::kUserRegion));
    write_words(kAfter);
    while (moved + failed != kReads) {
        ASSERT_LT(std::chrono::steady_clock::now(), end) << moved << " " << failed;
        turn(kB);
        look();
    }
    EXPECT_NE(moved, 0u);
    EXPECT_NE(failed, 0u);
    EXPECT_NE(right, 0u);
    EXPECT_EQ(wrong, 0u);
}

#ifdef LONGSHORE_TCP_WORLDS

// --- blocks that are sent along. Where they lie is not where their reads say: only what came along is right.

// They are kept for longer than others may keep a core of this machine.
constexpr uint64_t kKeptNs = 3'600'000'000'000;

class SentAhead : public NetworkFabricTest {
  protected:
    explicit SentAhead(uint64_t kept_ns = kKeptNs) : NetworkFabricTest(false, kept_ns) {}
    static constexpr uint64_t kBytes = 300'000, kAt = 400'000;
    void SetUp() override {
        ASSERT_TRUE(send(kA, kB));
        ASSERT_TRUE(send(kB, kA));
        std::byte* const from = world_.bytes(kB.node, kRank1);
        memset(from, 0x01, kAt);
        for (uint64_t i = 0; i < kBytes; ++i) from[kAt + i] = static_cast<std::byte>(i / 251);
        memset(world_.bytes(kA.node, kRank0), 0xee, FabricWorld::kRegionBytes);
    }
    static BlockName block(uint64_t sequence) { return {{GroupId{5}, sequence}, Rank{3}, 0}; }
    void send_along(uint64_t sequence) {
        world_.fabric(kB).send_along(kA, block(sequence), world_.name(kB.node, kRank1), kAt, kBytes);
    }
    // B has a turn only after that: A is told, but nothing has left yet.
    void tell() {
        const uint32_t before = messages_;
        std::byte byte{};
        ASSERT_EQ(world_.fabric(kB).send(kA, {&byte, 1}), Post::kAccepted);
        const auto end = std::chrono::steady_clock::now() + in_time();
        while (messages_ == before && std::chrono::steady_clock::now() < end) turn(kA);
        ASSERT_EQ(messages_, before + 1);
    }
    void read_part(uint64_t sequence, uint64_t begin, uint64_t end, uint64_t id = 2) {
        const AlongPart part{block(sequence), begin};
        ASSERT_EQ(world_.fabric(kA).read(kB, from_b(), begin, {kRank0, FabricWorld::kUserRegion, begin},
                                         end - begin, id, &part),
                  Post::kAccepted);
    }
    void turn_for(std::chrono::milliseconds time) {
        const auto end = std::chrono::steady_clock::now() + time;
        while (std::chrono::steady_clock::now() < end) turn();
    }
    bool came_along(uint64_t bytes = kBytes) {
        return memcmp(world_.bytes(kA.node, kRank0), world_.bytes(kB.node, kRank1) + kAt, bytes) == 0;
    }
    bool was_asked_for(uint64_t bytes) {
        return memcmp(world_.bytes(kA.node, kRank0), world_.bytes(kB.node, kRank1), bytes) == 0;
    }
};

TEST_F(SentAhead, WhatCameBeforeItsReadsIsKept) {
    send_along(1);
    tell();
    turn_for(std::chrono::milliseconds(50));
    // Its source may write there as soon as it has been read; nobody has.
    read_part(1, 100'001, kBytes);
    read_part(1, 0, 100'000);
    read_part(1, 100'000, 100'001);
    ASSERT_TRUE(turn_until([&] { return moved_ == 3; }));
    EXPECT_TRUE(came_along());
}

TEST_F(SentAhead, WhatComesAfterItsReadsGoesToWhereTheyWantIt) {
    send_along(1);
    tell();
    read_part(1, 0, 65'537);
    read_part(1, 65'537, kBytes);
    EXPECT_TRUE(turn_until([&] { return moved_ == 2; }));
    EXPECT_TRUE(came_along());
}

TEST_F(SentAhead, WhatWasNotSentAlongIsAskedFor) {
    send_along(1);
    tell();
    read_part(2, 0, 1000);
    EXPECT_TRUE(turn_until([&] { return moved_ == 1; }));
    EXPECT_TRUE(was_asked_for(1000));
}

// More than the window is not sent, until what was sent has been read.
TEST_F(SentAhead, TheWindowEndsAndOpensAgain) {
    constexpr uint64_t kWindow = 4u << 20;  // of four service processes
    uint64_t sequence = 1, sent = 0;
    uint32_t moved = moved_;
    for (; sent + kBytes <= kWindow; sent += kBytes) send_along(sequence++);
    send_along(sequence);
    tell();
    turn_for(std::chrono::milliseconds(50));
    read_part(sequence, 0, 1000);
    ++moved;
    ASSERT_TRUE(turn_until([&] { return moved_ == moved; }));
    EXPECT_TRUE(was_asked_for(1000)) << sequence;
    for (uint64_t i = 1; i < sequence; ++i) {
        read_part(i, 0, kBytes);
        ++moved;
        ASSERT_TRUE(turn_until([&] { return moved_ == moved; })) << i;
        EXPECT_TRUE(came_along()) << i;
        memset(world_.bytes(kA.node, kRank0), 0xee, kBytes);
    }
    ASSERT_TRUE(send(kA, kB));  // with this it is told
    send_along(100);
    tell();
    turn_for(std::chrono::milliseconds(50));
    read_part(100, 0, kBytes);
    ++moved;
    ASSERT_TRUE(turn_until([&] { return moved_ == moved; }));
    EXPECT_TRUE(came_along());
}

class SentAheadAndSoonDropped : public SentAhead {
  protected:
    SentAheadAndSoonDropped() : SentAhead(1'000'000) {}
};

// By another service process, perhaps: nobody says so.
TEST_F(SentAheadAndSoonDropped, WhatNobodyReadsIsDroppedAfterAWhile) {
    for (uint64_t sequence = 1; sequence <= 13; ++sequence) send_along(sequence);
    tell();
    // All have come, and then the next look at peers, of which there is one now and then.
    turn_for(std::chrono::milliseconds(3000));
    for (int i = 0; i < 10; ++i) turn();
    ASSERT_TRUE(send(kA, kB));
    read_part(1, 0, 1000);
    ASSERT_TRUE(turn_until([&] { return moved_ == 1; }));
    EXPECT_TRUE(was_asked_for(1000));
    // There is room in the window again. What is read before it comes is not dropped.
    send_along(20);
    tell();
    read_part(20, 0, kBytes);
    ASSERT_TRUE(turn_until([&] { return moved_ == 2; }));
    EXPECT_TRUE(came_along());
}

// Its reads go on as if it had not been sent, and end as they would have.
TEST_F(SentAhead, WhatCannotBeSentIsAskedFor) {
    RegionName gone = world_.name(kB.node, kRank1);
    ++gone.generation;
    world_.fabric(kB).send_along(kA, block(1), gone, kAt, kBytes);
    tell();
    read_part(1, 0, 5000);
    ASSERT_TRUE(turn_until([&] { return moved_ == 1; }));
    EXPECT_TRUE(was_asked_for(5000));
    read_part(1, 5000, 6000);
    ASSERT_TRUE(turn_until([&] { return moved_ == 2; }));
    EXPECT_TRUE(was_asked_for(6000));
}

TEST_F(SentAhead, ASuccessorIsAskedForTheRest) {
    send_along(1);
    tell();
    read_part(1, 0, kBytes);
    lose_b();
    restart_b();
    EXPECT_TRUE(turn_until([&] { return moved_ == 1; }));
    EXPECT_TRUE(was_asked_for(kBytes));
    EXPECT_EQ(failed_ + lost_told_, 0u);
}
#endif

}  // namespace
}  // namespace longshore::test
