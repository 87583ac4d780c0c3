// A node's memory as an outsider reads it: what a rank has posted, and that no contents whatever make the
// reader leave the memory.
#include "tools/status/node_view.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "engine/rank_engine.h"
#include "fabric/shm/control.h"
#include "tools/status/job_view.h"

namespace longshore::tools {
namespace {

constexpr uint64_t kPage = 4096;
constexpr GroupId kGroup{uint64_t{1} << 40 | 5};

// One node of a job of two, in memory that ends at an inaccessible page.
struct Node {
    explicit Node(uint16_t node) {
        limits.ranks_max = 3;
        limits.services_max = 2;
        limits.groups_max = 4;
        limits.records_max = 64;
        limits.regions_max = 4;
        limits.claims_bytes = 1 << 16;
        limits.arena_bytes = 1 << 16;
        limits.groups_bytes = 1 << 16;
        bytes = (NodeLayout::of(limits).total_bytes + kPage - 1) / kPage * kPage;
        span = Mapping::anonymous(bytes + kPage);
        mprotect(span.data() + bytes, kPage, PROT_NONE);
        sight = Mapping::anonymous(SightLayout::kTraceAt);
        memory = NodeMemory::create(span.data(), limits, NodeId{node}, 2, 3, 2);
        std::vector<Member> members;
        for (uint16_t r = 0; r < 6; ++r)
            members.push_back({NodeId(static_cast<uint16_t>(r / 3)), ServiceId{0},
                               LocalRank(static_cast<uint16_t>(r % 3)), static_cast<uint16_t>(r % 3)});
        memory.create_group(GroupSlot{1}, kGroup, members.data(), 6, memory.group_data_begin());
        SightJob& job = SightLayout::job(sight.data());
        job.job.store(77);
        job.size.store(6);
        job.wait_report_s.store(30);
        for (uint16_t r = 0; r < 3; ++r) {
            memory.rank(LocalRank{r}).pid.store(1000u + node * 3u + r);
            SightLayout::rank(sight.data(), LocalRank{r}).rank.store(node * 3u + r + 1);
            blocks.push_back(Mapping::anonymous(RankEngine::bytes_needed(limits)));
            ranks.push_back(std::make_unique<RankEngine>(blocks.back().data(), memory, LocalRank{r}));
        }
    }
    RecordId post(uint16_t local, uint64_t sequence, Collective collective = Collective::kAlltoall) {
        OperationArguments a;
        a.group = GroupSlot{1};
        a.rank = Rank{memory.node().value * 3u + local};
        a.sequence = sequence;
        a.collective = collective;
        a.send = a.recv = {LocalRank{local}, kArenaRegion, 0};
        a.send_block_bytes = a.recv_block_bytes = 100;
        RecordId id;
        WakeSet wake;
        EXPECT_EQ(ranks[local]->post(a, true, &id, &wake), PostResult::kPosted);
        return id;
    }
    void waits_since(uint16_t local, RecordId id, uint64_t started_ns) {
        SightWait& wait = SightLayout::rank(sight.data(), LocalRank{local}).waits[id.value];
        wait.started_ns.store(started_ns);
        wait.generation.store(memory.record(LocalRank{local}, id).generation.load());
    }
    std::unique_ptr<NodeView> view() { return NodeView::look_at(span.data(), bytes, sight.data()); }

    NodeLimits limits;
    uint64_t bytes = 0;
    Mapping span, sight;
    NodeMemory memory;
    std::vector<Mapping> blocks;
    std::vector<std::unique_ptr<RankEngine>> ranks;
};

TEST(NodeView, NamesWhoHasNotEntered) {
    Node first(0), second(1);
    const RecordId id = first.post(0, 1);
    first.post(2, 1);
    second.post(1, 1);
    const uint64_t since = now_ns() - 40'000'000'000;
    first.waits_since(0, id, since);
    const auto a = first.view(), b = second.view();
    ASSERT_TRUE(a && b);
    const JobState job = join_nodes({a.get(), b.get()}, {11, 12}, 0);
    const uint64_t passed = now_ns() - since;
    EXPECT_EQ(job.size, 6u);
    ASSERT_EQ(job.operations.size(), 1u);
    const OperationState& op = job.operations[0];
    EXPECT_EQ(op.group, kGroup.value);
    EXPECT_EQ(op.sequence, 1u);
    EXPECT_EQ(op.collective, Collective::kAlltoall);
    ASSERT_TRUE(op.open_s);
    EXPECT_GE(*op.open_s, 40);
    EXPECT_LE(*op.open_s, static_cast<double>(passed) / 1e9);
    EXPECT_TRUE(op.late);
    std::vector<uint32_t> missing, entered;
    for (const Worker& one : op.missing) missing.push_back(one.rank.value());
    for (const Worker& one : op.entered) entered.push_back(one.rank.value());
    EXPECT_EQ(missing, (std::vector<uint32_t>{1, 3, 5}));
    EXPECT_EQ(entered, (std::vector<uint32_t>{0, 2, 4}));
    EXPECT_EQ(op.missing[1].pid, 1003u);
    EXPECT_EQ(job.nodes[0].ranks[0].open, 1u);
    EXPECT_EQ(job.nodes[1].ranks[0].open, 0u);
}

TEST(NodeView, WithoutATimeUntilTheRankHasWaited) {
    Node node(0);
    const RecordId id = node.post(0, 1);
    const auto view = node.view();
    ASSERT_EQ(view->open_records().size(), 1u);
    EXPECT_FALSE(view->open_records()[0].started_ns);
    node.waits_since(0, id, 5);
    EXPECT_EQ(view->open_records()[0].started_ns, 5u);
    // The time of the record's former use says nothing about this one.
    SightLayout::rank(node.sight.data(), LocalRank{0}).waits[id.value].generation.store(999);
    EXPECT_FALSE(view->open_records()[0].started_ns);
}

TEST(NodeView, NamesWhoHoldsAClaim) {
    Node node(0);
    const RecordId id = node.post(0, 1);
    node.post(1, 1);
    OperationRecord& record = node.memory.record(LocalRank{0}, id);
    Atomic<ChunkWord>* words = node.memory.at<Atomic<ChunkWord>>(record.claims_offset.load());
    ASSERT_TRUE(claim_chunk(words[1], record.generation.load(), service_worker(ServiceId{1}, 1)));
    ASSERT_TRUE(claim_chunk(words[2], record.generation.load(), rank_worker(LocalRank{1})));
    const auto view = node.view();
    const JobState job = join_nodes({view.get()}, {11}, 0);
    ASSERT_EQ(job.operations.size(), 1u);
    const auto& holders = job.operations[0].holders;
    ASSERT_EQ(holders.size(), 2u);
    EXPECT_TRUE(holders[0].is_service);
    EXPECT_EQ(holders[0].index, 1u);
    EXPECT_FALSE(holders[1].is_service);
    EXPECT_EQ(holders[1].rank, 1u);
}

TEST(NodeView, RefusesWhatIsNoNodesMemory) {
    Node node(0);
    EXPECT_FALSE(NodeView::look_at(node.span.data(), sizeof(NodeHeader) - 1, node.sight.data()));
    EXPECT_FALSE(NodeView::look_at(node.span.data(), node.bytes / 2, node.sight.data()));
    node.memory.header().magic ^= 1;
    EXPECT_FALSE(node.view());
}

// Everything that status asks for.
size_t look_at_all(const NodeView& view) {
    const JobState job = join_nodes({&view}, {11}, 0);
    size_t found = job.operations.size();
    for (uint64_t sequence = 0; sequence < 3; ++sequence)
        found += view.members(kGroup.value, sequence).size();
    return found;
}

TEST(NodeView, StaysWithinBoundsWhateverIsThere) {
    size_t readable = 0, found = 0;
    for (uint64_t seed = 1; seed <= 3000; ++seed) {
        Prng random(seed);
        static Node node(0);
        static const RecordId ids[2] = {node.post(0, 1), node.post(1, 1, Collective::kAllgather)};
        static const std::vector<std::byte> before(node.span.data(), node.span.data() + node.bytes);
        memcpy(node.span.data(), before.data(), before.size());
        const NodeLayout layout = NodeLayout::of(node.limits);
        const uint64_t record = layout.rank_areas + layout.records + ids[0].value * sizeof(OperationRecord);
        const struct {
            uint64_t at, bytes;
        } places[] = {{0, sizeof(NodeHeader)},
                      {layout.services, 2 * sizeof(ServiceSlot)},
                      {layout.ranks, 3 * sizeof(RankSlot)},
                      {layout.groups, 4 * sizeof(GroupEntry)},
                      {layout.group_data, 1024},
                      {record, sizeof(OperationRecord)},
                      {layout.rank_areas + layout.claims, 1024}};
        for (uint64_t changes = random.between(1, 6); changes > 0; --changes) {
            const auto& place = places[random.below(std::size(places))];
            const uint64_t values[] = {0, 1, UINT64_MAX, uint64_t{1} << 31, node.bytes - 8, random.next()};
            const uint64_t value = values[random.below(std::size(values))];
            memcpy(node.span.data() + place.at + random.below(place.bytes / 4) * 4, &value,
                   random.chance(500) ? 4 : 8);
        }
        const auto view = node.view();
        if (!view) continue;
        ++readable;
        found += look_at_all(*view);
    }
    // Not all changes hit the header, nor all the operations.
    EXPECT_GT(readable, 500u);
    EXPECT_GT(found, 500u);
}

TEST(NodeView, StaysWithinBoundsWhileItChanges) {
    Node node(0);
    node.post(0, 1);
    node.post(1, 1);
    const NodeLayout layout = NodeLayout::of(node.limits);
    const auto view = node.view();
    ASSERT_TRUE(view);
    std::atomic<bool> stop{false};
    std::thread scribbler([&] {
        Prng random(1);
        const uint64_t first = layout.ranks / 8, last = layout.rank_areas / 8;
        while (!stop.load(std::memory_order_relaxed)) {
            uint64_t* word = reinterpret_cast<uint64_t*>(node.span.data()) + random.between(first, last - 1);
            const uint64_t was = load_relaxed(word);
            store_relaxed(word, random.next() >> random.below(64));
            store_relaxed(word, was);
        }
    });
    for (int i = 0; i < 2000; ++i) look_at_all(*view);
    stop.store(true);
    scribbler.join();
    EXPECT_EQ(look_at_all(*view), 1 + 3 * 3u);
}

}  // namespace
}  // namespace longshore::tools
