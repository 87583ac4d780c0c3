// Notes down when the blocks of an operation moved, for whoever has switched the breakdown on. Called by
// whoever moved a chunk, before the claim word says so: until then both records stay what they are.
#pragma once

#include "engine/mover.h"
#include "fabric/shm/control.h"

namespace longshore {

inline bool keeps_times(std::byte* sight) {
    return SightLayout::job(sight).breakdown.load(std::memory_order_relaxed) != 0;
}

// The earliest and the latest of what several tell; 0: nobody has.
inline void note_earliest(Atomic<uint64_t>& word, uint64_t ns) {
    uint64_t before = word.load(std::memory_order_relaxed);
    while ((before == 0 || ns < before) &&
           !word.compare_exchange_weak(before, ns, std::memory_order_relaxed, std::memory_order_relaxed)) {
    }
}
inline void note_latest(Atomic<uint64_t>& word, uint64_t ns) {
    uint64_t before = word.load(std::memory_order_relaxed);
    while (ns > before &&
           !word.compare_exchange_weak(before, ns, std::memory_order_relaxed, std::memory_order_relaxed)) {
    }
}

// The giver's times, unless it waits for no reader: its record is another operation's soon.
inline SightTimes* times_of_giver(const NodeMemory& memory, std::byte* sight, const Copy& copy) {
    const OperationRecord& taken = memory.record(copy.destination, copy.record);
    const GroupEntry& group = memory.group(GroupSlot{load_relaxed(&taken.group_slot)});
    const Member& member = memory.members(group)[copy.source.value];
    RecordId given;
    if (member.node != memory.node() || member.local != copy.giver ||
        entered(memory, group, member.local_index, load_relaxed(&taken.sequence), &given) !=
            Entered::kPublished ||
        load_relaxed(&memory.record(copy.giver, given).send_is_stable))
        return nullptr;
    return SightLayout::times(sight, copy.giver, given);
}

inline void note_copy(const NodeMemory& memory, std::byte* sight, const Copy& copy, uint64_t begin_ns,
                      uint64_t end_ns, bool by_rank) {
    if (copy.bytes == 0 || copy.is_landing) return;
    if (SightTimes* taker = SightLayout::times(sight, copy.destination, copy.record)) {
        note_earliest(taker->first_copy_ns, begin_ns);
        note_latest(taker->landed_ns, end_ns);
        (by_rank ? taker->copies_by_ranks_ns : taker->copies_by_services_ns)
            .fetch_add(end_ns - begin_ns, std::memory_order_relaxed);
    }
    if (copy.is_self) return;
    if (SightTimes* giver = times_of_giver(memory, sight, copy)) {
        note_earliest(giver->first_copy_ns, begin_ns);
        note_latest(giver->read_ns, end_ns);
    }
}

}  // namespace longshore
