// What stands between names and descriptors (fabric/described_fabric.h): what it says to whom, and what
// becomes of reads when frames are lost, peers start anew or go, and the fabric behind it has no room.
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "../fuzz/played_fabric.h"
#include "engine/message.h"

namespace longshore::test {
namespace {

constexpr ServiceAddress kSelf{NodeId{0}, ServiceId{0}}, kOwner{NodeId{1}, ServiceId{0}},
    kSibling{NodeId{0}, ServiceId{1}}, kThird{NodeId{2}, ServiceId{1}};
constexpr MemoryRef kTo{LocalRank{0}, RegionId{1}, 0};
constexpr std::byte kDescriptor[4] = {};

RegionName region(uint32_t number) {
    return {LocalRank{1}, RegionId{number}, 1};
}

class Described : public testing::Test {
  protected:
    static constexpr uint32_t kRegionsMax = 2;
    Described() {
        DescribedOptions options;
        options.memory = node.memory;
        options.self = kSelf;
        options.incarnation = 5;
        options.regions_max = kRegionsMax;
        fabric.emplace(options, inner);
    }
    Post read(const RegionName& name, uint64_t id, ServiceAddress owner = kOwner) {
        return fabric->read(owner, name, 0, kTo, 8, id);
    }
    // What one poll gives; reads that have ended by their ids.
    std::vector<FabricEvent> poll(uint64_t wait_ns = 0) {
        FabricEvent events[32];
        const size_t count = fabric->poll(events, wait_ns);
        for (size_t i = 0; i < count; ++i)
            if (events[i].kind == FabricEvent::Kind::kMoved) ended[events[i].id].push_back(events[i].result);
        return {events, events + count};
    }
    void hear(ServiceAddress from, const std::vector<RegionNotice>& notices, uint32_t incarnation = 1) {
        std::byte buffer[kFrameBytesMax];
        RegionFrameWriter writer(buffer, from, incarnation);
        for (const RegionNotice& notice : notices) ASSERT_TRUE(writer.add(notice));
        inner.deliver(from, writer.finish());
    }
    void describe(const RegionName& name, ServiceAddress from = kOwner) {
        hear(from, {{RegionNoticeKind::kDescribe, name, kDescriptor}});
    }
    // All that has been said to it, frame by frame.
    std::vector<std::vector<RegionNotice>> said_to(ServiceAddress to) {
        std::vector<std::vector<RegionNotice>> all;
        for (; !inner.frames.empty(); inner.frames.pop_front()) {
            said.push_back(std::move(inner.frames.front().bytes));
            RegionFrameReader reader;
            FrameHeader header;
            if (inner.frames.front().to != to || !reader.start(said.back(), &header)) continue;
            EXPECT_EQ(header.sender, kSelf);
            EXPECT_EQ(header.incarnation, 5u);
            all.emplace_back();
            for (RegionNotice n; reader.next(&n) == RegionFrameReader::Result::kNotice;)
                all.back().push_back(n);
        }
        return all;
    }
    void make_known(const RegionName& name, uint64_t id) {
        ASSERT_EQ(read(name, id), Post::kAccepted);
        poll();
        describe(name);
        poll();
        inner.end_import(true);
        poll();
        inner.end_read(MoveResult::kMoved);
        poll();
        ASSERT_EQ(ended[id], std::vector{MoveResult::kMoved});
        ended.clear();
        inner.frames.clear();
    }
    PlayedNode node{kSelf.node};
    PlayedFabric inner;
    std::optional<DescribedFabric> fabric;
    std::map<uint64_t, std::vector<MoveResult>> ended;
    std::deque<std::vector<std::byte>> said;
};

TEST_F(Described, WhatIsAskedForTogetherGoesInOneFrame) {
    for (uint64_t id = 0; id < 6; ++id)
        ASSERT_EQ(read(region(static_cast<uint32_t>(id % 2)), id), Post::kAccepted);
    EXPECT_TRUE(inner.frames.empty());
    poll();
    const auto frames = said_to(kOwner);
    ASSERT_EQ(frames.size(), 1u);
    ASSERT_EQ(frames[0].size(), 2u);
    for (uint32_t i = 0; i < 2; ++i) {
        EXPECT_EQ(frames[0][i].kind, RegionNoticeKind::kAsk);
        EXPECT_EQ(frames[0][i].name, region(i));
    }
    EXPECT_EQ(inner.reads.size(), 0u);
    hear(kOwner, {{RegionNoticeKind::kDescribe, region(0), kDescriptor},
                  {RegionNoticeKind::kDescribe, region(1), {}}});
    EXPECT_EQ(poll().size(), 3u) << "of the one that is gone";
    inner.end_import(true);
    poll();
    EXPECT_EQ(inner.reads.size(), 3u);
    while (!inner.reads.empty()) inner.end_read(MoveResult::kMoved);
    poll();
    for (uint64_t id = 0; id < 6; ++id)
        EXPECT_EQ(ended[id], std::vector{id % 2 == 0 ? MoveResult::kMoved : MoveResult::kFailed}) << id;
    EXPECT_EQ(fabric->regions().reads, 0u);
}

TEST_F(Described, WhatIsAskedForGoesBeforeTheNextFrameToItsOwner) {
    ASSERT_EQ(read(region(1), 1), Post::kAccepted);
    const auto other = std::as_bytes(std::span("frame"));
    EXPECT_EQ(fabric->send(kThird, other), Post::kAccepted);
    EXPECT_EQ(inner.frames.size(), 1u) << "that alone";
    EXPECT_EQ(fabric->send(kOwner, other), Post::kAccepted);
    EXPECT_EQ(inner.frames.size(), 3u);
    EXPECT_EQ(said_to(kOwner).size(), 1u);
    poll();
    EXPECT_EQ(inner.frames.size(), 0u) << "nor again";
}

TEST_F(Described, WhatOthersAskIsAnsweredFromThisNodesMemory) {
    const RegionName own_staging{kStaging, RegionId{0}, 5};
    const std::vector<RegionName> names = {
        {LocalRank{0}, RegionId{1}, 1}, {LocalRank{1}, RegionId{1}, 1}, own_staging,
        {LocalRank{1}, RegionId{1}, 3}, {LocalRank{2}, RegionId{1}, 1}, {LocalRank{1}, RegionId{3}, 1},
        {kStaging, RegionId{0}, 4},     {kStaging, RegionId{1}, 5},     {LocalRank{1}, RegionId{2}, 1}};
    const size_t bytes[] = {8, 9, 24, 0, 0, 0, 0, 0, 0};
    std::vector<RegionNotice> asks;
    for (const RegionName& name : names) asks.push_back({RegionNoticeKind::kAsk, name, {}});
    hear(kThird, asks);
    EXPECT_TRUE(poll().empty());
    const auto frames = said_to(kThird);
    ASSERT_EQ(frames.size(), 1u);
    ASSERT_EQ(frames[0].size(), names.size());
    for (size_t i = 0; i < names.size(); ++i) {
        EXPECT_EQ(frames[0][i].kind, RegionNoticeKind::kDescribe);
        EXPECT_EQ(frames[0][i].name, names[i]);
        EXPECT_EQ(frames[0][i].descriptor.size(), bytes[i]) << i;
    }
    EXPECT_EQ(frames[0][1].descriptor[0], std::byte{0x41});
    RegionEntry& entry = node.memory.region(LocalRank{0}, RegionId{1});
    entry.descriptor_bytes = kDescriptorBytesMax + 1;
    hear(kThird, {asks[0]});
    poll();
    EXPECT_TRUE(said_to(kThird)[0][0].descriptor.empty()) << "a rank's word is not trusted";
}

TEST_F(Described, WithoutAnAnswerItAsksAgain) {
    ASSERT_EQ(read(region(1), 1), Post::kAccepted);
    poll();
    EXPECT_EQ(said_to(kOwner).size(), 1u);
    for (uint32_t i = 0; i < RegionDirectory::kAskAgainTicks; ++i) fabric->on_tick();
    EXPECT_EQ(said_to(kOwner).size(), 1u);
    describe(region(1));
    describe(region(1));
    EXPECT_TRUE(poll().empty());
    EXPECT_EQ(inner.imports.size(), 1u);
}

// By whatever frame says so first: one of the collectives goes on to whoever polls.
TEST_F(Described, AnOwnerThatStartsAnewIsAskedAgainAtOnce) {
    make_known(region(1), 1);
    ASSERT_EQ(read(region(2), 2), Post::kAccepted);
    poll();
    EXPECT_EQ(said_to(kOwner).size(), 1u);
    std::byte buffer[kFrameBytesMax];
    FrameWriter writer;
    writer.start(buffer, sizeof buffer, {.sender = kOwner, .incarnation = 2});
    ASSERT_TRUE(writer.add({}));
    inner.deliver(kOwner, writer.finish());
    EXPECT_EQ(poll().size(), 1u);
    const auto frames = said_to(kOwner);
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_EQ(frames[0][0].name, region(2));
    EXPECT_TRUE(inner.imported.empty()) << "what its former self has described";
    describe(region(2));  // incarnation 1
    poll();
    EXPECT_TRUE(inner.imports.empty()) << "its former self";
    EXPECT_EQ(fabric->talk().stale, 1u);
    hear(kOwner, {{RegionNoticeKind::kDescribe, region(2), kDescriptor}}, 2);
    poll();
    EXPECT_EQ(inner.imports.size(), 1u);
}

TEST_F(Described, ReadsOfAPeerThatIsLostEndAfterThatIsSaid) {
    ASSERT_EQ(read(region(1), 1), Post::kAccepted);
    ASSERT_EQ(read({kStaging, RegionId{1}, 1}, 2, kThird), Post::kAccepted);
    inner.lose(kOwner);
    const auto events = poll();
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[0].kind, FabricEvent::Kind::kPeerLost);
    EXPECT_EQ(events[1].id, 1u);
    EXPECT_EQ(events[1].result, MoveResult::kFailed);
    ASSERT_EQ(read(region(2), 3), Post::kAccepted);
    EXPECT_EQ(poll().size(), 1u);
    EXPECT_EQ(ended[3], std::vector{MoveResult::kFailed});
    EXPECT_EQ(said_to(kOwner).size(), 1u) << "what was asked before";
}

TEST_F(Described, WhatWasToBeSaidToALostPeerIsNotTriedAnyMore) {
    inner.full = true;
    ASSERT_EQ(read(region(1), 1), Post::kAccepted);
    poll();
    EXPECT_TRUE(fabric->busy());
    inner.lose(kOwner);
    poll();
    EXPECT_FALSE(fabric->busy());
}

TEST_F(Described, WithoutRoomBehindItNothingIsLost) {
    inner.full = true;
    ASSERT_EQ(read(region(1), 1), Post::kAccepted);
    hear(kThird, {{RegionNoticeKind::kAsk, {LocalRank{0}, RegionId{1}, 1}, {}}});
    poll(1'000'000'000);
    EXPECT_TRUE(fabric->busy());
    EXPECT_LE(inner.waited_ns, 1'000'000u) << "there is something to be tried again";
    inner.full = false;
    poll();
    EXPECT_FALSE(fabric->busy());
    EXPECT_EQ(inner.frames.size(), 2u);
    inner.full = true;
    describe(region(1));
    poll();
    EXPECT_EQ(inner.imports.size(), 0u);
    inner.full = false;
    poll();
    ASSERT_EQ(inner.imports.size(), 1u);
    inner.full = true;
    inner.end_import(true);
    poll();
    EXPECT_EQ(inner.reads.size(), 0u);
    EXPECT_EQ(read(region(1), 2), Post::kAgain) << "it is known, and changes nothing";
    inner.full = false;
    poll();
    ASSERT_EQ(inner.reads.size(), 1u);
    inner.end_read(MoveResult::kMoved);
    poll();
    EXPECT_EQ(ended.size(), 1u);
    EXPECT_EQ(fabric->regions().reads, 0u);
}

TEST_F(Described, WithoutRoomForAnotherRegionAReadIsTriedAgain) {
    make_known(region(0), 7);
    ASSERT_EQ(read(region(1), 1), Post::kAccepted);
    ASSERT_EQ(read(region(2), 2), Post::kAccepted);
    poll();
    EXPECT_TRUE(inner.imported.empty()) << "the one that nobody reads has made room";
    EXPECT_EQ(read(region(0), 3), Post::kAgain);
    hear(kOwner, {{RegionNoticeKind::kDescribe, region(1), {}}});
    poll();
    EXPECT_EQ(read(region(0), 3), Post::kAccepted);
}

TEST_F(Described, FramesOfOtherServicesGoToWhoeverPolls) {
    std::byte buffer[kFrameBytesMax];
    RegionFrameWriter writer(buffer, kOwner, 1);
    ASSERT_TRUE(writer.add({RegionNoticeKind::kAsk, region(1), {}}));
    const auto frame = writer.finish();
    for (const uint8_t service : {0, 1, 3, 255}) {
        std::vector<std::byte> other(frame.begin(), frame.end());
        other[1] = std::byte{service};
        inner.deliver(kOwner, other);
        EXPECT_EQ(poll().size(), 1u) << int{service};
    }
    EXPECT_EQ(fabric->counters().refused, 0u);
    EXPECT_TRUE(inner.frames.empty());
}

TEST_F(Described, WhatIsNotAsItShouldBeIsRefusedAndCounted) {
    uint64_t refused = 0;
    const auto expect_refused = [&](ServiceAddress from, std::span<const std::byte> frame) {
        inner.deliver(from, frame);
        EXPECT_TRUE(poll().empty());
        EXPECT_EQ(fabric->counters().refused, ++refused);
        EXPECT_TRUE(inner.frames.empty());
    };
    std::byte buffer[kFrameBytesMax];
    const auto ask = [&](ServiceAddress from) {
        RegionFrameWriter writer(buffer, from, 1);
        EXPECT_TRUE(writer.add({RegionNoticeKind::kAsk, region(1), {}}));
        return writer.finish();
    };
    expect_refused(kThird, ask(kOwner));      // who says to be another
    expect_refused(kSibling, ask(kSibling));  // of this node
    const auto frame = ask(kOwner);
    std::vector<std::byte> cut(frame.begin(), frame.end() - 1);
    cut[2] = static_cast<std::byte>(cut.size());
    expect_refused(kOwner, cut);
    cut[kFrameHeaderBytes] = std::byte{9};
    expect_refused(kOwner, cut);
}

TEST_F(Described, AnswersThatCannotBeSentAreBounded) {
    inner.full = true;
    std::vector<RegionNotice> asks(200, {RegionNoticeKind::kAsk, {LocalRank{0}, RegionId{1}, 1}, {}});
    for (int i = 0; i < 50; ++i) {
        hear(kThird, asks);
        poll();
    }
    inner.full = false;
    poll();
    size_t answers = 0;
    for (const auto& frame : said_to(kThird)) answers += frame.size();
    EXPECT_EQ(answers, RegionTalk::kAnswersMax);
    EXPECT_FALSE(fabric->busy());
}

}  // namespace
}  // namespace longshore::test
