// The wire's bytes of regions, written out, as tests/engine/wire_test.cc has them of the collectives: what
// fails here after a change of the format needs a new kWireVersion.
#include "fabric/region_frame.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "engine/message.h"

namespace longshore {
namespace {

using Bytes = std::vector<uint8_t>;
using Result = RegionFrameReader::Result;
constexpr ServiceAddress kSender{NodeId{0xa1a2}, ServiceId{0xb1b2}};
constexpr std::byte kFiveBytes[5] = {std::byte{0x80}, std::byte{0xff}, std::byte{0}, std::byte{0x7f},
                                     std::byte{1}};

// Version 6, service 2, length, node 0xa1a2, service process 0xb1b2, incarnation.
Bytes frame_of(const Bytes& entries) {
    Bytes frame = {6, 2, 0, 0, 0xa2, 0xa1, 0xb2, 0xb1, 0xc4, 0xc3, 0xc2, 0xc1};
    frame.insert(frame.end(), entries.begin(), entries.end());
    frame[2] = static_cast<uint8_t>(frame.size());
    frame[3] = static_cast<uint8_t>(frame.size() >> 8);
    return frame;
}

struct WireCase {
    const char* name;
    RegionNotice message;
    Bytes bytes;
};

std::vector<WireCase> cases() {
    const RegionName staging{kStaging, RegionId{0}, 0x81828384},
        user{LocalRank{0x1fe}, RegionId{0xf1f2f3f4}, 3};
    return {
        {"ask", {RegionNoticeKind::kAsk, staging, {}}, {1, 0xff, 0xff, 0, 0, 0, 0, 0x84, 0x83, 0x82, 0x81}},
        {"describe",
         {RegionNoticeKind::kDescribe, user, kFiveBytes},
         {2, 0xfe, 1, 0xf4, 0xf3, 0xf2, 0xf1, 3, 0, 0, 0, 5, 0, 0x80, 0xff, 0, 0x7f, 1}},
        {"one that is gone",
         {RegionNoticeKind::kDescribe, user, {}},
         {2, 0xfe, 1, 0xf4, 0xf3, 0xf2, 0xf1, 3, 0, 0, 0, 0, 0}}};
}

std::span<const std::byte> as_bytes(const Bytes& bytes) {
    return std::as_bytes(std::span(bytes));
}

void expect_next(RegionFrameReader& reader, const RegionNotice& expected) {
    RegionNotice m;
    ASSERT_EQ(reader.next(&m), Result::kNotice);
    EXPECT_EQ(m.kind, expected.kind);
    EXPECT_EQ(m.name, expected.name);
    ASSERT_EQ(m.descriptor.size(), expected.descriptor.size());
    EXPECT_TRUE(m.descriptor.empty() ||
                memcmp(m.descriptor.data(), expected.descriptor.data(), m.descriptor.size()) == 0);
}

TEST(RegionWire, EveryKindHasItsBytes) {
    Bytes all;
    for (const WireCase& c : cases()) {
        SCOPED_TRACE(c.name);
        all.insert(all.end(), c.bytes.begin(), c.bytes.end());
        std::byte buffer[kFrameBytesMax];
        RegionFrameWriter writer(buffer, kSender, 0xc1c2c3c4);
        ASSERT_TRUE(writer.add(c.message));
        const auto written = writer.finish();
        const Bytes frame = frame_of(c.bytes);
        ASSERT_EQ(written.size(), frame.size());
        EXPECT_EQ(memcmp(written.data(), frame.data(), frame.size()), 0);
    }
    const Bytes frame = frame_of(all);
    RegionFrameReader reader;
    FrameHeader header;
    ASSERT_TRUE(reader.start(as_bytes(frame), &header));
    EXPECT_EQ(header.sender, kSender);
    EXPECT_EQ(header.incarnation, 0xc1c2c3c4);
    for (const WireCase& c : cases()) expect_next(reader, c.message);
    RegionNotice none;
    EXPECT_EQ(reader.next(&none), Result::kEnd);
}

// Cut anywhere, the last message is malformed, and nothing behind the frame is looked at.
TEST(RegionWire, AFrameThatIsCutIsMalformed) {
    for (const WireCase& c : cases())
        for (size_t bytes = 1; bytes < c.bytes.size(); ++bytes) {
            const Bytes frame = frame_of({c.bytes.begin(), c.bytes.begin() + static_cast<ptrdiff_t>(bytes)});
            RegionFrameReader reader;
            FrameHeader header;
            ASSERT_TRUE(reader.start(as_bytes(frame), &header));
            RegionNotice m;
            EXPECT_EQ(reader.next(&m), Result::kMalformed) << c.name << " " << bytes;
        }
}

TEST(RegionWire, NoDescriptorIsLongerThanARegionHasRoomFor) {
    for (const uint32_t bytes : {kDescriptorBytesMax, kDescriptorBytesMax + 1}) {
        Bytes entry = cases()[2].bytes;
        entry[11] = static_cast<uint8_t>(bytes);
        entry[12] = static_cast<uint8_t>(bytes >> 8);
        entry.resize(entry.size() + bytes);
        const Bytes frame = frame_of(entry);
        RegionFrameReader reader;
        FrameHeader header;
        ASSERT_TRUE(reader.start(as_bytes(frame), &header));
        RegionNotice m;
        EXPECT_EQ(reader.next(&m), bytes > kDescriptorBytesMax ? Result::kMalformed : Result::kNotice);
    }
}

TEST(RegionWire, OtherKindsAreMalformed) {
    for (const uint8_t kind : {0, 3, 255}) {
        Bytes entry = cases()[0].bytes;
        entry[0] = kind;
        const Bytes frame = frame_of(entry);
        RegionFrameReader reader;
        FrameHeader header;
        ASSERT_TRUE(reader.start(as_bytes(frame), &header));
        RegionNotice m;
        EXPECT_EQ(reader.next(&m), Result::kMalformed) << int{kind};
    }
}

TEST(RegionWire, OtherVersionsServicesAndLengthsAreNotRead) {
    const std::pair<size_t, uint8_t> others[] = {{0, 5}, {0, 7}, {1, 0}, {1, 1}, {1, 3}, {2, 0xff}};
    for (const auto& [at, value] : others) {
        Bytes frame = frame_of(cases()[0].bytes);
        frame[at] = value;
        RegionFrameReader reader;
        FrameHeader header;
        EXPECT_FALSE(reader.start(as_bytes(frame), &header)) << at << " " << int{value};
    }
    for (size_t bytes = 0; bytes < kFrameHeaderBytes; ++bytes) {
        RegionFrameReader reader;
        FrameHeader header;
        EXPECT_FALSE(reader.start(as_bytes(frame_of({})).first(bytes), &header)) << bytes;
    }
}

// A frame is taken by the reader of its service alone; the table knows it by its name.
TEST(RegionWire, EachServiceHasItsReader) {
    const Bytes regions = frame_of(cases()[0].bytes);
    FrameHeader header;
    std::span<const std::byte> rest;
    const WireServiceRow* const row = read_header(as_bytes(regions), &header, &rest);
    ASSERT_NE(row, nullptr);
    EXPECT_STREQ(row->name, "regions");
    EXPECT_EQ(header.service, WireService::kRegions);
    FrameReader collectives;
    EXPECT_FALSE(collectives.start(as_bytes(regions), &header));
    Bytes unknown = regions;
    unknown[1] = 3;
    EXPECT_EQ(read_header(as_bytes(unknown), &header, &rest), nullptr);
}

TEST(RegionWire, AFullFrameTakesNoMore) {
    std::byte buffer[kFrameHeaderBytes + 2 * 11 + 1];
    RegionFrameWriter writer(buffer, kSender, 1);
    const RegionNotice ask = cases()[0].message;
    EXPECT_TRUE(writer.add(ask));
    EXPECT_TRUE(writer.add(ask));
    EXPECT_FALSE(writer.add(ask));
    EXPECT_EQ(writer.finish().size(), kFrameHeaderBytes + 22);
}

}  // namespace
}  // namespace longshore
