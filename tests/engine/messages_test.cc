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
    const std::byte bytes[5] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}};
    Message m;
    m.kind = MessageKind::kSmallBlock;
    m.small = {{GroupId{0x1122334455667788}, 42}, Rank{7}, kToNode | 5, bytes};
    ASSERT_TRUE(writer.add(m));
    Message ack;
    ack.kind = MessageKind::kAcknowledge;
    ack.acknowledgement = {{GroupId{1}, 2}, true, 64, 5};
    ASSERT_TRUE(writer.add(ack));
    const auto frame = writer.finish();

    FrameReader reader;
    FrameHeader header;
    ASSERT_TRUE(reader.start(frame, &header));
    EXPECT_EQ(header.sender, (ServiceAddress{NodeId{3}, ServiceId{2}}));
    EXPECT_EQ(header.incarnation, 9u);
    Message got;
    ASSERT_EQ(reader.next(&got), FrameReader::Result::kMessage);
    EXPECT_EQ(got.small.operation, m.small.operation);
    EXPECT_EQ(got.small.destination, m.small.destination);
    ASSERT_EQ(got.small.bytes.size(), 5u);
    EXPECT_EQ(memcmp(got.small.bytes.data(), bytes, 5), 0);
    ASSERT_EQ(reader.next(&got), FrameReader::Result::kMessage);
    EXPECT_TRUE(got.acknowledgement.failed);
    EXPECT_EQ(reader.next(&got), FrameReader::Result::kEnd);
}

Told told_of(uint64_t sequence) {
    Told told;
    told.operation = {GroupId{5}, sequence};
    told.collective = Collective::kAlltoallv;
    told.origin = {NodeId{1}, ServiceId{0}};
    return told;
}

// Rows of one operation are one message, of another one, or behind another message, the next.
TEST(Messages, RowsOfAnOperationAreOneMessage) {
    std::byte buffer[kFrameBytesMax];
    FrameWriter writer;
    writer.start(buffer, sizeof buffer, {});
    Row row;
    row.bytes = 8;
    for (const uint64_t sequence : {1, 1, 1, 2}) {
        ++row.source.value;
        ASSERT_EQ(writer.add_row(MessageKind::kTell, told_of(sequence), row, {}), 1u);
    }
    ASSERT_TRUE(writer.add({}));
    ++row.source.value;
    ASSERT_EQ(writer.add_row(MessageKind::kTell, told_of(2), row, {}), 1u);

    FrameReader reader;
    FrameHeader header;
    ASSERT_TRUE(reader.start(writer.finish(), &header));
    uint32_t source = 0;
    for (const uint32_t rows : {3, 1, 0, 1}) {
        Message got;
        ASSERT_EQ(reader.next(&got), FrameReader::Result::kMessage);
        EXPECT_EQ(got.told.row_count, rows);
        RowReader all(got.told);
        for (uint32_t i = 0; i < rows; ++i) {
            ASSERT_TRUE(all.next(&row));
            EXPECT_EQ(row.source.value, ++source);
        }
        EXPECT_FALSE(all.next(&row));
        EXPECT_FALSE(all.malformed());
    }
}

// A row with more spans than a frame has room for goes in parts; none is lost, whatever they are.
TEST(Messages, SpansThatDoNotFitGoInParts) {
    constexpr uint32_t kSpans = 512;
    for (const size_t frame_bytes : {kFrameBytesMin, kFrameBytesMax}) {
        std::vector<BlockSpan> spans(kSpans), got;
        for (uint32_t i = 0; i < kSpans; ++i)
            spans[i] = {uint64_t{i} * 0x123456789abcdef, i % 3 == 0 ? 0 : uint64_t{1} << (i % 64)};
        uint32_t parts = 0;
        for (uint32_t first = 0; first < kSpans; ++parts) {
            std::byte buffer[kFrameBytesMax];
            FrameWriter writer;
            writer.start(buffer, frame_bytes, {});
            Row row;
            row.form = Row::Form::kSpans;
            row.span_count = kSpans;
            row.span_first = static_cast<uint16_t>(first);
            const uint32_t written =
                writer.add_row(MessageKind::kTell, told_of(1), row, std::span(spans).subspan(first));
            ASSERT_GT(written, 0u);
            first += written;
            FrameReader reader;
            FrameHeader header;
            Message m;
            ASSERT_TRUE(reader.start(writer.finish(), &header));
            ASSERT_EQ(reader.next(&m), FrameReader::Result::kMessage);
            RowReader rows(m.told);
            ASSERT_TRUE(rows.next(&row));
            EXPECT_EQ(row.span_first, got.size());
            SpanReader part(row);
            for (BlockSpan span; part.next(&span);) got.push_back(span);
        }
        EXPECT_GT(parts, 1u);
        ASSERT_EQ(got.size(), kSpans);
        for (uint32_t i = 0; i < kSpans; ++i) {
            EXPECT_EQ(got[i].bytes, spans[i].bytes);
            EXPECT_TRUE(spans[i].bytes == 0 || got[i].offset == spans[i].offset);
        }
    }
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
    m.kind = MessageKind::kAcknowledge;
    size_t added = 0;
    while (writer.add(m)) ++added;
    FrameReader reader;
    FrameHeader header;
    ASSERT_TRUE(reader.start(writer.finish(), &header));
    size_t read = 0;
    while (reader.next(&m) == FrameReader::Result::kMessage) ++read;
    EXPECT_EQ(read, added);
}

std::vector<std::byte> frame_with_a_row(const Row& row, std::span<const BlockSpan> spans) {
    std::vector<std::byte> buffer(kFrameBytesMax);
    FrameWriter writer;
    writer.start(buffer.data(), buffer.size(), {});
    EXPECT_NE(writer.add_row(MessageKind::kTell, told_of(1), row, spans), 0u);
    buffer.resize(writer.finish().size());
    return buffer;
}

// It is an index into counters where it arrives.
TEST(Messages, AnUnknownCollectiveIsMalformed) {
    for (uint32_t collective = 0; collective <= kCollectives; ++collective) {
        Row row;
        row.bytes = 1;
        auto frame = frame_with_a_row(row, {});
        frame[kFrameHeaderBytes + 17] = static_cast<std::byte>(collective);
        FrameReader reader;
        FrameHeader header;
        Message m;
        ASSERT_TRUE(reader.start(frame, &header));
        EXPECT_EQ(reader.next(&m), collective < kCollectives ? FrameReader::Result::kMessage
                                                             : FrameReader::Result::kMalformed);
    }
}

// Whatever byte of a row is another one, nothing is read beyond the message.
TEST(Messages, RowsCutShortAreMalformed) {
    const BlockSpan spans[] = {{1000, 300}, {0, 0}, {1300, 5}};
    Row row;
    row.form = Row::Form::kSpans;
    row.span_count = 3;
    const auto frame = frame_with_a_row(row, spans);
    FrameReader reader;
    FrameHeader header;
    Message m;
    ASSERT_TRUE(reader.start(frame, &header));
    ASSERT_EQ(reader.next(&m), FrameReader::Result::kMessage);
    const auto all = m.told.rows;
    for (size_t n = 0; n < all.size(); ++n) {
        std::vector<std::byte> cut(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n));
        m.told.rows = cut;
        RowReader rows(m.told);
        EXPECT_FALSE(rows.next(&row));
        EXPECT_TRUE(rows.malformed());
    }
    for (size_t n = 0; n < all.size(); ++n)
        for (const int bit : {1, 128}) {
            std::vector<std::byte> other(all.begin(), all.end());
            other[n] ^= static_cast<std::byte>(bit);
            m.told.rows = other;
            RowReader rows(m.told);
            while (rows.next(&row)) {
                SpanReader reader_of_spans(row);
                for (BlockSpan span; reader_of_spans.next(&span);) {
                }
            }
        }
}

TEST(Messages, TruncatedFramesAreMalformedNotRead) {
    Row row;
    row.bytes = 1;
    const auto whole = frame_with_a_row(row, {});
    Message m;
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
