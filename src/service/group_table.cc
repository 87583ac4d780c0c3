#include "service/group_table.h"

#include <string.h>

namespace longshore {
namespace {

constexpr uint64_t align64(uint64_t n) {
    return (n + 63) & ~uint64_t{63};
}
}  // namespace

GroupTable::GroupTable(const NodeMemory& memory) : memory_(memory), running_(memory.limits().services_max) {
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

JoinResult GroupTable::join(GroupId id, const std::vector<Member>& members, GroupSlot* slot) {
    const auto known = groups_.find(id.value);
    if (known != groups_.end()) {
        *slot = known->second.slot;
        if (memory_.group(*slot).size != members.size()) return JoinResult::kUnsound;
        ++known->second.joined;
        return JoinResult::kOk;
    }
    uint32_t local_count = 0;
    if (id.value == 0 || members.empty() || !plausible(members, &local_count)) return JoinResult::kUnsound;
    const auto size = static_cast<uint32_t>(members.size());
    Group group;
    group.bytes = align64(NodeMemory::group_bytes(memory_.limits(), members, memory_.node()));
    reuse_what_left();
    if (free_slots_.empty()) return JoinResult::kTableFull;
    group.offset = allocate(group.bytes);
    if (group.offset == 0) return JoinResult::kMemoryFull;
    group.slot = GroupSlot{free_slots_.back()};
    free_slots_.pop_back();
    group.joined = 1;
    memset(memory_.at<std::byte>(group.offset), 0, group.bytes);
    memory_.create_group(group.slot, id, members.data(), size, group.offset);
    groups_[id.value] = group;
    *slot = group.slot;
    return JoinResult::kOk;
}

void GroupTable::leave(GroupId id) {
    const auto it = groups_.find(id.value);
    if (it == groups_.end() || --it->second.joined > 0) return;
    Leaving leaving{it->second, 0, {}};
    memory_.group(leaving.group.slot).id.store(0, std::memory_order_release);
    // A service process writes its heartbeat, or that it is awake, before it looks for groups: either it
    // finds none here, or the heartbeat below is that of an earlier turn.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    leaving.heartbeats.resize(running_.size());
    for (uint16_t s = 0; s < running_.size(); ++s) {
        if (!running_[s]) continue;
        leaving.waiting |= 1u << s;
        leaving.heartbeats[s] = memory_.service(ServiceId{s}).heartbeat.load(std::memory_order_acquire);
    }
    groups_.erase(it);
    leaving_.push_back(std::move(leaving));
    reuse_what_left();
}

void GroupTable::service_ended(ServiceId service) {
    running_[service.value] = false;
    for (Leaving& leaving : leaving_) leaving.waiting &= ~(1u << service.value);
}

void GroupTable::reuse_what_left() {
    std::erase_if(leaving_, [this](Leaving& leaving) {
        for (uint16_t s = 0; s < running_.size(); ++s) {
            if ((leaving.waiting >> s & 1) == 0) continue;
            const ServiceSlot& slot = memory_.service(ServiceId{s});
            if (slot.sleeping.load(std::memory_order_seq_cst) != 0 ||
                slot.heartbeat.load(std::memory_order_acquire) != leaving.heartbeats[s])
                leaving.waiting &= ~(1u << s);
        }
        if (leaving.waiting != 0) return false;
        release(leaving.group.offset, leaving.group.bytes);
        free_slots_.push_back(leaving.group.slot.value);
        return true;
    });
}

}  // namespace longshore
