// Parts of a service process's engine, each with nothing but what its header says that it asks for.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/service/acknowledger.h"
#include "engine/service/operations.h"
#include "engine/service/outbox.h"
#include "engine/service/reads.h"
#include "engine/service/relay_tree.h"
#include "engine/service/small_blocks.h"
#include "engine/service/spans.h"

namespace longshore {
namespace {

struct Freed {
    void operator()(void* p) const { free(p); }
};

// Memory for what `carve` takes.
class Block {
  public:
    explicit Block(const std::function<void(Carver&)>& carve) {
        Carver count(nullptr);
        carve(count);
        bytes_.reset(static_cast<std::byte*>(aligned_alloc(64, count.used())));
        memset(bytes_.get(), 0xa5, count.used());  // parts may not rely on zeros
        Carver carver(bytes_.get());
        carve(carver);
    }

  private:
    std::unique_ptr<std::byte, Freed> bytes_;
};

ServiceAddress at(uint16_t node, uint16_t service = 0) {
    return {NodeId{node}, ServiceId{service}};
}
OperationId operation(uint64_t group, uint64_t sequence) {
    return {GroupId{group}, sequence};
}

// A service process of node 0, of a job of eight nodes.
struct Context {
    Context() {
        context.limits.nodes_max = 8;
        context.limits.services_per_node_max = 2;
        context.limits.watches_max = 8;
        context.limits.rows_max = 4;
        context.limits.eager_max = 4;
        context.limits.reads_max = 2;
        context.incarnation = 1;
        context.counters = &counters;
        context.memory = NodeMemory();
    }
    ServiceCounters counters;
    ServiceContext context;
};

// --- Turns

struct TurnsTest : testing::Test {
    std::vector<uint32_t> order() const {
        std::vector<uint32_t> all;
        uint32_t tried = 0;
        for (uint32_t c = turns.next_class(&tried); c != kNone; c = turns.next_class(&tried))
            for (uint32_t i = turns.first_of(c); i != kNone; i = turns.after(i)) all.push_back(i);
        return all;
    }
    void open(uint32_t i, const OperationId& id, uint64_t bytes) {
        turns.opened(i, id);
        turns.join(i, bytes);
    }
    Turns turns;
    Block block{[this](Carver& c) { turns.carve(c, 8); }};
};

TEST_F(TurnsTest, LaterOperationsOfAGroupComeAfterEarlierOnes) {
    open(0, operation(1, 7), 100);
    open(1, operation(2, 1), 100);
    open(2, operation(1, 6), 100);
    EXPECT_EQ(order(), (std::vector<uint32_t>{2, 0, 1}));
    turns.leave(2);
    EXPECT_EQ(order(), (std::vector<uint32_t>{0, 1}));
}

TEST_F(TurnsTest, AHugeOperationGetsNoMoreThanASmallOne) {
    open(0, operation(1, 1), uint64_t{1} << 30);
    open(1, operation(2, 1), 1 << 20);
    std::map<uint32_t, uint64_t> served;
    for (int i = 0; i < 100; ++i) {
        const uint32_t first = order().front();
        const uint64_t bytes = first == 0 ? 65536 : 16384;
        turns.charge(first, bytes);
        served[first] += bytes + kMoveCostBytes;
    }
    EXPECT_NEAR(static_cast<double>(served[0]) / static_cast<double>(served[1]), 1.0, 0.05);
}

TEST_F(TurnsTest, WhoHadNothingToDoHasNotSavedItUp) {
    open(0, operation(1, 1), uint64_t{1} << 30);
    for (int i = 0; i < 1000; ++i) turns.charge(0, 65536);
    open(1, operation(2, 1), 1 << 20);
    uint32_t in_a_row = 0;
    for (; order().front() == 1; ++in_a_row) turns.charge(1, 65536);
    EXPECT_LE(in_a_row, 2u);
}

// --- Operations

struct OperationsTest : Context, testing::Test {
    struct Notes : Follower {
        void operation_opened(uint32_t) override { ++opened; }
        void operation_emptied(uint32_t) override { ++emptied; }
        int opened = 0, emptied = 0;
    };
    OperationsTest() { operations.follow(&notes); }
    Turns turns;
    Operations operations{context, turns};
    Notes notes;
    Block block{[this](Carver& c) { operations.carve(c); }};
};

TEST_F(OperationsTest, StaysAsLongAsItHasAWatchOrIsHeld) {
    const uint32_t o = operations.open(operation(1, 1));
    EXPECT_EQ(operations.open(operation(1, 1)), o);
    EXPECT_EQ(notes.opened, 1);
    operations.join(o, 3, true, 100);
    operations.hold(o);
    operations.leave(o, 3, true);
    EXPECT_EQ(notes.emptied, 1);
    EXPECT_EQ(operations.find(operation(1, 1)), o);
    operations.release(o);
    EXPECT_EQ(operations.find(operation(1, 1)), kNone);
}

TEST_F(OperationsTest, WatchesComeInTurn) {
    const uint32_t o = operations.open(operation(1, 1));
    for (const uint32_t w : {5u, 2u, 7u}) operations.join(o, w, w != 2, 0);
    EXPECT_EQ(operations[o].own_count, 2u);
    for (const uint32_t w : {5u, 2u, 7u, 5u}) EXPECT_EQ(operations.rotate(o), w);
    operations.leave(o, 2, false);
    EXPECT_EQ(operations.rotate(o), 7u);
    EXPECT_EQ(operations.rotate(o), 5u);
}

TEST_F(OperationsTest, KeepsItsPlaceWhileItIsServed) {
    const uint32_t o = operations.open(operation(1, 1));
    operations.join(o, 0, true, 0);
    operations.begin_serving(o);
    operations.leave(o, 0, true);
    EXPECT_EQ(notes.emptied, 0);
    uint32_t tried = 0;
    EXPECT_NE(turns.next_class(&tried), kNone);
    operations.end_serving();
    EXPECT_EQ(operations.find(operation(1, 1)), kNone);
}

// --- Peers, Outbox

struct OutboxTest : Context, testing::Test {
    Message acknowledgement(uint64_t sequence) {
        Message m;
        m.kind = MessageKind::kAcknowledge;
        m.acknowledgement.operation = operation(1, sequence);
        m.acknowledgement.sources = 1;
        return m;
    }
    // Sequences in the next frame, in order; of a greeting 0.
    std::vector<uint64_t> next(ServiceAddress* peer) {
        std::vector<uint64_t> found;
        Action a;
        if (!outbox.next(&a)) return found;
        EXPECT_EQ(a.kind, Action::Kind::kSend);
        *peer = a.peer;
        FrameReader reader;
        FrameHeader header;
        EXPECT_TRUE(reader.start(a.data, &header));
        Message m;
        while (reader.next(&m) == FrameReader::Result::kMessage)
            found.push_back(m.kind == MessageKind::kHello ? 0 : m.acknowledgement.operation.sequence);
        return found;
    }
    Peers peers{context};
    Outbox outbox{context, peers};
    Block block{[this](Carver& c) {
        peers.carve(c);
        outbox.carve(c);
    }};
    ServiceAddress to;
};

TEST_F(OutboxTest, MessagesToOnePeerGoInOneFrameInOrder) {
    for (uint64_t i = 1; i <= 3; ++i) {
        EXPECT_TRUE(outbox.add(at(3), acknowledgement(i)));
        EXPECT_TRUE(outbox.add(at(5), acknowledgement(10 + i)));
    }
    EXPECT_EQ(next(&to), (std::vector<uint64_t>{1, 2, 3}));
    EXPECT_EQ(to, at(3));
    EXPECT_EQ(next(&to), (std::vector<uint64_t>{11, 12, 13}));
    EXPECT_EQ(to, at(5));
    EXPECT_TRUE(next(&to).empty());
}

TEST_F(OutboxTest, AFullFrameGoesAtOnceAndNothingIsLost) {
    uint64_t added = 0;
    while (outbox.add(at(1), acknowledgement(added + 1))) ++added;
    EXPECT_TRUE(outbox.is_due());
    EXPECT_EQ(next(&to).size(), added);
    EXPECT_TRUE(outbox.add(at(1), acknowledgement(added + 1)));
    EXPECT_EQ(next(&to), std::vector<uint64_t>{added + 1});
}

TEST_F(OutboxTest, GreetsAndForgetsWhoIsLost) {
    outbox.greet(at(2));
    EXPECT_TRUE(outbox.add(at(4), acknowledgement(1)));
    peers.lose(at(4));
    outbox.drop(at(4));
    EXPECT_TRUE(outbox.add(at(4), acknowledgement(2)));  // nobody will miss it
    EXPECT_EQ(next(&to), std::vector<uint64_t>{0});
    EXPECT_EQ(to, at(2));
    EXPECT_TRUE(next(&to).empty());
    EXPECT_FALSE(outbox.add(at(8), acknowledgement(1)));
}

TEST_F(OutboxTest, IncarnationsOnlyGrow) {
    EXPECT_EQ(peers.hear(at(1), 2), Peers::Heard::kNew);
    EXPECT_EQ(peers.hear(at(1), 2), Peers::Heard::kSame);
    EXPECT_EQ(peers.hear(at(1), 1), Peers::Heard::kStale);
    EXPECT_EQ(peers.hear(at(1), 3), Peers::Heard::kRestarted);
}

// --- Acknowledger

struct AcknowledgerTest : OutboxTest {
    struct Seen {
        std::map<uint16_t, uint64_t> sources, failed;
        uint32_t messages = 0, asked = 0;
    };
    Seen sent() {
        Seen seen;
        Action a;
        while (outbox.next(&a)) {
            FrameReader reader;
            FrameHeader header;
            EXPECT_TRUE(reader.start(a.data, &header));
            Message m;
            while (reader.next(&m) == FrameReader::Result::kMessage) {
                ++seen.messages;
                seen.asked += m.kind == MessageKind::kAgain;
                if (m.kind != MessageKind::kAcknowledge) continue;
                (m.acknowledgement.failed ? seen.failed : seen.sources)[m.acknowledgement.first] |=
                    m.acknowledgement.sources;
            }
        }
        return seen;
    }
    Acknowledger acknowledger{context, peers, outbox};
    Block more{[this](Carver& c) { acknowledger.carve(c); }};
    void SetUp() override { acknowledger.operation_opened(0); }
};

TEST_F(AcknowledgerTest, RowsOfABatchInOneMessage) {
    uint32_t batch = 0;
    for (int i = 0; i < 4; ++i) batch = acknowledger.begin_row(0, operation(1, 1), at(1));
    for (const uint16_t source : {0, 3, 63}) acknowledger.end_row(batch, source, false);
    acknowledger.count_queued(batch, 1);
    EXPECT_FALSE(acknowledger.send(Acknowledger::Until::kQueued));  // one more is about to be read
    acknowledger.count_queued(batch, -1);
    acknowledger.end_row(batch, 64, true);
    EXPECT_TRUE(acknowledger.send(Acknowledger::Until::kQueued));
    const Seen seen = sent();
    EXPECT_EQ(seen.messages, 2u);
    EXPECT_EQ(seen.sources.at(0), uint64_t{1} | 1u << 3 | uint64_t{1} << 63);
    EXPECT_EQ(seen.failed.at(64), 1u);
    EXPECT_TRUE(acknowledger.idle());
}

TEST_F(AcknowledgerTest, WaitsForOthersOfTheBatchNotForEver) {
    const uint32_t batch = acknowledger.begin_row(0, operation(1, 1), at(1));
    acknowledger.begin_row(0, operation(1, 1), at(1));
    acknowledger.count_queued(batch, 1);
    acknowledger.end_row(batch, 0, false);
    int steps = 0;
    for (; !acknowledger.send(Acknowledger::Until::kQueued) && steps < 1000; ++steps) ++context.steps;
    EXPECT_GT(steps, 1);
    EXPECT_LT(steps, 1000);
}

TEST_F(AcknowledgerTest, WaitsForBlocksOfTheOperationFromOtherNodes) {
    const uint32_t batch = acknowledger.begin_row(0, operation(1, 1), at(1));
    acknowledger.begin_row(0, operation(1, 1), at(1));
    const uint32_t elsewhere = acknowledger.begin_row(0, operation(1, 1), at(2));
    acknowledger.count_queued(elsewhere, 1);
    acknowledger.count_in_flight(elsewhere, 1);
    acknowledger.end_row(batch, 0, false);
    EXPECT_FALSE(acknowledger.send(Acknowledger::Until::kQueued));
    EXPECT_FALSE(acknowledger.send(Acknowledger::Until::kInFlight));
    acknowledger.count_in_flight(elsewhere, -1);
    EXPECT_FALSE(acknowledger.send(Acknowledger::Until::kQueued));
    EXPECT_TRUE(acknowledger.send(Acknowledger::Until::kInFlight));
}

TEST_F(AcknowledgerTest, NumbersTheRoundsOfABatch) {
    const uint32_t one = acknowledger.begin_row(0, operation(1, 1), at(1));
    const uint32_t two = acknowledger.begin_row(0, operation(1, 1), at(2));
    EXPECT_EQ(acknowledger.next_round(one, 0), 0u);
    EXPECT_EQ(acknowledger.next_round(one, 0), 1u);
    EXPECT_EQ(acknowledger.next_round(two, 0), 0u);
    EXPECT_EQ(acknowledger.next_round(two, 5), 5u);  // watches have come so far
    EXPECT_EQ(acknowledger.next_round(two, 3), 6u);
}

TEST_F(AcknowledgerTest, AsksOnceForWhatWasDropped) {
    acknowledger.owe(at(2));
    acknowledger.owe(at(2));
    acknowledger.ask_for_dropped();
    EXPECT_EQ(sent().asked, 0u);  // there is no room yet
    acknowledger.ask_soon();
    acknowledger.ask_for_dropped();
    EXPECT_EQ(sent().asked, 1u);
    acknowledger.owe(at(2));
    acknowledger.forgive(at(2));
    acknowledger.ask_soon();
    acknowledger.ask_for_dropped();
    EXPECT_EQ(sent().asked, 0u);
}

// --- SmallBlocks, Spans, Reads, RelayTree

struct SmallBlocksTest : Context, testing::Test {
    SmallBlock block_of(uint64_t sequence, uint32_t source, uint32_t destination) {
        SmallBlock b;
        b.operation = operation(1, sequence);
        b.source = Rank{source};
        b.destination = destination;
        b.bytes = {bytes, 3};
        return b;
    }
    std::byte bytes[3] = {std::byte{1}, std::byte{2}, std::byte{3}};
    SmallBlocks small{context};
    Block block{[this](Carver& c) { small.carve(c); }};
};

TEST_F(SmallBlocksTest, IsTakenOnce) {
    small.keep(at(1), block_of(1, 2, 3));
    small.keep(at(1), block_of(1, 2, 3));
    EXPECT_EQ(small.room(), 3u);
    EXPECT_EQ(small.take({operation(1, 1), Rank{2}, 4}), kNone);
    const uint32_t i = small.take({operation(1, 1), Rank{2}, 3});
    ASSERT_NE(i, kNone);
    EXPECT_EQ(memcmp(small.bytes(i).data(), bytes, 3), 0);
    EXPECT_EQ(small.take({operation(1, 1), Rank{2}, 3}), kNone);
    small.give(i);
    EXPECT_EQ(small.room(), 4u);
}

TEST_F(SmallBlocksTest, GoWithTheirRowOrTheirSender) {
    small.keep(at(1), block_of(1, 2, 3));
    small.keep(at(1), block_of(1, 2, 4));
    small.keep(at(2), block_of(1, 5, 3));
    small.drop(operation(1, 1), Rank{2});
    EXPECT_EQ(small.room(), 3u);
    small.drop_of(at(2));
    EXPECT_EQ(small.room(), 4u);
}

struct ReadsTest : Context, testing::Test {
    Reads reads{context};
    Block block{[this](Carver& c) { reads.carve(c); }};
};

TEST_F(ReadsTest, AWindowOfBytesAndANumber) {
    TakenChunk taken;
    taken.queued = 7;
    taken.bytes = 1000;
    reads.set_window(1500);
    const uint32_t first = reads.begin(taken);
    EXPECT_TRUE(reads.has_room());
    reads.begin(taken);
    EXPECT_FALSE(reads.has_room());
    EXPECT_EQ(reads.end(first).queued, 7u);
    EXPECT_TRUE(reads.has_room());
}

TEST(RelayTree, EveryChunkIsReadAtTheSourceOnceAndComesFromAParentElsewhere) {
    for (const uint32_t count : {3u, 4u, 7u, 32u})
        for (uint32_t chunk = 0; chunk < 2 * count; ++chunk) {
            uint32_t at_source = 0;
            for (uint32_t i = 1; i < count; ++i) {
                RelayTree tree;
                tree.index = i;
                tree.count = count;
                tree.ring = true;
                at_source += tree.own().has(chunk);
                EXPECT_EQ(tree.own().has(chunk), tree.scattered_to(chunk) == i);
                EXPECT_NE(tree.parent(), 0u);
                EXPECT_NE(tree.parent(), i);
                tree.ring = false;
                EXPECT_LT(tree.parent(), i);
                EXPECT_EQ(tree.own().all(), tree.parent() == 0);
            }
            EXPECT_EQ(at_source, 1u);
        }
}

}  // namespace
}  // namespace longshore
