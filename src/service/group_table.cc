#include "service/group_table.h"

#include <string.h>

namespace longshore {
namespace {
constexpr uint64_t align64(uint64_t n) {
    return (n + 63) & ~uint64_t{63};
}
}  // namespace

GroupTable::GroupTable(const NodeMemory& memory) : memory_(memory) {
    free_[memory.group_data_begin()] = memory.limits().groups_bytes & ~uint64_t{63};
    for (uint32_t i = memory.limits().groups_max; i > 0; --i) free_slots_.push_back(i - 1);
}

bool GroupTable::plausible(const std::vector<Member>& members, uint32_t* local_count) const {
    const NodeHeader& header = memory_.header();
    std::vector<bool> seen(header.rank_count);
    *local_count = 0;
    for (const Member& m : members) {
        if (m.node.value >= header.node_count || m.service.value >= header.service_count) return false;
        if (m.node != memory_.node()) continue;
        if (m.local.value >= header.rank_count || seen[m.local.value] || m.local_index != *local_count)
            return false;
        seen[m.local.value] = true;
        ++*local_count;
    }
    return *local_count > 0;
}

uint64_t GroupTable::allocate(uint64_t bytes) {
    for (auto it = free_.begin(); it != free_.end(); ++it) {
        if (it->second < bytes) continue;
        const uint64_t offset = it->first, rest = it->second - bytes;
        free_.erase(it);
        if (rest > 0) free_[offset + bytes] = rest;
        return offset;
    }
    return 0;
}

void GroupTable::release(uint64_t offset, uint64_t bytes) {
    auto it = free_.emplace(offset, bytes).first;
    if (const auto next = std::next(it); next != free_.end() && next->first == offset + bytes) {
        it->second += next->second;
        free_.erase(next);
    }
    if (it != free_.begin()) {
        const auto before = std::prev(it);
        if (before->first + before->second == offset) {
            before->second += it->second;
            free_.erase(it);
        }
    }
}

bool GroupTable::join(GroupId id, const std::vector<Member>& members, GroupSlot* slot) {
    const auto known = groups_.find(id.value);
    if (known != groups_.end()) {
        ++known->second.joined;
        *slot = known->second.slot;
        return memory_.group(*slot).size == members.size();
    }
    uint32_t local_count = 0;
    if (id.value == 0 || members.empty() || free_slots_.empty() || !plausible(members, &local_count))
        return false;
    const auto size = static_cast<uint32_t>(members.size());
    Group group;
    group.bytes = align64(NodeMemory::group_bytes(memory_.limits(), size, local_count, local_count != size));
    group.offset = allocate(group.bytes);
    if (group.offset == 0) return false;
    group.slot = GroupSlot{free_slots_.back()};
    free_slots_.pop_back();
    group.joined = 1;
    memset(memory_.at<std::byte>(group.offset), 0, group.bytes);
    memory_.create_group(group.slot, id, members.data(), size, group.offset);
    groups_[id.value] = group;
    *slot = group.slot;
    return true;
}

void GroupTable::leave(GroupId id) {
    const auto it = groups_.find(id.value);
    if (it == groups_.end() || --it->second.joined > 0) return;
    memory_.group(it->second.slot).id.store(0, std::memory_order_release);
    release(it->second.offset, it->second.bytes);
    free_slots_.push_back(it->second.slot.value);
    groups_.erase(it);
}

}  // namespace longshore
