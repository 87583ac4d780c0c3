#include "engine/service/watches.h"

#include <algorithm>

namespace longshore {

void Watches::carve(Carver& c) {
    c.pool(&pool_, context_.limits.watches_max);
    watch_of_ = c.filled<uint32_t>(uint64_t{context_.node.ranks_max} * context_.node.records_max, 0);
}

bool Watches::still(const Watch& w) const {
    __atomic_thread_fence(__ATOMIC_ACQUIRE);  // reads of the record before stay above
    return context_.memory.record(w.local, w.record).generation.load(std::memory_order_acquire) ==
           w.seen.generation;
}

uint32_t Watches::find(LocalRank local, RecordId record, uint64_t generation) const {
    const uint32_t index = index_of(local, record);
    return index != 0 && pool_[index - 1].seen.generation == generation ? index - 1 : kNone;
}

uint32_t Watches::watch(LocalRank local, RecordId record, WakeSet* wake) {
    const NodeMemory& memory = context_.memory;
    uint32_t& index = index_of(local, record);
    if (index != 0) {
        if (still(pool_[index - 1])) return index - 1;
        drop(index - 1);
    }
    RecordLook seen;
    if (!look(memory.record(local, record), &seen) || seen.group.value >= memory.limits().groups_max)
        return kNone;
    const GroupEntry& group = memory.group(seen.group);
    if (seen.rank.value >= group.size || seen.size != group.size ||
        group.size > context_.limits.group_size_max || seen.root.value >= group.size ||
        static_cast<uint8_t>(seen.collective) >= kCollectives)
        return kNone;
    const Member& member = memory.members(group)[seen.rank.value];
    if (member.node != memory.node() || member.local != local) return kNone;
    // Published means: in the ring. Before that nobody may look for what has been told.
    RecordId published;
    if (entered(memory, group, member.local_index, seen.sequence, &published) != Entered::kPublished ||
        published != record)
        return kNone;
    const bool own = member.service == context_.self;
    const uint32_t i = pool_.take();
    if (i == kNone) {
        ++context_.counters->pool_full;
        scan_needed_ |= own;
        return kNone;
    }
    Watch& w = pool_[i];
    w.used = true;
    w.helps = !own;
    w.local = local;
    w.record = record;
    w.seen = seen;
    w.local_index = member.local_index;
    w.several_nodes = group.local_count != group.size;
    if (w.is_told()) {
        const auto served = members_served(memory, group, context_.self);
        w.own_index = static_cast<uint32_t>(std::lower_bound(served.begin(), served.end(), seen.rank.value) -
                                            served.begin());
    }
    index = i + 1;
    ++count_;
    if (i >= end_) end_ = i + 1;
    w.operation = operations_.open({GroupId{group.id.load(std::memory_order_acquire)}, seen.sequence});
    operations_.join(w.operation, i, own,
                     Geometry(memory, memory.record(local, record), local).incoming_bytes(seen.size));
    for (Follower* f : followers_.each()) f->watch_began(i, wake);
    return i;
}

void Watches::drop(uint32_t i) {
    Watch& w = pool_[i];
    for (Follower* f : followers_.each()) f->watch_ended(i);
    operations_.leave(w.operation, i, !w.helps);
    index_of(w.local, w.record) = 0;
    w.used = false;
    --count_;
    pool_.give(i);
    while (end_ > 0 && !pool_[end_ - 1].used) --end_;
}

void Watches::scan(ServiceId of, WakeSet* wake) {
    if (of == context_.self) scan_needed_ = false;
    const NodeMemory& memory = context_.memory;
    const uint16_t ranks = memory.rank_count();
    for (uint16_t r = 0; r < ranks; ++r) {
        const LocalRank local{r};
        const RankSlot& slot = memory.rank(local);
        if (load_relaxed(&slot.service) != of.value) continue;
        for (uint32_t word = 0; word * 64 < memory.limits().records_max; ++word) {
            for (uint64_t bits = slot.active[word].load(std::memory_order_acquire); bits != 0;
                 bits &= bits - 1) {
                const RecordId record{word * 64 + static_cast<uint32_t>(__builtin_ctzll(bits))};
                const uint32_t known_as = index_of(local, record);
                if (known_as != 0 && still(pool_[known_as - 1])) continue;
                watch(local, record, wake);
            }
        }
    }
}

bool Watches::fail_block(uint32_t i, Rank source, OperationError error, WakeSet* wake) {
    const Watch& w = pool_[i];
    const NodeMemory& memory = context_.memory;
    OperationRecord& record = memory.record(w.local, w.record);
    bool failed = false;
    for (const ChunkRange& chunks :
         {landing_chunks(memory, record, source), incoming_chunks(memory, record, source)})
        for (uint32_t c = 0; c < chunks.count; ++c) {
            if (!claim_chunk(chunks.words[c], w.seen.generation, context_.worker)) continue;
            note_error(record, w.seen.generation, error);
            settle_chunk(chunks.words[c], w.seen.generation, ChunkState::kFailed);
            failed = true;
        }
    if (!failed) return false;
    announce_landing(memory, w.local, w.record, w.seen.generation, source, wake);
    announce_block(memory, w.local, w.record, w.seen.generation, source, false, wake);
    memory.ring_all_services(wake);
    note_settled();
    return true;
}

// The words are in this cache now; the rank's will be cold when it returns from its computation.
void Watches::tell_completions() {
    if (!settled_some_) return;
    settled_some_ = false;
    for (uint32_t i = 0; i < end_; ++i) {
        Watch& w = pool_[i];
        if (!w.used || w.completed || !still(w)) continue;
        if (!Completion(context_.memory, w.local, w.record, w.seen).all(&w.done) || !still(w)) continue;
        w.completed = true;
        context_.memory.record(w.local, w.record)
            .completed.store(w.seen.generation, std::memory_order_release);
    }
}

bool Watches::idle() const {
    if (scan_needed_ && count_ != 0) return false;
    for (uint32_t i = 0; i < end_; ++i)
        if (pool_[i].used && still(pool_[i])) return false;
    return true;
}

}  // namespace longshore
