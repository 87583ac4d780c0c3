// ServiceEngine: notifications of other nodes' blocks, as they arrive. One whose rank has entered is queued
// to be read (service_receive.cc); one that came early is held (alltoall family), or handed around the node's
// service processes and parked where any of them takes it (allgather family; paper S0, III.D.2).
#include "engine/service_state.h"

namespace longshore {
namespace {

uint32_t held_bucket(const OperationId& id, uint32_t destination, uint32_t count) {
    return static_cast<uint32_t>(mix64(mix64(id.group.value ^ mix64(id.sequence)) ^ destination)) &
           (count - 1);
}

}  // namespace

void ServiceEngine::State::on_notification(const Notification& n, WakeSet* wake) {
    if (!known(n.origin) || n.origin.service.value >= services_of[n.origin.node.value] ||
        n.origin.node == memory.node() || n.bytes == 0) {
        ++counters->malformed_messages;
        return;
    }
    // Its blocks have failed already, or will as soon as a rank enters (lose()); nobody could read them.
    if (peer(n.origin).lost) return;
    GroupSlot slot;
    const GroupEntry* group = find_group(n.operation.group, &slot);
    if (group == nullptr) {  // freed here: all its operations are over here
        ++counters->duplicates;
        answer(n, false);
        return;
    }
    if (n.source.value >= group->size || memory.members(*group)[n.source.value].node != n.origin.node) {
        ++counters->malformed_messages;
        return;
    }
    if ((n.destination & kToNode) != 0) {
        if ((n.destination & ~kToNode) == memory.node().value && group->readers_offset != 0) {
            place_shared(slot, n, wake);
            answer_held_wants();
        } else {
            ++counters->malformed_messages;
        }
        return;
    }
    if (n.destination >= group->size) {
        ++counters->malformed_messages;
        return;
    }
    const Member& member = memory.members(*group)[n.destination];
    if (member.node != memory.node() || member.service != self) {
        ++counters->malformed_messages;
        return;
    }
    RecordId record;
    switch (entered(memory, *group, member.local_index, n.operation.sequence, &record)) {
        case Entered::kNotYet:
            hold(n, wake);
            return;
        case Entered::kOver:
            ++counters->duplicates;
            answer(n, false);
            return;
        case Entered::kPublished:
            break;
    }
    const uint32_t w = watch_record(member.local, record, wake);
    if (ours(w, slot, n, wake)) enqueue(w, n, wake);
}

// Whether a record found a moment ago is (still) that of the notification's operation: it may have retired
// meanwhile and serve another. If not, the notification is dealt with here.
bool ServiceEngine::State::ours(uint32_t w, GroupSlot slot, const Notification& n, WakeSet* wake) {
    if (w == kNone) {
        note_dropped(n, wake);
        return false;
    }
    if (watches[w].seen.group == slot && watches[w].seen.sequence == n.operation.sequence) return true;
    ++counters->duplicates;
    answer(n, false);
    return false;
}

// A block for the whole node: which of its ranks reads it?
void ServiceEngine::State::place_shared(GroupSlot slot, const Notification& n, WakeSet* wake) {
    const GroupEntry& group = memory.group(slot);
    const uint64_t sequence = n.operation.sequence;
    Atomic<uint64_t>& reader = memory.reader(group, sequence, n.source);
    const uint32_t* locals = memory.locals(group);
    uint64_t seen = reader.load(std::memory_order_acquire);
    if (seen >> 20 < sequence) {
        // Nobody yet. Choose among our ranks that have entered, a different one each time.
        uint32_t candidates = 0;
        RecordId record;
        for (uint32_t i = 0; i < group.local_count; ++i)
            candidates += memory.members(group)[locals[i]].service == self &&
                          entered(memory, group, i, sequence, &record) == Entered::kPublished;
        if (candidates == 0) {
            LateCounters& late = counters->late_of(n.collective);
            if (n.hops == 0 && !taking_parked) ++late.late;
            Message m;
            m.kind = MessageKind::kHandOn;
            m.notification = n;
            ++m.notification.hops;
            const uint16_t services = services_of[memory.node().value];
            const ServiceAddress next{memory.node(),
                                      ServiceId{static_cast<uint16_t>((self.value + 1) % services)}};
            if (m.notification.hops < services && add(next, m)) {
                ++late.handed_on;
            } else {
                park(n, wake);
            }
            return;
        }
        uint32_t choice = reader_round++ % candidates;
        for (uint32_t i = 0; i < group.local_count; ++i) {
            if (memory.members(group)[locals[i]].service != self ||
                entered(memory, group, i, sequence, &record) != Entered::kPublished || choice-- != 0)
                continue;
            // Only one service process gets to name the reader.
            const uint64_t mine = ring_entry(sequence, i + 1);
            if (reader.compare_exchange_strong(seen, mine, std::memory_order_seq_cst)) {
                seen = mine;
                // One of them may hold what other nodes want of the block.
                if (staging_descriptor_bytes != 0 && services_of[memory.node().value] > 1 && n.eager.empty())
                    memory.ring_all_services(wake);
                if (n.hops != 0 && !taking_parked) ++counters->late_of(n.collective).rescued;
            }
            break;
        }
    }
    if (seen >> 20 < sequence) {
        note_dropped(n, wake);  // the chosen one is leaving just now; the source tells it again
        return;
    }
    const uint32_t index = static_cast<uint32_t>((seen & kDone) - 1);
    RecordId record;
    if (seen >> 20 > sequence || index >= group.local_count ||
        entered(memory, group, index, sequence, &record) != Entered::kPublished) {
        ++counters->duplicates;
        answer(n, false);
        return;
    }
    const Member& holder = memory.members(group)[locals[index]];
    if (holder.service == self) {
        const uint32_t w = watch_record(holder.local, record, wake);
        if (ours(w, slot, n, wake)) enqueue(w, n, wake);
        return;
    }
    // The reader is another's rank: a repeated notification, or its service process has started anew.
    ++counters->duplicates;
    if (n.hops >= services_of[memory.node().value]) return;
    Message m;
    m.kind = MessageKind::kHandOn;
    m.notification = n;
    m.notification.hops = static_cast<uint8_t>(services_of[memory.node().value]);
    if (!add({memory.node(), holder.service}, m)) note_dropped(n, wake);
}

void ServiceEngine::State::hold(const Notification& n, WakeSet* wake) {
    List& bucket = held_buckets[held_bucket(n.operation, n.destination, held_bucket_count)];
    for (uint32_t i = bucket.head; i != kNone; i = held[i].next)
        if (held[i].n.operation == n.operation && held[i].n.destination == n.destination &&
            held[i].n.source == n.source) {
            ++counters->duplicates;
            return;
        }
    ++counters->late_of(n.collective).late;
    const uint32_t i = held.take();
    if (i == kNone) {
        ++counters->pool_full;
        note_dropped(n, wake);
        return;
    }
    held[i].n = n;
    held[i].n.eager = {};
    held[i].eager = keep_eager(n.eager);
    push_back(held.items, &bucket, i);
}

// The rank has entered: what came for it before may be read now.
void ServiceEngine::State::take_held(uint32_t w, WakeSet* wake) {
    const Watch& watch = watches[w];
    const OperationId id{GroupId{memory.group(watch.seen.group).id.load(std::memory_order_relaxed)},
                         watch.seen.sequence};
    List& bucket = held_buckets[held_bucket(id, watch.seen.rank.value, held_bucket_count)];
    for (uint32_t n = bucket.count; n != 0; --n) {
        const uint32_t i = pop_front(held.items, &bucket);
        Held& h = held[i];
        if (h.n.operation == id && h.n.destination == watch.seen.rank.value) {
            if (h.eager != kNone) h.n.eager = {eager[h.eager].bytes, static_cast<size_t>(h.n.bytes)};
            enqueue(w, h.n, wake);
            drop_eager(&h.eager);
            held.give(i);
        } else {
            push_back(held.items, &bucket, i);
        }
    }
}

void ServiceEngine::State::park(const Notification& n, WakeSet* wake) {
    uint32_t free = memory.limits().parked_max;
    for (uint32_t i = memory.limits().parked_max; i-- > 0;) {
        const ParkedEntry& entry = memory.parked(i);
        const uint32_t state = entry.state.load(std::memory_order_acquire);
        if (state == 0) free = i;
        if (state == kParked && load_relaxed(&entry.group) == n.operation.group.value &&
            load_relaxed(&entry.sequence) == n.operation.sequence &&
            load_relaxed(&entry.source) == n.source.value) {
            ++counters->duplicates;
            return;
        }
    }
    for (uint32_t i = free; i < memory.limits().parked_max; ++i) {
        ParkedEntry& entry = memory.parked(i);
        uint32_t unused = 0;
        if (!entry.state.compare_exchange_strong(unused, self.value + 1u, std::memory_order_acq_rel,
                                                 std::memory_order_relaxed))
            continue;
        FrameWriter frame;
        frame.start(entry.frame, kParkedFrameBytes, {.sender = here(), .incarnation = incarnation});
        Message m;
        m.kind = MessageKind::kHandOn;
        m.notification = n;
        LONGSHORE_CHECK(frame.add(m));
        entry.bytes = static_cast<uint32_t>(frame.finish().size());
        store_relaxed(&entry.group, n.operation.group.value);
        store_relaxed(&entry.sequence, n.operation.sequence);
        store_relaxed(&entry.source, n.source.value);
        store_relaxed(&entry.since_ns, now_ns);
        entry.state.store(kParked, std::memory_order_seq_cst);
        memory.header().parked_events.fetch_add(1, std::memory_order_seq_cst);
        ++counters->late_of(n.collective).parked;
        // A rank may have entered elsewhere meanwhile: everybody looks once more.
        memory.ring_all_services(wake);
        return;
    }
    ++counters->pool_full;
    note_dropped(n, wake);
}

void ServiceEngine::State::take_parked(WakeSet* wake) {
    const uint32_t events = memory.header().parked_events.load(std::memory_order_seq_cst);
    if (events == parked_seen && !parked_left) return;
    parked_seen = events;
    parked_left = false;
    for (uint32_t i = 0; i < memory.limits().parked_max; ++i) {
        ParkedEntry& entry = memory.parked(i);
        if (entry.state.load(std::memory_order_acquire) != kParked) continue;
        const uint64_t sequence = load_relaxed(&entry.sequence);
        GroupSlot slot;
        const GroupEntry* group = find_group(GroupId{load_relaxed(&entry.group)}, &slot);
        bool for_us = group == nullptr;
        for (uint32_t k = 0; !for_us && k < group->local_count; ++k) {
            RecordId ignored;
            for_us = memory.members(*group)[memory.locals(*group)[k]].service == self &&
                     entered(memory, *group, k, sequence, &ignored) != Entered::kNotYet;
        }
        if (!for_us) {
            parked_left = true;
            continue;
        }
        uint32_t parked = kParked;
        if (!entry.state.compare_exchange_strong(parked, self.value + 1u, std::memory_order_acq_rel,
                                                 std::memory_order_relaxed))
            continue;
        FrameReader reader;
        FrameHeader header;
        Message m;
        const bool read = entry.bytes <= kParkedFrameBytes &&
                          reader.start({entry.frame, entry.bytes}, &header) &&
                          reader.next(&m) == FrameReader::Result::kMessage;
        if (read) {
            count_unparked(m.notification.collective, load_relaxed(&entry.since_ns));
            taking_parked = true;
            on_notification(m.notification, wake);
            taking_parked = false;
        }
        entry.state.store(0, std::memory_order_release);
    }
}

// Who parked it may have read its clock later than we ours.
void ServiceEngine::State::count_unparked(Collective collective, uint64_t since_ns) {
    ++counters->unparked;
    LateCounters& late = counters->late_of(collective);
    const uint64_t parked_ns = now_ns > since_ns ? now_ns - since_ns : 0;
    late.parked_ns += parked_ns;
    if (parked_ns > late.parked_longest_ns) late.parked_longest_ns = parked_ns;
}

}  // namespace longshore
