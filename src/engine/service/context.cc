#include "engine/service/context.h"

#include <algorithm>

#include "base/prng.h"

namespace longshore {
namespace {

constexpr uint32_t kGroupCacheSize = 1024;

}  // namespace

void Groups::carve(Carver& c) {
    cache_ = c.filled<Cached>(kGroupCacheSize, {});
}

const GroupEntry* Groups::find(GroupId id, GroupSlot* slot) {
    if (id.value == 0) return nullptr;
    const NodeMemory& memory = context_.memory;
    Cached& c = cache_[mix64(id.value) % kGroupCacheSize];
    if (c.id != id.value || memory.group(GroupSlot{c.slot}).id.load(std::memory_order_acquire) != id.value) {
        const GroupSlot found = memory.find_group(id);
        if (found.value == memory.limits().groups_max) return nullptr;
        c = {id.value, found.value};
    }
    *slot = GroupSlot{c.slot};
    return &memory.group(*slot);
}

uint32_t find_peer(const NodeMemory& memory, const GroupEntry& group, ServiceAddress at) {
    const auto all = memory.peers(group);
    const auto place = [](ServiceAddress a) { return uint32_t{a.node.value} << 16 | a.service.value; };
    const auto found = std::lower_bound(all.begin(), all.end(), place(at),
                                        [&](const GroupPeer& p, uint32_t x) { return place(p.at) < x; });
    return static_cast<uint32_t>(found != all.end() && found->at == at ? found - all.begin() : all.size());
}

ServiceAddress teller_for(const NodeMemory& memory, const GroupEntry& group, uint32_t node_first,
                          Rank source) {
    const auto all = memory.peers(group);
    uint32_t count = 1;
    while (node_first + count < all.size() && all[node_first + count].node_first == node_first) ++count;
    return all[node_first + source.value % count].at;
}

std::span<const uint32_t> members_served(const NodeMemory& memory, const GroupEntry& group, ServiceId by) {
    for (uint32_t i = 0; i < group.local_count; ++i) {
        const Member& m = memory.members(group)[memory.locals(group)[i]];
        if (m.service == by) return memory.members_of(group, memory.peers(group)[m.peer]);
    }
    return {};
}

uint64_t hash_of(const OperationId& operation, Rank source) {
    return mix64(operation.group.value ^ mix64(operation.sequence ^ uint64_t{source.value} << 40));
}

bool lacks(const NodeMemory& memory, const GroupEntry& group, uint32_t local_index, uint64_t sequence,
           Rank source) {
    RecordId id;
    RecordLook seen;
    if (entered(memory, group, local_index, sequence, &id) != Entered::kPublished) return false;
    const LocalRank local = memory.members(group)[memory.locals(group)[local_index]].local;
    const OperationRecord& record = memory.record(local, id);
    if (!look(record, &seen) || seen.sequence != sequence) return false;
    uint32_t from = 0;
    const ChunkRange chunks = arriving_chunks(memory, record, source);
    return chunks.count != 0 && !block_settled(chunks, seen.generation, &from);
}

}  // namespace longshore
