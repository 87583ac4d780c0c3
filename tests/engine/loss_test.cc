// A peer that is lost at an awkward moment.
#include <gtest/gtest.h>

#include "cluster.h"

namespace longshore {
namespace {

std::vector<std::byte> row_frame(ServiceAddress origin, uint32_t source, uint64_t bytes) {
    std::vector<std::byte> buffer(kFrameBytesMax);
    FrameWriter writer;
    writer.start(buffer.data(), buffer.size(), {.sender = origin, .incarnation = 1});
    Told told;
    told.operation = {GroupId{77}, 1};
    told.origin = origin;
    Row row;
    row.source = Rank{source};
    row.local_index = static_cast<uint16_t>(source - 1);
    row.form = Row::Form::kOne;
    row.region = RegionId{1};
    row.generation = 1;
    row.bytes = bytes;
    EXPECT_EQ(writer.add_row(MessageKind::kTell, told, row, {}), 1u);
    const auto frame = writer.finish();
    return {frame.begin(), frame.end()};
}

// Of what two service processes of a node tell, one of them is lost while it is being read: that read's end
// says why, and what the other one has told is read of that one.
TEST(Loss, AReadThatEndsWithItsOwnerSaysSo) {
    Cluster::Shape shape;
    shape.ranks_of_node = {1, 2};
    shape.services = 2;
    Cluster c(shape);
    uint8_t send[300], recv[300];
    OperationArguments a;
    a.sequence = 1;
    a.send = c.add_region(0, send, sizeof send);
    a.recv = c.add_region(0, recv, sizeof recv);
    a.send_block_bytes = a.recv_block_bytes = 50;
    RecordId record;
    ASSERT_EQ(c.post(0, a, &record), PostResult::kPosted);

    ServiceEngine& engine = c.service(0, 0);
    WakeSet wake;
    const ServiceAddress lost{NodeId{1}, ServiceId{0}}, other{NodeId{1}, ServiceId{1}};
    engine.on_frame(row_frame(lost, 1, 50), &wake);
    engine.on_frame(row_frame(other, 2, 50), &wake);
    std::vector<Action> reads;
    Action action;
    for (int i = 0; i < 100 && engine.next(&action, &wake); ++i) {
        if (action.kind == Action::Kind::kCopy) engine.finish_copy(action.copy, MoveResult::kMoved, &wake);
        if (action.kind == Action::Kind::kRead) reads.push_back(action);
    }
    ASSERT_EQ(reads.size(), 2u);
    for (const Action& read : reads) {
        const RegionName name{LocalRank{static_cast<uint16_t>(read.peer == lost ? 0 : 1)}, RegionId{1}, 1};
        EXPECT_EQ(read.name, name);
    }
    EXPECT_NE(reads[0].peer, reads[1].peer);
    engine.on_peer_lost(lost, &wake);
    for (const Action& read : reads)
        engine.finish_read(read.id, read.peer == lost ? MoveResult::kFailed : MoveResult::kMoved, &wake);
    EXPECT_EQ(c.rank(0).error(record), OperationError::kServiceLost);
}

}  // namespace
}  // namespace longshore
