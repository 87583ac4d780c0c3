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

// The region that a lost service process told of is asked for again, of another one of its node, before the
// first request has gone out: one request, and a list that still hangs together.
TEST(Loss, RegionAskedForTwiceIsOnTheListOnce) {
    Cluster::Shape shape;
    shape.ranks_of_node = {1, 2};
    shape.services = 2;
    Cluster c(shape);
    uint8_t send[300], recv[300];
    OperationArguments a;
    a.sequence = 1;
    a.send = c.add_region(0, send, sizeof send);
    a.recv = c.add_region(0, recv, sizeof recv);
    a.send_block_bytes = a.recv_block_bytes = 100;
    RecordId record;
    ASSERT_EQ(c.post(0, a, &record), PostResult::kPosted);

    ServiceEngine& engine = c.service(0, 0);
    WakeSet wake;
    const ServiceAddress lost{NodeId{1}, ServiceId{0}}, other{NodeId{1}, ServiceId{1}};
    engine.on_frame(row_frame(lost, 1, 100), &wake);
    engine.on_peer_lost(lost, &wake);
    engine.on_frame(row_frame(other, 2, 100), &wake);
    uint32_t requests = 0;
    Action action;
    for (int i = 0; i < 100 && engine.next(&action, &wake); ++i) {
        if (action.kind == Action::Kind::kCopy) engine.finish_copy(action.copy, MoveResult::kMoved, &wake);
        if (action.kind != Action::Kind::kSend) continue;
        FrameReader reader;
        FrameHeader header;
        Message m;
        ASSERT_TRUE(reader.start(action.data, &header));
        while (reader.next(&m) == FrameReader::Result::kMessage)
            requests += m.kind == MessageKind::kRegionRequest;
    }
    EXPECT_EQ(requests, 1u);
}

}  // namespace
}  // namespace longshore
