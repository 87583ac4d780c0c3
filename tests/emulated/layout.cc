// What ranks and service processes share, as this architecture lays it out: sizes and offsets, printed. With
// the name of a file that says how another does: fails where they differ.
#include <cstddef>
#include <fstream>
#include <iostream>
#include <sstream>

#include "base/ring.h"
#include "engine/node_memory.h"
#include "fabric/shm/control.h"

using namespace longshore;

namespace {

std::string layout() {
    std::ostringstream out;
#define TYPE(type) out << #type << ' ' << sizeof(type) << ' ' << alignof(type) << '\n'
#define FIELD(type, field) out << #type "." #field << ' ' << offsetof(type, field) << '\n'
    TYPE(NodeLimits);
    TYPE(NodeHeader);
    FIELD(NodeHeader, service_count);
    TYPE(ServiceSlot);
    FIELD(ServiceSlot, load);
    FIELD(ServiceSlot, late);
    TYPE(RankSlot);
    FIELD(RankSlot, service);
    FIELD(RankSlot, active);
    FIELD(RankSlot, bytes_landed);
    TYPE(RegionEntry);
    FIELD(RegionEntry, descriptor);
    TYPE(OperationRecord);
    FIELD(OperationRecord, sequence);
    FIELD(OperationRecord, collective);
    FIELD(OperationRecord, send_is_stable);
    FIELD(OperationRecord, send_region);
    FIELD(OperationRecord, acknowledged_offset);
    TYPE(BlockSpan);
    TYPE(Member);
    TYPE(GroupEntry);
    FIELD(GroupEntry, data_bytes);
    FIELD(GroupEntry, by_peer_offset);
    TYPE(Member);
    FIELD(Member, peer);
    TYPE(GroupPeer);
    FIELD(GroupPeer, node_first);
    TYPE(RingPositions);
    TYPE(SightSlot);
    TYPE(SightJob);
    TYPE(SightRank);
    TYPE(ServiceParameters);
    NodeLimits limits;
    limits.ranks_max = 100;
    limits.services_max = 3;
    const NodeLayout y = NodeLayout::of(limits);
    out << "node " << y.services << ' ' << y.ranks << ' ' << y.groups << ' ' << y.group_data << ' '
        << y.rank_areas << ' ' << y.regions << ' ' << y.records << ' ' << y.claims << ' ' << y.arena << ' '
        << y.rank_area_bytes << ' ' << y.total_bytes << '\n';
    return out.str();
}

}  // namespace

int main(int argc, char** argv) {
    const std::string ours = layout();
    if (argc < 2) {
        std::cout << ours;
        return 0;
    }
    std::ostringstream theirs;
    theirs << std::ifstream(argv[1]).rdbuf();
    if (ours == theirs.str()) return 0;
    std::cout << "here:\n" << ours << "\nthere:\n" << theirs.str();
    return 1;
}
