#include "engine/service/shared_rows.h"

namespace longshore {

void SharedRows::carve(Carver& c) {
    waits_ = c.take<Waits>(operations_.max());
}

void SharedRows::place(uint32_t operation, WakeSet* wake) {
    Rows::Cursors& c = rows_.cursors(operation);
    if (c.to_place == kNone) return;
    operations_.hold(operation);  // its last row may be over
    while (c.to_place != kNone) {
        const uint32_t i = c.to_place;
        if (rows_[i].shared && rows_[i].queued == 0 && !place_row(i, wake)) break;
        if (c.to_place == i) c.to_place = rows_[i].after;
    }
    if (c.to_place != kNone && operations_[operation].own_count == 0) list(operation);
    operations_.release(operation);
    took_some_ = true;
}

bool SharedRows::took_some() {
    const bool some = took_some_;
    took_some_ = false;
    return some;
}

// Without a rank of ours the operation has no turns: it is looked at when the doorbell rings.
void SharedRows::list(uint32_t operation) {
    if (waits_[operation].listed) return;
    operations_.hold(operation);
    waits_[operation] = {waiting_, true};
    waiting_ = operation;
}

// It is the last one of ours.
void SharedRows::watch_ended(uint32_t i) {
    const Watch& w = watches_[i];
    if (!w.helps && operations_[w.operation].own_count == 1 && rows_.cursors(w.operation).to_place != kNone)
        list(w.operation);
}

void SharedRows::look_at_waiting(WakeSet* wake) {
    uint32_t i = waiting_;
    waiting_ = kNone;
    blocked_ = false;
    while (i != kNone) {
        const uint32_t next = waits_[i].next;
        place(i, wake);  // stays listed meanwhile
        waits_[i].listed = false;
        if (rows_.cursors(i).to_place != kNone && operations_[i].own_count == 0) list(i);
        operations_.release(i);
        i = next;
    }
}

// Which rank of the node reads the block? False: no rank has entered, or there is no room now.
bool SharedRows::place_row(uint32_t i, WakeSet* wake) {
    const NodeMemory& memory = context_.memory;
    RowEntry& r = rows_[i];
    const OperationId id = operations_[r.operation].id;
    GroupSlot slot;
    const GroupEntry* group = groups_.find(id.group, &slot);
    if (group == nullptr) {
        rows_.block_over(i, false);
        return true;
    }
    uint64_t seen = memory.reader_of(*group, id.sequence, r.row.source);
    RecordId record;
    if (group->local_count == 1 && entered(memory, *group, 0, id.sequence, &record) == Entered::kNotYet) {
        begin_waiting(context_, r);
        return false;
    }
    if (seen >> 20 < id.sequence) {
        ServiceId other = context_.self;
        const uint32_t chosen = choose_reader(*group, id.sequence, &other);
        if (chosen == kNone && !some_may_read(*group, id.sequence)) {
            rows_.block_over(i, true);  // all have given up
            return true;
        }
        if (chosen == kNone) {
            begin_waiting(context_, r);
            return false;
        }
        if (other != context_.self) {
            LateCounters& late = context_.counters->late_of(r.collective);
            if (!hand_on(i, other)) return false;
            ++late.handed_on;
            return true;
        }
        const uint64_t mine = ring_entry(id.sequence, chosen + 1);
        Atomic<uint64_t>& reader = memory.reader(*group, id.sequence, r.row.source);
        if (reader.compare_exchange_strong(seen, mine, std::memory_order_seq_cst)) {
            seen = mine;
            ++context_.counters->late_of(r.collective).readers;
            // One of them may hold what other nodes want of the block.
            if (context_.limits.staging_slots != 0 && peers_.count_of(memory.node()) > 1)
                memory.ring_all_services(wake);
        }
    }
    const uint32_t index = static_cast<uint32_t>((seen & kDone) - 1);
    if (seen >> 20 > id.sequence || index >= group->local_count ||
        entered(memory, *group, index, id.sequence, &record) != Entered::kPublished) {
        ++context_.counters->duplicates;
        rows_.block_over(i, false);
        return true;
    }
    const Member& holder = memory.members(*group)[memory.locals(*group)[index]];
    // The reader is another's rank: it was told before, or its service process has started anew.
    if (holder.service != context_.self) return hand_on(i, holder.service);
    const uint32_t w = watches_.watch(holder.local, record, wake);
    if (w == kNone) return false;
    ReadQueue::Queued queued = ReadQueue::Queued::kOver;
    if (watches_[w].seen.group == slot && watches_[w].seen.sequence == id.sequence)
        queued =
            queue_.add(w, rows_.remote_block(i, {r.row.offset, r.row.bytes}, r.row.destination), i, wake);
    if (queued == ReadQueue::Queued::kNoRoom) return false;
    stop_waiting(context_, r);
    if (queued == ReadQueue::Queued::kFailed) {
        // The reader may have given up before it was chosen; the others have looked for it in vain until now.
        announce_block(memory, holder.local, record, watches_[w].seen.generation, r.row.source, false, wake);
        memory.ring_all_services(wake);
    }
    if (queued != ReadQueue::Queued::kQueued) rows_.block_over(i, queued == ReadQueue::Queued::kFailed);
    return true;
}

// Among the ranks of this service process that have entered, or if there are none those of others: a
// different one each time. Returns its local index, and who serves it; kNone: nobody has entered.
uint32_t SharedRows::choose_reader(const GroupEntry& group, uint64_t sequence, ServiceId* served_by) {
    const NodeMemory& memory = context_.memory;
    const auto can = [&](uint32_t k, bool own) {
        RecordId ignored;
        return (memory.members(group)[memory.locals(group)[k]].service == context_.self) == own &&
               entered(memory, group, k, sequence, &ignored) == Entered::kPublished;
    };
    for (const bool own : {true, false}) {
        uint32_t candidates = 0;
        for (uint32_t k = 0; k < group.local_count; ++k) candidates += can(k, own);
        if (candidates == 0) continue;
        uint32_t choice = round_++ % candidates;
        for (uint32_t k = 0; k < group.local_count; ++k) {
            if (!can(k, own) || choice-- != 0) continue;
            *served_by = memory.members(group)[memory.locals(group)[k]].service;
            return k;
        }
    }
    return kNone;
}

bool SharedRows::some_may_read(const GroupEntry& group, uint64_t sequence) const {
    RecordId ignored;
    for (uint32_t k = 0; k < group.local_count; ++k)
        if (entered(context_.memory, group, k, sequence, &ignored) != Entered::kOver) return true;
    return false;
}

// Another service process of the node sees to it from now on. False: no room in the frame.
bool SharedRows::hand_on(uint32_t i, ServiceId to) {
    const RowEntry& r = rows_[i];
    const ServiceAddress address{context_.memory.node(), to};
    const RemoteBlock block = rows_.remote_block(i, {r.row.offset, r.row.bytes}, r.row.destination);
    Told told;
    told.operation = block.operation;
    told.collective = r.collective;
    told.origin = block.origin;
    const uint32_t kept = small_.take(block.name());
    if (kept != kNone) {
        Message m;
        m.kind = MessageKind::kSmallBlock;
        m.small.operation = block.operation;
        m.small.source = block.source;
        m.small.destination = block.destination;
        m.small.bytes = small_.bytes(kept);
        outbox_.add(address, m);
        small_.give(kept);
    }
    if (outbox_.add_row(address, MessageKind::kHandOn, told, r.row, {}) == 0) {
        blocked_ = true;
        return false;
    }
    rows_.drop(i);
    return true;
}

}  // namespace longshore
