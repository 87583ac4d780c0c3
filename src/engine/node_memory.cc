#include "engine/node_memory.h"

#include <algorithm>
#include <cstring>

namespace longshore {
namespace {

constexpr uint64_t align_up(uint64_t n, uint64_t to) {
    return (n + to - 1) / to * to;
}

}  // namespace

NodeLayout NodeLayout::of(const NodeLimits& l) {
    NodeLayout y{};
    uint64_t end = align_up(sizeof(NodeHeader), 64);
    const auto take = [&end](uint64_t bytes, uint64_t alignment) {
        end = align_up(end, alignment);
        const uint64_t begin = end;
        end += bytes;
        return begin;
    };
    y.services = take(l.services_max * sizeof(ServiceSlot), 64);
    y.ranks = take(l.ranks_max * sizeof(RankSlot), 64);
    y.groups = take(l.groups_max * sizeof(GroupEntry), 64);
    y.group_data = take(l.groups_bytes, 64);
    y.rank_areas = align_up(end, 4096);

    end = 0;
    y.regions = take(l.regions_max * sizeof(RegionEntry), 64);
    y.records = take(l.records_max * sizeof(OperationRecord), 64);
    y.claims = take(l.claims_bytes, 64);
    y.arena = take(l.arena_bytes, 64);
    y.rank_area_bytes = align_up(end, 4096);
    y.total_bytes = y.rank_areas + l.ranks_max * y.rank_area_bytes;
    return y;
}

namespace {

bool limits_are_sane(const NodeLimits& l) {
    const uint32_t ahead = l.operations_ahead_max;
    return l.ranks_max >= 1 && l.ranks_max <= kRanksPerNodeMax && l.services_max >= 1 &&
           l.services_max <= kServicesPerNodeMax && l.records_max >= 1 && l.records_max <= kRecordsMax &&
           l.regions_max >= 1 && l.groups_max >= 1 && ahead >= 1 && ahead <= 4096 &&
           (ahead & (ahead - 1)) == 0 && l.chunk_bytes >= 1 && l.groups_max <= 1u << 20 &&
           l.regions_max <= 1u << 20 && l.claims_bytes <= uint64_t{1} << 40 &&
           l.arena_bytes <= uint64_t{1} << 40 && l.groups_bytes <= uint64_t{1} << 40;
}

}  // namespace

NodeMemory NodeMemory::create(std::byte* base, const NodeLimits& limits, NodeId node, uint16_t node_count,
                              uint16_t rank_count, uint16_t service_count) {
    LONGSHORE_CHECK(limits_are_sane(limits));
    NodeMemory m;
    m.base_ = base;
    m.layout_ = NodeLayout::of(limits);
    m.limits_ = limits;
    m.rank_count_ = rank_count;
    NodeHeader& header = m.header();
    header.limits = limits;
    header.node = node.value;
    header.node_count = node_count;
    header.rank_count = rank_count;
    header.service_count = service_count;
    for (uint32_t r = 0; r < rank_count; ++r) {
        RegionEntry& arena = m.region(LocalRank(static_cast<uint16_t>(r)), kArenaRegion);
        arena.bytes = limits.arena_bytes;
        arena.generation.store(1, std::memory_order_relaxed);
    }
    header.magic = kNodeMagic;
    m.remember();
    return m;
}

void NodeMemory::remember() {
    const NodeHeader& h = header();
    limits_ = h.limits;
    node_ = h.node;
    node_count_ = h.node_count;
    rank_count_ = h.rank_count;
    service_count_ = h.service_count;
}

bool NodeMemory::open(std::byte* base, uint64_t bytes, NodeMemory* out) {
    if (bytes < sizeof(NodeHeader)) return false;
    const NodeHeader& header = *reinterpret_cast<const NodeHeader*>(base);
    if (header.magic != kNodeMagic || !limits_are_sane(header.limits)) return false;
    const NodeLayout layout = NodeLayout::of(header.limits);
    if (layout.total_bytes > bytes || header.rank_count > header.limits.ranks_max ||
        header.service_count > header.limits.services_max)
        return false;
    out->base_ = base;
    out->layout_ = layout;
    out->remember();
    return true;
}

namespace {

struct GroupLayout {
    uint32_t local_count, peers_max;
    uint64_t members, peers, by_peer, locals, rings, readers, bytes;
};

bool same_peer(const Member& a, const Member& b) {
    return a.node == b.node && a.service == b.service;
}

// Every peer is counted at least once: where ranks of a peer follow each other, once.
uint32_t peers_at_most(std::span<const Member> members) {
    uint32_t runs = 0;
    for (size_t i = 0; i < members.size(); ++i) runs += i == 0 || !same_peer(members[i], members[i - 1]);
    return runs;
}

GroupLayout group_layout(const NodeLimits& limits, std::span<const Member> members, NodeId node) {
    const uint64_t ahead = limits.operations_ahead_max, size = members.size();
    GroupLayout y{};
    for (const Member& m : members) y.local_count += m.node == node;
    y.peers_max = peers_at_most(members);
    const bool has_readers = y.local_count != size && y.local_count > 1;
    y.members = 0;
    y.peers = align_up(y.members + size * sizeof(Member), 64);
    y.by_peer = align_up(y.peers + y.peers_max * sizeof(GroupPeer), 64);
    y.locals = align_up(y.by_peer + size * sizeof(uint32_t), 64);
    y.rings = align_up(y.locals + y.local_count * sizeof(uint32_t), 64);
    y.readers = align_up(y.rings + y.local_count * ahead * sizeof(uint64_t), 64);
    y.bytes = align_up(y.readers + (has_readers ? ahead * size * sizeof(uint64_t) : 0), 64);
    return y;
}

// Fills in the group's peers, its ranks by peer, and each member's peer. Returns how many peers there are.
uint32_t list_peers(std::span<Member> members, uint32_t* by_peer, GroupPeer* peers) {
    const uint32_t size = static_cast<uint32_t>(members.size());
    for (uint32_t i = 0; i < size; ++i) by_peer[i] = i;
    const auto place = [&members](uint32_t rank) {
        const Member& m = members[rank];
        return uint64_t{m.node.value} << 48 | uint64_t{m.service.value} << 32 | rank;
    };
    std::sort(by_peer, by_peer + size, [&](uint32_t a, uint32_t b) { return place(a) < place(b); });
    uint32_t count = 0;
    for (uint32_t i = 0; i < size; ++i) {
        Member& m = members[by_peer[i]];
        if (i == 0 || !same_peer(m, members[by_peer[i - 1]])) {
            const bool same_node = i != 0 && m.node == members[by_peer[i - 1]].node;
            peers[count] = {{m.node, m.service}, i, 0, same_node ? peers[count - 1].node_first : count};
            ++count;
        }
        ++peers[count - 1].count;
        m.peer = count - 1;
    }
    return count;
}

}  // namespace

uint64_t NodeMemory::group_bytes(const NodeLimits& limits, std::span<const Member> members, NodeId node) {
    return group_layout(limits, members, node).bytes;
}

void NodeMemory::create_group(GroupSlot slot, GroupId id, const Member* members, uint32_t size,
                              uint64_t data_offset) const {
    const GroupLayout y = group_layout(limits(), {members, size}, node());
    GroupEntry& g = group(slot);
    g.size = size;
    g.local_count = y.local_count;
    g.members_offset = data_offset + y.members;
    g.peers_offset = data_offset + y.peers;
    g.by_peer_offset = data_offset + y.by_peer;
    g.locals_offset = data_offset + y.locals;
    g.rings_offset = data_offset + y.rings;
    g.readers_offset = y.bytes != y.readers ? data_offset + y.readers : 0;
    g.data_bytes = y.bytes;
    memcpy(at<Member>(g.members_offset), members, size * sizeof(Member));
    g.peer_count = list_peers({at<Member>(g.members_offset), size}, at<uint32_t>(g.by_peer_offset),
                              at<GroupPeer>(g.peers_offset));
    uint32_t* locals = at<uint32_t>(g.locals_offset);
    for (uint32_t i = 0; i < size; ++i) {
        if (members[i].node != node()) continue;
        *locals++ = i;
        store_relaxed(&rank(members[i].local).service, members[i].service.value);
    }
    g.id.store(id.value, std::memory_order_release);
}

GroupSlot NodeMemory::find_group(GroupId id) const {
    const uint32_t n = limits().groups_max;
    for (uint32_t i = 0; i < n; ++i)
        if (group(GroupSlot{i}).id.load(std::memory_order_acquire) == id.value) return GroupSlot{i};
    return GroupSlot{n};
}

bool look(const OperationRecord& record, RecordLook* out) {
    const uint64_t generation = record.generation.load(std::memory_order_acquire);
    if (generation == 0) return false;
    out->generation = generation;
    out->sequence = load_relaxed(&record.sequence);
    out->group = GroupSlot{load_relaxed(&record.group_slot)};
    out->rank = Rank{load_relaxed(&record.rank)};
    out->size = load_relaxed(&record.size);
    out->root = Rank{load_relaxed(&record.root)};
    out->collective = collective_of(record);
    out->algorithm =
        static_cast<Algorithm>(load_relaxed(reinterpret_cast<const uint8_t*>(&record.algorithm)));
    // The reads above stay above: the generation is read again by an atomic that they cannot pass.
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return record.generation.load(std::memory_order_relaxed) == generation;
}

}  // namespace longshore
