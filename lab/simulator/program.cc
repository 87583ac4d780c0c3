#include "simulator/program.h"

#include <algorithm>

#include "simulator/memory.h"

namespace longshore::sim {

// Sizes around everything that is a border to the engine.
uint32_t Operation::draw(uint64_t h) const {
    Prng r(h);
    if (r.chance(zero)) return 0;
    uint32_t bytes = 0;
    switch (r.below(6)) {
        case 0:
            bytes = 1;
            break;
        case 1:
            bytes = static_cast<uint32_t>(r.between(1, 16));
            break;
        case 2:
            bytes = static_cast<uint32_t>(eager_bytes + r.below(3));
            break;
        case 3:
        case 4:
            bytes = static_cast<uint32_t>(chunk_bytes * r.between(1, 4) + r.below(3) - 1);
            break;
        default:
            bytes = static_cast<uint32_t>(r.between(1, bytes_max));
    }
    return std::min(bytes, bytes_max);
}

uint32_t Operation::bytes(uint32_t source, uint32_t destination) const {
    switch (collective) {
        case Collective::kAlltoallv:
            // In place a rank gives as much as it gets.
            if (in_place && source > destination) std::swap(source, destination);
            return draw(key ^ mix64(source * 4096 + destination + 1));
        case Collective::kAllgatherv:
            return draw(key ^ mix64(source + 1));
        case Collective::kBcast:
            return source == root && destination != root ? uniform_bytes : 0;
        case Collective::kGather:
            return destination == root ? uniform_bytes : 0;
        case Collective::kGatherv:
            return destination == root ? draw(key ^ mix64(source + 1)) : 0;
        case Collective::kScatter:
            return source == root ? uniform_bytes : 0;
        case Collective::kScatterv:
            return source == root ? draw(key ^ mix64(destination + 1)) : 0;
        case Collective::kAlltoall:
        case Collective::kAllgather:
            return uniform_bytes;
    }
    LONGSHORE_CHECK(false);
}

bool Operation::by_blocks(bool receive) const {
    const Collective c = collective;
    const bool both = c == Collective::kAlltoallv;
    return both ||
           (receive ? c == Collective::kAllgatherv || c == Collective::kGatherv : c == Collective::kScatterv);
}

bool Operation::sends_one() const {
    return sends_same() || collective == Collective::kGather || collective == Collective::kGatherv;
}

bool Operation::sends_same() const {
    return collective == Collective::kAllgather || collective == Collective::kAllgatherv ||
           collective == Collective::kBcast;
}

bool Operation::receives_one() const {
    return collective == Collective::kBcast || collective == Collective::kScatter ||
           collective == Collective::kScatterv;
}

bool Operation::own_in_recv(uint32_t rank) const {
    if (!in_place || !sends_one()) return false;
    return sends_same() || rank == root;
}

bool Operation::own_in_send(uint32_t rank) const {
    return in_place && receives_one() && rank == root;
}

uint64_t Operation::layout(uint32_t rank, bool receive, std::vector<BlockSpan>* blocks) const {
    blocks->assign(size, {});
    uint64_t at = 0, end = 0;
    const uint32_t first = turn(rank, receive);
    if (!receive && sends_one()) {
        const bool is_gather = !sends_same();
        const uint64_t mine = collective == Collective::kBcast ? (rank == root ? uniform_bytes : 0)
                                                               : bytes(rank, is_gather ? root : rank);
        blocks->assign(size, {0, mine});
        return mine;
    }
    for (uint32_t i = 0; i < size; ++i) {
        const uint32_t peer = (first + i) % size;
        BlockSpan& b = (*blocks)[peer];
        b.bytes = receive ? bytes(peer, rank) : bytes(rank, peer);
        if (receive && peer == rank && own_in_send(rank)) b.bytes = 0;
        if (by_blocks(receive)) {
            const uint64_t h = mix64(key ^ (rank * 8191 + peer) * 2 ^ receive);
            if (receive)
                at += h % 5;  // a gap that nobody may write to
            else if (at > 0 && h % 4 == 0)
                at -= std::min<uint64_t>(at, h % 9);  // send blocks may overlap
        }
        b.offset = receive && receives_one() ? 0 : at;
        at += b.bytes;
        end = std::max(end, at);
    }
    return end;
}

namespace {

// Those of version 2 come twice as often as gather(v) and scatter(v), in which less happens.
Collective draw_collective(Prng& r, uint32_t version) {
    constexpr uint32_t kOfVersion2 = 5;
    if (version < 3) return static_cast<Collective>(r.below(kOfVersion2));
    const uint64_t i = r.below(kCollectives + kOfVersion2);
    return static_cast<Collective>(i < kCollectives ? i : i - kCollectives);
}

}  // namespace

Program Program::draw(const WorldOptions& o) {
    Program p;
    Prng r(mix64(o.seed ^ 0x70726f6772616dull));
    uint16_t used[kNodesMax] = {};
    // Ranks of the world lie on the nodes in turn or in blocks.
    std::vector<uint16_t> nodes;
    for (uint32_t n = 0; n < o.nodes; ++n)
        nodes.insert(nodes.end(), o.ranks_of_node[n], static_cast<uint16_t>(n));
    if (!o.large && r.chance(500))
        for (size_t i = nodes.size(); i > 1; --i) std::swap(nodes[i - 1], nodes[r.below(i)]);
    for (uint16_t n : nodes) {
        const uint64_t service = o.large ? used[n] % o.services_of_node[n] : r.below(o.services_of_node[n]);
        p.places.push_back({NodeId{n}, ServiceId(static_cast<uint16_t>(service)), LocalRank{used[n]++}});
    }
    for (uint32_t g = 0; g < o.groups; ++g) {
        Group group;
        group.id = o.seed * 16 + g + 1;
        const bool whole = g == 0 ? o.large || r.chance(800) : r.chance(200);
        const uint64_t share = r.below(900) + 50;
        for (uint32_t i = 0; i < o.ranks; ++i)
            if (whole || r.chance(share)) group.members.push_back(i);
        if (group.members.empty()) group.members.push_back(static_cast<uint32_t>(r.below(o.ranks)));
        if (!o.large && r.chance(300))
            for (size_t i = group.members.size(); i > 1; --i)
                std::swap(group.members[i - 1], group.members[r.below(i)]);
        group.index_of.assign(o.ranks, -1);
        for (size_t i = 0; i < group.members.size(); ++i)
            group.index_of[group.members[i]] = static_cast<int32_t>(i);
        p.groups.push_back(std::move(group));
    }
    p.buffer_bytes = 4096;
    std::vector<BlockSpan> blocks;
    for (uint32_t i = 0; i < o.operations; ++i) {
        Operation op;
        op.index = i;
        op.group = static_cast<uint32_t>(r.below(o.groups));
        Group& group = p.groups[op.group];
        op.size = static_cast<uint32_t>(group.members.size());
        op.sequence = ++group.sequence;
        op.key = r.next() & ~uint64_t{0xff000000000};
        op.collective = o.large ? (i == 0 ? Collective::kAlltoallv : Collective::kAllgatherv)
                                : draw_collective(r, o.version);
        if (o.broadcasts != 0 && r.chance(o.broadcasts)) op.collective = Collective::kBcast;
        if (o.shared != 0 && r.chance(o.shared)) {
            constexpr Collective kShared[] = {Collective::kAllgather, Collective::kAllgatherv,
                                              Collective::kBcast};
            op.collective = kShared[r.below(std::size(kShared))];
        }
        op.root = static_cast<uint32_t>(r.below(op.size));
        op.in_place = op.may_be_in_place() && r.chance(o.in_place);
        op.blocking = r.chance(o.blocking);
        // Not from the sequence of draws: without staging the program stays what it was.
        const uint64_t h = mix64(op.key);
        if (h % 1000 < o.staged)
            // Ranks of a host share no memory with its DPU.
            op.algorithm = h / 1000 % 2 != 0 || o.dpus ? Algorithm::kStaged : Algorithm::kStagedHierarchical;
        op.zero = o.zero;
        op.chunk_bytes = o.chunk_bytes;
        op.eager_bytes = o.eager_bytes;
        op.bytes_max = o.block_bytes_max * (op.collective == Collective::kBcast && !o.large ? 4 : 1);
        op.uniform_bytes = op.draw(r.next());
        for (uint32_t m = 0; m < op.size; ++m) {
            for (bool receive : {false, true}) {
                const uint64_t bytes = op.layout(m, receive, &blocks);
                p.buffer_bytes += (o.large ? 1 : 2) * (((bytes + 63) & ~uint64_t{63}) + 2 * kRedZoneBytes);
            }
            // What crosses: a shared block once to each other node, another one once to each destination.
            const NodeId home = p.places[group.members[m]].node;
            uint64_t reached = uint64_t{1} << home.value;
            for (uint32_t d = 0; d < op.size; ++d) {
                const NodeId there = p.places[group.members[d]].node;
                if (there == home || (op.sends_same() && reached >> there.value & 1)) continue;
                reached |= uint64_t{1} << there.value;
                p.bytes_between_nodes += op.bytes(m, d);
            }
        }
        p.operations.push_back(op);
    }
    return p;
}

}  // namespace longshore::sim
