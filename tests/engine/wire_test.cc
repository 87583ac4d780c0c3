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

Message notify() {
    Message m;
    m.kind = MessageKind::kNotify;
    m.notification = {kOperation,
                      Rank{0xa1a2a3a4},
                      0xb1b2b3b4,
                      {NodeId{0xc1c2}, ServiceId{0xd1d2}},
                      LocalRank{0xe1e2},
                      RegionId{0xf1f2f3f4},
                      0x81828384,
                      0x9192939495969798,
                      0x0102030405060708,
                      true,
                      16,
                      Collective::kAllgatherv,
                      {}};
    return m;
}

struct WireCase {
    const char* name;
    Message message;
    std::string hex;
};

std::vector<WireCase> cases() {
    std::vector<WireCase> all;
    const std::string op = kOperationHex;
    const std::string notified = op +
                                 " a4 a3 a2 a1  b4 b3 b2 b1  c2 c1 d2 d1  e2 e1  f4 f3 f2 f1  84 83 82 81 "
                                 " 98 97 96 95 94 93 92 91  08 07 06 05 04 03 02 01 ";
    all.push_back({"hello", {}, "01"});
    all.push_back({"notify", notify(), "02" + notified + " 64  ff ff"});  // 3 * 28 + 16
    Message m = notify();
    m.notification.destination = kToNode | 5;
    m.notification.bytes = sizeof kEager;
    m.notification.along = false;
    m.notification.hops = 0;
    m.notification.collective = Collective::kAlltoall;
    m.notification.eager = kEager;
    all.push_back({"notify, the block inside", m,
                   "02" + op +
                       " a4 a3 a2 a1  05 00 00 80  c2 c1 d2 d1  e2 e1  f4 f3 f2 f1  84 83 82 81 "
                       " 98 97 96 95 94 93 92 91  05 00 00 00 00 00 00 00  00  05 00  80 ff 00 7f 01"});
    m = notify();
    m.kind = MessageKind::kHandOn;
    m.notification.along = false;
    m.notification.hops = 1;
    m.notification.collective = Collective::kScatterv;
    all.push_back({"hand on", m, "03" + notified + " e1  00 00"});  // 8 * 28 + 1
    m.notification.hops = kLent;
    m.notification.collective = Collective::kBcast;
    all.push_back({"hand on, lent", m, "03" + notified + " 81  00 00"});  // 4 * 28 + 17

    m = {};
    m.kind = MessageKind::kAcknowledge;
    m.acknowledgement = {kOperation, Rank{0xa1a2a3a4}, kToNode | 0x1f2, false};
    all.push_back({"acknowledge", m, "04" + op + "a4 a3 a2 a1  f2 01 00 80  00"});
    m.acknowledgement.failed = true;
    all.push_back({"acknowledge, failed", m, "04" + op + "a4 a3 a2 a1  f2 01 00 80  01"});
    m = {};
    m.kind = MessageKind::kRequest;
    m.request = {kOperation, Rank{0xffffffff}, 0x80};
    all.push_back({"request", m, "05" + op + "ff ff ff ff  80 00 00 00"});

    m = {};
    m.kind = MessageKind::kRegionRequest;
    m.region = {kStaging, RegionId{0}, 0x81828384, {}};
    all.push_back({"region request", m, "06  ff ff  00 00 00 00  84 83 82 81  00 00"});
    m.kind = MessageKind::kRegion;
    m.region = {LocalRank{0x1ff}, RegionId{0x1fff}, 3, kEager};
    all.push_back({"region", m, "07  ff 01  ff 1f 00 00  03 00 00 00  05 00  80 ff 00 7f 01"});
    m.region.descriptor = {};
    all.push_back({"region that is gone", m, "07  ff 01  ff 1f 00 00  03 00 00 00  00 00"});

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
    m.relayed.slot = 63;
    m.relayed.serial = 0x81828384;
    all.push_back({"taken", m, "0b  3f 00 00 00  84 83 82 81"});
    return all;
}

void expect_same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
    ASSERT_EQ(a.size(), b.size());
    EXPECT_TRUE(a.empty() || memcmp(a.data(), b.data(), a.size()) == 0);
}

// All fields: those that a kind does not carry keep their defaults at both ends.
void expect_same(const Message& a, const Message& b) {
    EXPECT_EQ(a.kind, b.kind);
    const Notification &n = a.notification, &o = b.notification;
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
    EXPECT_EQ(n.hops, o.hops);
    EXPECT_EQ(n.collective, o.collective);
    expect_same_bytes(n.eager, o.eager);
    EXPECT_EQ(a.acknowledgement.operation, b.acknowledgement.operation);
    EXPECT_EQ(a.acknowledgement.source, b.acknowledgement.source);
    EXPECT_EQ(a.acknowledgement.destination, b.acknowledgement.destination);
    EXPECT_EQ(a.acknowledgement.failed, b.acknowledgement.failed);
    EXPECT_EQ(a.request.operation, b.request.operation);
    EXPECT_EQ(a.request.source, b.request.source);
    EXPECT_EQ(a.request.destination, b.request.destination);
    EXPECT_EQ(a.region.owner, b.region.owner);
    EXPECT_EQ(a.region.region, b.region.region);
    EXPECT_EQ(a.region.generation, b.region.generation);
    expect_same_bytes(a.region.descriptor, b.region.descriptor);
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

// Version 4, service 1, length, node 0xa1a2, service process 0xb1b2, incarnation.
Bytes frame_of(const Bytes& messages) {
    Bytes frame = bytes_of("04 01 00 00  a2 a1  b2 b1  c4 c3 c2 c1");
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
    for (const WireCase& c : all) EXPECT_TRUE(writer.add(c.message)) << c.name;
    const auto frame = writer.finish();
    return {frame.begin(), frame.end()};
}

void expect_decoded(const Bytes& frame, const std::vector<WireCase>& all) {
    FrameReader reader;
    FrameHeader header;
    ASSERT_TRUE(reader.start(frame, &header));
    EXPECT_EQ(header.version, 4);
    EXPECT_EQ(header.service, 1);
    EXPECT_EQ(header.length, frame.size());
    EXPECT_EQ(header.sender, kHeader.sender);
    EXPECT_EQ(header.incarnation, kHeader.incarnation);
    for (const WireCase& c : all) {
        SCOPED_TRACE(c.name);
        Message m;
        ASSERT_EQ(reader.next(&m), FrameReader::Result::kMessage);
        expect_same(m, c.message);
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
    EXPECT_EQ(encode({}), bytes_of("04 01 0c 00  a2 a1  b2 b1  c4 c3 c2 c1"));
}

// Others' wires: refused before anything of them is read.
TEST(Wire, OtherVersionsAndServicesAreNotRead) {
    for (const char* header : {"03 01 0d 00", "05 01 0d 00", "04 00 0d 00", "04 02 0d 00", "04 01 0c 00"}) {
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
