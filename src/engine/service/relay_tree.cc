#include "engine/service/relay_tree.h"

namespace longshore {

RelayTree RelayTree::in_group(const NodeMemory& memory, const GroupEntry& group, NodeId source, NodeId of,
                              uint64_t chunks) {
    RelayTree tree;
    uint32_t before_source = 0, before = 0;
    const auto peers = memory.peers(group);
    for (uint32_t p = 0; p < peers.size(); ++p) {
        if (peers[p].node_first != p) continue;
        before_source += peers[p].at.node < source;
        before += peers[p].at.node < of;
        ++tree.count;
    }
    tree.index = (before + tree.count - before_source) % tree.count;
    tree.ring = tree.count > 2 && chunks >= tree.count - 1;
    return tree;
}

uint32_t relay_peer(const NodeMemory& memory, const GroupEntry& group, NodeId source, uint32_t index) {
    const auto peers = memory.peers(group);
    const uint32_t count = static_cast<uint32_t>(peers.size());
    uint32_t p = 0;
    while (peers[p].at.node != source) ++p;
    while (index != 0) {
        p = (p + 1) % count;
        index -= peers[p].node_first == p;
    }
    return p;
}

bool is_relayed(const ServiceContext& context, const Watch& watch, const QueuedRead& queued,
                RelayTree* tree) {
    const CollectiveRules& rules = rules_of(watch.seen.collective);
    if (watch.helps || !rules.is_shared || rules.givers != Who::kRoot ||
        !context.is_staged(watch.seen.algorithm))
        return false;
    const NodeMemory& memory = context.memory;
    const ChunkRange chunks =
        arriving_chunks(memory, memory.record(watch.local, watch.record), queued.block.source);
    if (chunks.chunk_bytes > context.limits.staging_slot_bytes) return false;
    *tree = RelayTree::in_group(memory, memory.group(watch.seen.group), queued.block.origin.node,
                                memory.node(), chunks.count);
    return tree->count > 2;
}

}  // namespace longshore
