// ServiceEngine: rows of shared blocks (allgather family), of which one rank of the node is to read each: of
// this service process, if one has entered, else of another one, which is then handed the row. If no rank of
// the node has entered, the row waits here (paper S0, III.D.2 hands it around and parks it; every service
// process here sees the records of all ranks of its node).
#include "engine/service_state.h"

namespace longshore {

// Sees to shared rows in the order of their arrival, until one has to wait.
void ServiceEngine::State::place_rows(Share& s, WakeSet* wake) {
    while (s.to_place != kNone) {
        const uint32_t i = s.to_place;
        if (rows[i].shared && rows[i].queued == 0 && !place(i, wake)) break;
        if (s.to_place == i) s.to_place = rows[i].after;
    }
    if (s.to_place != kNone) wait_for_ranks(s);
    if (held_wants.count != 0) answer_held_wants();
}

// Without a rank of ours the operation has no turns.
void ServiceEngine::State::wait_for_ranks(Share& s) {
    if (s.own_count != 0 || s.waits) return;
    s.waits = true;
    s.waits_next = waiting_shares;
    waiting_shares = static_cast<uint32_t>(&s - share_pool.items);
}

// A block for the whole node: which of its ranks reads it? False: no rank has entered, or there is no room
// now.
bool ServiceEngine::State::place(uint32_t i, WakeSet* wake) {
    RowEntry& r = rows[i];
    const OperationId id = share_pool[r.share].operation;
    GroupSlot slot;
    const GroupEntry* group = find_group(id.group, &slot);
    if (group == nullptr) {
        block_over(i, false);
        return true;
    }
    uint64_t seen = memory.reader_of(*group, id.sequence, r.row.source);
    RecordId record;
    if (group->local_count == 1 && entered(memory, *group, 0, id.sequence, &record) == Entered::kNotYet) {
        begin_waiting(r);
        return false;
    }
    if (seen >> 20 < id.sequence) {
        ServiceId other = self;
        const uint32_t chosen = choose_reader(*group, id.sequence, &other);
        if (chosen == kNone) {
            begin_waiting(r);
            return false;
        }
        if (other != self) {
            LateCounters& late = counters->late_of(r.collective);
            if (!hand_on(i, other)) return false;
            ++late.handed_on;
            return true;
        }
        // Only one service process gets to name the reader.
        const uint64_t mine = ring_entry(id.sequence, chosen + 1);
        Atomic<uint64_t>& reader = memory.reader(*group, id.sequence, r.row.source);
        if (reader.compare_exchange_strong(seen, mine, std::memory_order_seq_cst)) {
            seen = mine;
            // One of them may hold what other nodes want of the block.
            if (limits.staging_slots != 0 && services_of[memory.node().value] > 1)
                memory.ring_all_services(wake);
        }
    }
    const uint32_t index = static_cast<uint32_t>((seen & kDone) - 1);
    if (seen >> 20 > id.sequence || index >= group->local_count ||
        entered(memory, *group, index, id.sequence, &record) != Entered::kPublished) {
        ++counters->duplicates;
        block_over(i, false);
        return true;
    }
    const Member& holder = memory.members(*group)[memory.locals(*group)[index]];
    // The reader is another's rank: it was told before, or its service process has started anew.
    if (holder.service != self) return hand_on(i, holder.service);
    const uint32_t w = watch_record(holder.local, record, wake);
    if (w == kNone) return false;
    Queued queued = Queued::kOver;
    if (watches[w].seen.group == slot && watches[w].seen.sequence == id.sequence)
        queued = queue_block(w, remote_block(r, {r.row.offset, r.row.bytes}, r.row.destination), i, wake);
    if (queued == Queued::kNoRoom) return false;
    stop_waiting(r);
    if (queued != Queued::kQueued) block_over(i, queued == Queued::kFailed);
    return true;
}

// Among the ranks of this service process that have entered, or if there are none those of others: a
// different one each time. Returns its local index, and who serves it; kNone: nobody has entered.
uint32_t ServiceEngine::State::choose_reader(const GroupEntry& group, uint64_t sequence, ServiceId* other) {
    const auto can = [&](uint32_t k, bool own) {
        RecordId ignored;
        return (memory.members(group)[memory.locals(group)[k]].service == self) == own &&
               entered(memory, group, k, sequence, &ignored) == Entered::kPublished;
    };
    for (const bool own : {true, false}) {
        uint32_t candidates = 0;
        for (uint32_t k = 0; k < group.local_count; ++k) candidates += can(k, own);
        if (candidates == 0) continue;
        uint32_t choice = reader_round++ % candidates;
        for (uint32_t k = 0; k < group.local_count; ++k) {
            if (!can(k, own) || choice-- != 0) continue;
            *other = memory.members(group)[memory.locals(group)[k]].service;
            return k;
        }
    }
    return kNone;
}

// Another service process of the node sees to it from now on. False: no room in the frame.
bool ServiceEngine::State::hand_on(uint32_t i, ServiceId to) {
    const RowEntry& r = rows[i];
    const OperationId id = share_pool[r.share].operation;
    const ServiceAddress address{memory.node(), to};
    Told told;
    told.operation = id;
    told.collective = r.collective;
    told.origin = batches[r.batch].origin;
    const uint32_t kept = take_small(id, r.row.source, r.row.destination);
    if (kept != kNone) {
        Message m;
        m.kind = MessageKind::kSmallBlock;
        m.small.operation = id;
        m.small.source = r.row.source;
        m.small.destination = r.row.destination;
        m.small.bytes = {small[kept].bytes, small[kept].count};
        add(address, m);
        small.give(kept);
    }
    if (add_row(address, MessageKind::kHandOn, told, r.row, {}) == 0) {
        waiting_blocked = true;
        return false;
    }
    drop_row(i);
    return true;
}

// Rows that no rank could read: perhaps one has entered since.
void ServiceEngine::State::look_at_waiting(WakeSet* wake) {
    uint32_t i = waiting_shares;
    waiting_shares = kNone;
    waiting_blocked = false;
    while (i != kNone) {
        Share& s = share_pool[i];
        const uint32_t next = s.waits_next;
        place_rows(s, wake);  // stays marked meanwhile, so that it is not dropped
        s.waits = false;
        if (s.to_place != kNone) wait_for_ranks(s);
        drop_share_if_over(i);
        i = next;
    }
}

void ServiceEngine::State::begin_waiting(RowEntry& r) {
    if (r.waiting) return;
    ++counters->late_of(r.collective).parked;
    r.waiting = r.row.waited = true;
    r.since_ns = now_ns;
}

// Who told of it may have read its clock later than we ours.
void ServiceEngine::State::stop_waiting(RowEntry& r) {
    if (!r.waiting) return;
    r.waiting = false;
    ++counters->unparked;
    LateCounters& late = counters->late_of(r.collective);
    const uint64_t waited_ns = now_ns > r.since_ns ? now_ns - r.since_ns : 0;
    late.parked_ns += waited_ns;
    if (waited_ns > late.parked_longest_ns) late.parked_longest_ns = waited_ns;
}

}  // namespace longshore
