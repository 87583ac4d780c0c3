#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "engine/message.h"

namespace longshore {
namespace {

TEST(Messages, RoundTrip) {
    std::byte buffer[kFrameBytesMax];
    FrameWriter writer;
    writer.start(buffer, sizeof(buffer), {.sender = {NodeId{3}, ServiceId{2}}, .incarnation = 9});
    const std::byte eager[5] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}};
    Message m;
    m.kind = MessageKind::kNotify;
    m.notification.operation = {GroupId{0x1122334455667788}, 42};
    m.notification.source = Rank{7};
    m.notification.destination = kToNode | 5;
    m.notification.origin = {NodeId{3}, ServiceId{2}};
    m.notification.owner = LocalRank{11};
    m.notification.region = RegionId{13};
    m.notification.region_generation = 15;
    m.notification.offset = uint64_t{1} << 40;
    m.notification.bytes = 5;
    m.notification.hops = 16;
    m.notification.collective = Collective::kAllgatherv;
    m.notification.eager = eager;
    ASSERT_TRUE(writer.add(m));
    Message ack;
    ack.kind = MessageKind::kAcknowledge;
    ack.acknowledgement = {{GroupId{1}, 2}, Rank{3}, 4, true};
    ASSERT_TRUE(writer.add(ack));
    const auto frame = writer.finish();

    FrameReader reader;
    FrameHeader header;
    ASSERT_TRUE(reader.start(frame, &header));
    EXPECT_EQ(header.sender, (ServiceAddress{NodeId{3}, ServiceId{2}}));
    EXPECT_EQ(header.incarnation, 9u);
    Message got;
    ASSERT_EQ(reader.next(&got), FrameReader::Result::kMessage);
    EXPECT_EQ(got.notification.operation, m.notification.operation);
    EXPECT_EQ(got.notification.destination, m.notification.destination);
    EXPECT_EQ(got.notification.offset, m.notification.offset);
    EXPECT_EQ(got.notification.hops, 16);
    EXPECT_EQ(got.notification.collective, Collective::kAllgatherv);
    ASSERT_EQ(got.notification.eager.size(), 5u);
    EXPECT_EQ(memcmp(got.notification.eager.data(), eager, 5), 0);
    ASSERT_EQ(reader.next(&got), FrameReader::Result::kMessage);
    EXPECT_TRUE(got.acknowledgement.failed);
    EXPECT_EQ(reader.next(&got), FrameReader::Result::kEnd);
}

TEST(Messages, RelayedRoundTrip) {
    std::byte buffer[kFrameBytesMax];
    FrameWriter writer;
    writer.start(buffer, sizeof(buffer), {});
    Message want;
    want.kind = MessageKind::kWant;
    want.relayed.operation = {GroupId{0x1122334455667788}, 42};
    want.relayed.source = Rank{7};
    want.relayed.origin = {NodeId{3}, ServiceId{2}};
    want.relayed.hops = 1;
    want.relayed.ticket = uint64_t{9} << 32 | 5;
    Message offer;
    offer.kind = MessageKind::kOffer;
    offer.relayed.ticket = want.relayed.ticket;
    offer.relayed.slot = 63;
    offer.relayed.serial = 77;
    offer.relayed.offset = uint64_t{1} << 40;
    offer.relayed.bytes = 4096;
    Message pass = offer, taken = offer;
    pass.kind = MessageKind::kPass;
    taken.kind = MessageKind::kTaken;
    for (const Message* m : {&want, &offer, &pass, &taken}) ASSERT_TRUE(writer.add(*m));

    FrameReader reader;
    FrameHeader header;
    Message got;
    ASSERT_TRUE(reader.start(writer.finish(), &header));
    ASSERT_EQ(reader.next(&got), FrameReader::Result::kMessage);
    EXPECT_EQ(got.kind, MessageKind::kWant);
    EXPECT_EQ(got.relayed.operation, want.relayed.operation);
    EXPECT_EQ(got.relayed.source, want.relayed.source);
    EXPECT_EQ(got.relayed.origin, want.relayed.origin);
    EXPECT_EQ(got.relayed.hops, 1);
    EXPECT_EQ(got.relayed.ticket, want.relayed.ticket);
    ASSERT_EQ(reader.next(&got), FrameReader::Result::kMessage);
    EXPECT_EQ(got.kind, MessageKind::kOffer);
    EXPECT_EQ(got.relayed.ticket, offer.relayed.ticket);
    EXPECT_EQ(got.relayed.slot, 63u);
    EXPECT_EQ(got.relayed.serial, 77u);
    EXPECT_EQ(got.relayed.offset, offer.relayed.offset);
    EXPECT_EQ(got.relayed.bytes, 4096u);
    ASSERT_EQ(reader.next(&got), FrameReader::Result::kMessage);
    EXPECT_EQ(got.kind, MessageKind::kPass);
    EXPECT_EQ(got.relayed.ticket, offer.relayed.ticket);
    ASSERT_EQ(reader.next(&got), FrameReader::Result::kMessage);
    EXPECT_EQ(got.kind, MessageKind::kTaken);
    EXPECT_EQ(got.relayed.slot, 63u);
    EXPECT_EQ(got.relayed.serial, 77u);
    EXPECT_EQ(reader.next(&got), FrameReader::Result::kEnd);
}

TEST(Messages, FullFrameRefusesAndKeepsWhatItHas) {
    std::byte buffer[kFrameBytesMax];
    FrameWriter writer;
    writer.start(buffer, sizeof(buffer), {});
    Message m;
    m.kind = MessageKind::kRequest;
    size_t added = 0;
    while (writer.add(m)) ++added;
    FrameReader reader;
    FrameHeader header;
    ASSERT_TRUE(reader.start(writer.finish(), &header));
    size_t read = 0;
    while (reader.next(&m) == FrameReader::Result::kMessage) ++read;
    EXPECT_EQ(read, added);
}

// It is an index into counters where it arrives.
TEST(Messages, NotificationOfAnUnknownCollectiveIsMalformed) {
    for (uint32_t collective = 0; collective <= kCollectives; ++collective) {
        std::byte buffer[kFrameBytesMax];
        FrameWriter writer;
        writer.start(buffer, sizeof(buffer), {});
        Message m;
        m.kind = MessageKind::kHandOn;
        m.notification.collective = static_cast<Collective>(collective);
        ASSERT_TRUE(writer.add(m));
        FrameReader reader;
        FrameHeader header;
        ASSERT_TRUE(reader.start(writer.finish(), &header));
        EXPECT_EQ(reader.next(&m), collective < kCollectives ? FrameReader::Result::kMessage
                                                             : FrameReader::Result::kMalformed);
    }
}

TEST(Messages, TruncatedFramesAreMalformedNotRead) {
    std::byte buffer[kFrameBytesMax];
    FrameWriter writer;
    writer.start(buffer, sizeof(buffer), {});
    Message m;
    m.kind = MessageKind::kNotify;
    ASSERT_TRUE(writer.add(m));
    const auto whole = writer.finish();
    for (size_t n = 0; n < whole.size(); ++n) {
        std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
        FrameReader reader;
        FrameHeader header;
        EXPECT_FALSE(reader.start(cut, &header));  // its length does not fit
        if (n < kFrameHeaderBytes) continue;
        cut[2] = static_cast<std::byte>(n & 0xff);
        cut[3] = static_cast<std::byte>(n >> 8);
        ASSERT_TRUE(reader.start(cut, &header));
        EXPECT_NE(reader.next(&m), FrameReader::Result::kMessage);
    }
}

}  // namespace
}  // namespace longshore
