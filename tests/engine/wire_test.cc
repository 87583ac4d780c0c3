// The wire's bytes, written out: service processes of another architecture, or another build of the same wire
// version, read and write these very bytes. What fails here after a change of the format needs a new
// kWireVersion.
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "engine/message.h"

namespace longshore {
namespace {

using Bytes = std::vector<std::byte>;

// "01 ff" and so on; anything else separates.
Bytes bytes_of(const std::string& hex) {
    Bytes out;
    for (size_t i = 0; i + 1 < hex.size();) {
        if (!isxdigit(static_cast<unsigned char>(hex[i]))) {
            ++i;
            continue;
        }
        out.push_back(static_cast<std::byte>(strtoul(hex.substr(i, 2).c_str(), nullptr, 16)));
        i += 2;
    }
    return out;
}

const std::byte kEager[5] = {std::byte{0x80}, std::byte{0xff}, std::byte{0}, std::byte{0x7f}, std::byte{1}};

constexpr OperationId kOperation{GroupId{0x8877665544332211}, 0xfedcba9876543210};
const char* const kOperationHex = " 11 22 33 44 55 66 77 88  10 32 54 76 98 ba dc fe ";

struct WireCase {
    const char* name;
    Message message;
    std::string hex;
    std::vector<Row> rows = {};  // of a message that has some
    std::vector<BlockSpan> spans = {};
};

Message told(MessageKind kind, Collective collective, uint16_t rows) {
    Message m;
    m.kind = kind;
    m.told.operation = kOperation;
    m.told.collective = collective;
    m.told.origin = {NodeId{0xc1c2}, ServiceId{0xd1d2}};
    m.told.row_count = rows;
    return m;
}

Row row(Row::Form form) {
    Row r;
    r.source = Rank{0xa1a2a3a4};
    r.local_index = 0x1ff;
    r.region = RegionId{0xf1f2f3f4};
    r.generation = 0x81828384;
    r.form = form;
    return r;
}

std::vector<WireCase> rows() {
    std::vector<WireCase> all;
    const std::string op = kOperationHex, source = " a4 a3 a2 a1  ff 01 ",
                      region = " f4 f3 f2 f1  84 83 82 81 ";
    const std::string number = " 98 97 96 95 94 93 92 91 ", small = " 08 07 06 05 04 03 02 01 ";
    Row uniform = row(Row::Form::kUniform), one = row(Row::Form::kOne), spans = row(Row::Form::kSpans);
    uniform.offset = 0x9192939495969798;
    uniform.stride = 0x10000;
    uniform.bytes = 0x0102030405060708;
    uniform.along = true;
    one.destination = kToNode | 5;
    one.offset = 0x9192939495969798;
    one.bytes = 0x0102030405060708;
    one.waited = true;
    const std::string uniform_hex = source + "04" + region + number + " 00 00 01 00 00 00 00 00 " + small;
    const std::string one_hex = source + "09" + region + "05 00 00 80" + number + small;
    all.push_back({"tell",
                   told(MessageKind::kTell, Collective::kScatterv, 2),
                   "03" + op + "08  c2 c1 d2 d1  02 00  4a 00" + uniform_hex + one_hex,
                   {uniform, one}});
    all.push_back({"hand on",
                   told(MessageKind::kHandOn, Collective::kAllgatherv, 1),
                   "04" + op + "03  c2 c1 d2 d1  01 00  23 00" + one_hex,
                   {one}});
    // A block of 300 bytes at 1000, none, one of 5 right behind it, one of 1 at 0.
    spans.span_count = spans.spans_here = 4;
    all.push_back({"tell of spans",
                   told(MessageKind::kTell, Collective::kAlltoallv, 1),
                   "03" + op + "01  c2 c1 d2 d1  01 00  21 00" + source + "02" + region +
                       "04 00  00 00  04 00  0a 00  ac 02 d0 0f  00  05 00  01 b1 14",
                   {spans},
                   {{1000, 300}, {0, 0}, {1300, 5}, {0, 1}}});
    return all;
}

std::vector<WireCase> cases() {
    std::vector<WireCase> all = rows();
    const std::string op = kOperationHex;
    all.push_back({"hello", {}, "01"});
    Message m;
    m.kind = MessageKind::kAgain;
    all.push_back({"again", m, "02"});
    m = {};
    m.kind = MessageKind::kSmallBlock;
    m.small = {kOperation, Rank{0xa1a2a3a4}, kToNode | 5, kEager};
    all.push_back({"small block", m, "05" + op + "a4 a3 a2 a1  05 00 00 80  05 00  80 ff 00 7f 01"});
    m = {};
    m.kind = MessageKind::kLend;
    m.lent = {kOperation,        Rank{0xa1a2a3a4},     0xb1b2b3b4, {NodeId{0xc1c2}, ServiceId{0xd1d2}},
              LocalRank{0xe1e2}, RegionId{0xf1f2f3f4}, 0x81828384, 0x9192939495969798,
              0x0102030405060708};
    all.push_back({"lend", m,
                   "06" + op +
                       " a4 a3 a2 a1  b4 b3 b2 b1  c2 c1 d2 d1  e2 e1  f4 f3 f2 f1  84 83 82 81 "
                       " 98 97 96 95 94 93 92 91  08 07 06 05 04 03 02 01 "});

    m = {};
    m.kind = MessageKind::kAcknowledge;
    m.acknowledgement = {kOperation, false, 0x1c0, 0x9192939495969798};
    all.push_back({"acknowledge", m, "07" + op + "00  c0 01  98 97 96 95 94 93 92 91"});
    m.acknowledgement.failed = true;
    all.push_back({"acknowledge, failed", m, "07" + op + "01  c0 01  98 97 96 95 94 93 92 91"});

    m = {};
    m.kind = MessageKind::kWant;
    m.relayed.operation = kOperation;
    m.relayed.source = Rank{0xa1a2a3a4};
    m.relayed.origin = {NodeId{0xc1c2}, ServiceId{15}};
    m.relayed.hops = 0xff;
    m.relayed.ticket = 0x3ff00000001;
    all.push_back({"want", m, "08" + op + "a4 a3 a2 a1  c2 c1 0f 00  ff  01 00 00 00 ff 03 00 00"});
    m = {};
    m.kind = MessageKind::kOffer;
    m.relayed.ticket = 0x9192939495969798;
    m.relayed.slot = 63;
    m.relayed.serial = 0x81828384;
    m.relayed.offset = uint64_t{1} << 40;
    m.relayed.bytes = 0x10000;
    all.push_back({"offer", m,
                   "09  98 97 96 95 94 93 92 91  3f 00 00 00  84 83 82 81"
                   "  00 00 00 00 00 01 00 00  00 00 01 00 00 00 00 00"});
    m.relayed.slot = Relayed::kNoSlot;
    m.relayed.serial = 0;
    all.push_back({"offer of nothing", m,
                   "09  98 97 96 95 94 93 92 91  ff ff ff ff  00 00 00 00"
                   "  00 00 00 00 00 01 00 00  00 00 01 00 00 00 00 00"});
    m = {};
    m.kind = MessageKind::kPass;
    m.relayed.ticket = 0x9192939495969798;
    all.push_back({"pass", m, "0a  98 97 96 95 94 93 92 91"});
    m = {};
    m.kind = MessageKind::kTaken;
    m.relayed.ticket = 0x9192939495969798;
    m.relayed.slot = 63;
    m.relayed.serial = 0x81828384;
    all.push_back({"taken", m, "0b  98 97 96 95 94 93 92 91  3f 00 00 00  84 83 82 81"});
    return all;
}

void expect_same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
    ASSERT_EQ(a.size(), b.size());
    EXPECT_TRUE(a.empty() || memcmp(a.data(), b.data(), a.size()) == 0);
}

// All fields: those that a kind does not carry keep their defaults at both ends.
void expect_same(const Message& a, const Message& b) {
    EXPECT_EQ(a.kind, b.kind);
    EXPECT_EQ(a.told.operation, b.told.operation);
    EXPECT_EQ(a.told.collective, b.told.collective);
    EXPECT_EQ(a.told.origin, b.told.origin);
    EXPECT_EQ(a.told.row_count, b.told.row_count);
    EXPECT_EQ(a.small.operation, b.small.operation);
    EXPECT_EQ(a.small.source, b.small.source);
    EXPECT_EQ(a.small.destination, b.small.destination);
    expect_same_bytes(a.small.bytes, b.small.bytes);
    const RemoteBlock &n = a.lent, &o = b.lent;
    EXPECT_EQ(n.operation, o.operation);
    EXPECT_EQ(n.source, o.source);
    EXPECT_EQ(n.destination, o.destination);
    EXPECT_EQ(n.origin, o.origin);
    EXPECT_EQ(n.owner, o.owner);
    EXPECT_EQ(n.region, o.region);
    EXPECT_EQ(n.region_generation, o.region_generation);
    EXPECT_EQ(n.offset, o.offset);
    EXPECT_EQ(n.bytes, o.bytes);
    EXPECT_EQ(n.along, o.along);
    EXPECT_EQ(a.acknowledgement.operation, b.acknowledgement.operation);
    EXPECT_EQ(a.acknowledgement.failed, b.acknowledgement.failed);
    EXPECT_EQ(a.acknowledgement.first, b.acknowledgement.first);
    EXPECT_EQ(a.acknowledgement.sources, b.acknowledgement.sources);
    const Relayed &r = a.relayed, &s = b.relayed;
    EXPECT_EQ(r.operation, s.operation);
    EXPECT_EQ(r.source, s.source);
    EXPECT_EQ(r.origin, s.origin);
    EXPECT_EQ(r.hops, s.hops);
    EXPECT_EQ(r.ticket, s.ticket);
    EXPECT_EQ(r.slot, s.slot);
    EXPECT_EQ(r.serial, s.serial);
    EXPECT_EQ(r.offset, s.offset);
    EXPECT_EQ(r.bytes, s.bytes);
}

void expect_rows(const Told& got, const WireCase& c) {
    RowReader reader(got);
    for (const Row& expected : c.rows) {
        Row r;
        ASSERT_TRUE(reader.next(&r));
        EXPECT_EQ(r.source, expected.source);
        EXPECT_EQ(r.local_index, expected.local_index);
        EXPECT_EQ(r.region, expected.region);
        EXPECT_EQ(r.generation, expected.generation);
        EXPECT_EQ(r.form, expected.form);
        EXPECT_EQ(r.along, expected.along);
        EXPECT_EQ(r.waited, expected.waited);
        EXPECT_EQ(r.destination, expected.destination);
        EXPECT_EQ(r.offset, expected.offset);
        EXPECT_EQ(r.stride, expected.stride);
        EXPECT_EQ(r.bytes, expected.bytes);
        EXPECT_EQ(r.span_count, expected.span_count);
        EXPECT_EQ(r.span_first, expected.span_first);
        EXPECT_EQ(r.spans_here, expected.spans_here);
        SpanReader spans(r);
        BlockSpan span;
        for (const BlockSpan& at : c.spans) {
            ASSERT_TRUE(spans.next(&span));
            EXPECT_EQ(span.offset, at.offset);
            EXPECT_EQ(span.bytes, at.bytes);
        }
        EXPECT_FALSE(spans.next(&span));
    }
    Row none;
    EXPECT_FALSE(reader.next(&none));
    EXPECT_FALSE(reader.malformed());
}

// Version 6, service 1, length, node 0xa1a2, service process 0xb1b2, incarnation.
Bytes frame_of(const Bytes& messages) {
    Bytes frame = bytes_of("06 01 00 00  a2 a1  b2 b1  c4 c3 c2 c1");
    frame.insert(frame.end(), messages.begin(), messages.end());
    frame[2] = static_cast<std::byte>(frame.size() % 256);
    frame[3] = static_cast<std::byte>(frame.size() / 256);
    return frame;
}
constexpr FrameHeader kHeader{
    .sender = {NodeId{0xa1a2}, ServiceId{0xb1b2}},
    .incarnation = 0xc1c2c3c4,
};

Bytes encode(const std::vector<WireCase>& all) {
    std::byte buffer[kFrameBytesMax];
    FrameWriter writer;
    writer.start(buffer, sizeof buffer, kHeader);
    for (const WireCase& c : all) {
        for (const Row& row : c.rows)
            EXPECT_NE(writer.add_row(c.message.kind, c.message.told, row, c.spans), 0u) << c.name;
        EXPECT_TRUE(!c.rows.empty() || writer.add(c.message)) << c.name;
    }
    const auto frame = writer.finish();
    return {frame.begin(), frame.end()};
}

void expect_decoded(const Bytes& frame, const std::vector<WireCase>& all) {
    FrameReader reader;
    FrameHeader header;
    ASSERT_TRUE(reader.start(frame, &header));
    EXPECT_EQ(header.service, WireService::kOperations);
    EXPECT_EQ(header.sender, kHeader.sender);
    EXPECT_EQ(header.incarnation, kHeader.incarnation);
    for (const WireCase& c : all) {
        SCOPED_TRACE(c.name);
        Message m;
        ASSERT_EQ(reader.next(&m), FrameReader::Result::kMessage);
        expect_same(m, c.message);
        expect_rows(m.told, c);
    }
    Message none;
    EXPECT_EQ(reader.next(&none), FrameReader::Result::kEnd);
}

TEST(Wire, EveryKindHasItsBytes) {
    bool seen[kMessageKinds + 1] = {};
    for (const WireCase& c : cases()) {
        SCOPED_TRACE(c.name);
        seen[static_cast<size_t>(c.message.kind)] = true;
        const Bytes frame = frame_of(bytes_of(c.hex));
        EXPECT_EQ(encode({c}), frame);
        expect_decoded(frame, {c});
    }
    for (size_t kind = 1; kind <= kMessageKinds; ++kind) EXPECT_TRUE(seen[kind]) << kind;
}

TEST(Wire, AFrameIsItsMessagesOneAfterTheOther) {
    Bytes bytes;
    for (const WireCase& c : cases()) {
        const Bytes one = bytes_of(c.hex);
        bytes.insert(bytes.end(), one.begin(), one.end());
    }
    const Bytes frame = frame_of(bytes);
    ASSERT_GT(frame.size(), 256u);  // its length has two bytes
    EXPECT_EQ(encode(cases()), frame);
    expect_decoded(frame, cases());
}

TEST(Wire, AnEmptyFrameIsItsHeader) {
    EXPECT_EQ(encode({}), bytes_of("06 01 0c 00  a2 a1  b2 b1  c4 c3 c2 c1"));
}

// Others' wires: refused before anything of them is read.
TEST(Wire, OtherVersionsAndServicesAreNotRead) {
    for (const char* header : {"05 01 0d 00", "07 01 0d 00", "06 00 0d 00", "06 02 0d 00", "06 01 0c 00"}) {
        Bytes frame = frame_of(bytes_of("01"));
        const Bytes begin = bytes_of(header);
        std::copy(begin.begin(), begin.end(), frame.begin());
        FrameReader reader;
        FrameHeader got;
        EXPECT_FALSE(reader.start(frame, &got)) << header;
    }
}

}  // namespace
}  // namespace longshore
