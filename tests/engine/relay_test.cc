// Broadcasts from service process to service process: what the source's memory is read for, and what not.
#include <gtest/gtest.h>

#include <algorithm>

#include "cluster.h"

namespace longshore {
namespace {

struct Read {
    uint64_t at_source = 0, relayed = 0, refused = 0;
};

// A broadcast of rank `root` over nodes with one rank each.
Read broadcast(uint32_t nodes, uint32_t services, uint32_t root, uint64_t bytes, uint32_t slots,
               uint32_t late = UINT32_MAX) {
    Cluster::Shape shape;
    shape.ranks_of_node.assign(nodes, 1);
    shape.services = services;
    shape.read_turns = 16;  // meanwhile children have asked
    shape.service_limits.staging_slots = slots;
    shape.service_limits.staging_slot_bytes = shape.chunk_bytes;
    Cluster c(shape);
    std::vector<std::vector<uint8_t>> buffers(nodes);
    std::vector<std::pair<uint32_t, RecordId>> records(nodes), early;
    const auto enter = [&](uint32_t r) {
        buffers[r].assign(bytes, 0);
        for (uint64_t i = 0; r == root && i < bytes; ++i)
            buffers[r][i] = static_cast<uint8_t>(i * 7 + i / 251);
        OperationArguments a;
        a.sequence = 1;
        a.collective = Collective::kBcast;
        a.algorithm = Algorithm::kStaged;
        a.root = Rank{root};
        a.send = a.recv = c.add_region(r, buffers[r].data(), bytes);
        a.send_block_bytes = a.recv_block_bytes = bytes;
        records[r] = {r, RecordId{}};
        EXPECT_EQ(c.post(r, a, &records[r].second), PostResult::kPosted);
    };
    for (uint32_t r = 0; r < nodes; ++r)
        if (r != late) enter(r);
    for (uint32_t r = 0; r < nodes; ++r)
        if (r != late && r != root) early.push_back(records[r]);
    EXPECT_TRUE(c.run(early));  // nobody waits for who is late
    if (late != UINT32_MAX) enter(late);
    EXPECT_TRUE(c.run(records));
    for (uint32_t r = 0; r < nodes; ++r) EXPECT_TRUE(buffers[r] == buffers[root]) << "rank " << r;
    for (const auto& [r, record] : records) c.release(r, record);
    EXPECT_TRUE(c.run({}));
    EXPECT_TRUE(c.clean());
    Read read;
    for (uint32_t n = 0; n < nodes; ++n)
        for (uint32_t s = 0; s < services; ++s) {
            read.relayed += c.service(n, s).counters().bytes_relayed;
            read.refused += c.service(n, s).counters().relays_refused;
        }
    EXPECT_EQ(c.bytes_between_nodes, (nodes - 1) * bytes);  // each byte to each node once
    read.at_source = c.bytes_between_nodes - read.relayed;
    return read;
}

constexpr uint64_t kChunk = 64;

TEST(Relay, FewChunksGoDownABinomialTree) {
    const Read read = broadcast(8, 1, 3, 2 * kChunk, 8);
    EXPECT_EQ(read.at_source, 3 * 2 * kChunk);  // by the source's three children only
}

TEST(Relay, ManyChunksAreReadAtTheSourceOnce) {
    const uint64_t bytes = 21 * kChunk - 10;
    EXPECT_EQ(broadcast(8, 1, 5, bytes, 32).at_source, bytes);
}

TEST(Relay, SeveralServiceProcesses) {
    for (uint32_t root : {0u, 1u, 4u}) EXPECT_GT(broadcast(5, 3, root, 16 * kChunk, 16).relayed, 0u);
}

// One slot is never kept for others, so everything arrives however few there are.
TEST(Relay, FewSlots) {
    EXPECT_EQ(broadcast(6, 1, 0, 20 * kChunk, 1).relayed, 0u);
    EXPECT_GT(broadcast(6, 1, 0, 20 * kChunk, 2).relayed, 0u);
}

TEST(Relay, TwoNodesHaveNoTree) {
    EXPECT_EQ(broadcast(2, 1, 0, 20 * kChunk, 4).relayed, 0u);
}

// Node 2 is the parent of node 3 both ways.
TEST(Relay, ALateParentKeepsNobodyWaiting) {
    for (uint64_t chunks : {1, 12}) {
        const Read read = broadcast(4, 1, 0, chunks * kChunk, 8, 2);
        EXPECT_GT(read.refused, 0u);
    }
}

// Who offers more than can be remembered in one go gets all of his slots back.
TEST(Relay, EveryOfferIsAnswered) {
    Cluster::Shape shape;
    shape.ranks_of_node = {1, 1, 1};
    shape.service_limits.staging_slots = 8;
    shape.service_limits.staging_slot_bytes = shape.chunk_bytes;
    Cluster c(shape);
    ServiceEngine& child = c.service(0, 0);
    constexpr uint32_t kOffers = 6000;
    WakeSet wake;
    for (uint32_t slot = 0; slot < kOffers;) {
        std::byte buffer[kFrameBytesMax];
        FrameWriter writer;
        writer.start(buffer, sizeof buffer, {.sender = {NodeId{1}, ServiceId{0}}, .incarnation = 1});
        Message m;
        m.kind = MessageKind::kOffer;
        m.relayed.ticket = 77;
        m.relayed.slot = slot;
        m.relayed.serial = slot + 1;
        for (; slot < kOffers && writer.add(m); m.relayed.slot = ++slot, m.relayed.serial = slot + 1) {
        }
        child.on_frame(writer.finish(), &wake);
    }
    std::vector<bool> taken(kOffers);
    Action action;
    while (child.next(&action, &wake)) {
        FrameReader reader;
        FrameHeader header;
        Message m;
        if (action.kind != Action::Kind::kSend || !reader.start(action.data, &header)) continue;
        while (reader.next(&m) == FrameReader::Result::kMessage)
            if (m.kind == MessageKind::kTaken && m.relayed.serial == m.relayed.slot + 1)
                taken.at(m.relayed.slot) = true;
    }
    EXPECT_EQ(std::count(taken.begin(), taken.end(), true), kOffers);
    EXPECT_EQ(child.counters().malformed_messages, 0u);
}

// A parent is told by a child that has started anew: the child's former self was offered the same slot, and
// its successor gives that offer back while it reads what it was offered itself. The slot stays until it has.
TEST(Relay, AnOfferToAFormerSelfIsNotTheOneThatIsBeingRead) {
    Cluster::Shape shape;
    shape.ranks_of_node = {1, 1, 1, 1};
    shape.service_limits.nodes_max = 4;
    shape.service_limits.staging_slots = 8;
    shape.service_limits.staging_slot_bytes = shape.chunk_bytes;
    Cluster c(shape);
    uint8_t memory[kChunk] = {};
    OperationArguments a;
    a.sequence = 1;
    a.collective = Collective::kBcast;
    a.algorithm = Algorithm::kStaged;
    a.root = Rank{0};
    a.send = a.recv = c.add_region(2, memory, sizeof memory);
    a.send_block_bytes = a.recv_block_bytes = kChunk;
    RecordId record;
    ASSERT_EQ(c.post(2, a, &record), PostResult::kPosted);

    ServiceEngine& parent = c.service(2, 0);
    WakeSet wake;
    const OperationId operation{GroupId{77}, 1};
    const ServiceAddress source{NodeId{0}, ServiceId{0}}, child{NodeId{3}, ServiceId{0}};
    Action move;  // the delivery to the parent's own rank, left under way
    uint32_t offers = 0;
    Message offer;
    const auto run = [&] {
        Action action;
        while (parent.next(&action, &wake)) {
            FrameReader reader;
            FrameHeader header;
            Message m;
            if (action.kind == Action::Kind::kRead) parent.finish_read(action.id, MoveResult::kMoved, &wake);
            if (action.kind == Action::Kind::kMove) move = action;
            if (action.kind != Action::Kind::kSend || !reader.start(action.data, &header)) continue;
            while (reader.next(&m) == FrameReader::Result::kMessage) {
                if (m.kind == MessageKind::kOffer) {
                    offer = m;
                    ++offers;
                }
            }
        }
    };
    const auto hears = [&](ServiceAddress from, uint32_t incarnation, const Message& m) {
        std::byte buffer[kFrameBytesMax];
        FrameWriter writer;
        writer.start(buffer, sizeof buffer, {.sender = from, .incarnation = incarnation});
        ASSERT_TRUE(writer.add(m));
        parent.on_frame(writer.finish(), &wake);
        run();
    };
    std::byte buffer[kFrameBytesMax];
    FrameWriter writer;
    writer.start(buffer, sizeof buffer, {.sender = source, .incarnation = 1});
    Told told;
    told.operation = operation;
    told.collective = Collective::kBcast;
    told.origin = source;
    Row row;
    row.form = Row::Form::kOne;
    row.destination = kToNode | 2;
    row.region = RegionId{1};
    row.generation = 1;
    row.bytes = kChunk;
    ASSERT_EQ(writer.add_row(MessageKind::kTell, told, row, {}), 1u);
    parent.on_frame(writer.finish(), &wake);
    Message want;
    want.kind = MessageKind::kWant;
    want.relayed.operation = operation;
    want.relayed.source = Rank{0};
    want.relayed.origin = child;
    want.relayed.ticket = uint64_t{1} << 32 | 1;
    hears(child, 1, want);
    ASSERT_EQ(offers, 1u);
    ASSERT_EQ(move.kind, Action::Kind::kMove);
    Message stale = offer;
    stale.kind = MessageKind::kTaken;
    want.relayed.ticket = uint64_t{2} << 32 | 1;
    hears(child, 2, want);
    ASSERT_EQ(offers, 2u);
    ASSERT_EQ(offer.relayed.slot, stale.relayed.slot);
    ASSERT_EQ(offer.relayed.serial, stale.relayed.serial);
    hears(child, 2, stale);
    parent.finish_read(move.id, MoveResult::kMoved, &wake);
    run();
    ASSERT_EQ(c.rank(2).poll(record), Progress::kComplete);
    c.release(2, record);
    run();
    EXPECT_FALSE(parent.idle()) << "the slot is being read";
    offer.kind = MessageKind::kTaken;
    hears(child, 2, offer);
    EXPECT_TRUE(parent.idle());
}

}  // namespace
}  // namespace longshore
