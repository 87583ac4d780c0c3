// ServiceEngine, the source's side: which blocks of our ranks may be read, told to the service processes of
// their destinations in ring order (paper S0, III.D), and their acknowledgements.
#include "engine/service_state.h"

namespace longshore {
namespace {

// Visits of an operation are short, so that none keeps the others waiting.
constexpr uint32_t kNotificationsPerVisit = 64;

// The word in which a destination's acknowledgement is kept; of another generation where the record is
// recycled.
Atomic<ChunkWord>* acknowledgement_word(const NodeMemory& memory, const OperationRecord& record,
                                        uint32_t index) {
    const uint64_t offset = load_relaxed(&record.acknowledged_offset);
    Atomic<ChunkWord>* words = memory.at_checked<Atomic<ChunkWord>>(offset, uint64_t{index} + 1);
    return offset != 0 && words != nullptr ? &words[index] : nullptr;
}

bool acknowledged(const NodeMemory& memory, const OperationRecord& record, const RecordLook& seen,
                  uint32_t index) {
    const Atomic<ChunkWord>* word = acknowledgement_word(memory, record, index);
    return word == nullptr ||
           word->load(std::memory_order_acquire) != chunk_word(seen.generation, ChunkState::kFree);
}

}  // namespace

// Marks what is to be told: destinations (ranks, or nodes for shared blocks) on other nodes that have not
// acknowledged. `only`: those a given service process answers for.
void ServiceEngine::State::rearm(uint32_t i, const ServiceAddress* only) {
    Watch& w = watches[i];
    const OperationRecord& record = memory.record(w.local, w.record);
    const GroupEntry& group = memory.group(w.seen.group);
    const Geometry geometry(memory, record, w.local);
    if (!w.several_nodes || !geometry.is_source(w.seen.rank)) return;
    const bool shared = is_shared(w.seen.collective);
    w.repeats |= only != nullptr;
    uint64_t* bits = due_bits(i);
    for (uint32_t m = 0; m < w.seen.size; ++m) {
        const Member& member = memory.members(group)[m];
        if (member.node == memory.node() || !known({member.node, member.service})) continue;
        if (only != nullptr && (member.node != only->node || (!shared && member.service != only->service)))
            continue;
        const uint32_t bit = shared ? member.node.value : m;
        if (test_bit(bits, bit) || acknowledged(memory, record, w.seen, bit) ||
            geometry.outgoing(Rank{m}).bytes == 0)
            continue;
        set_bit(bits, bit);
        ++w.due_count;
    }
    // The record may have retired meanwhile; then what was read above means nothing, and the watch goes.
    if (!still(w)) w.due_count = 0;
    if (w.due_count != 0) w.unacknowledged = true;
}

void ServiceEngine::State::plan_notifications(uint32_t i) {
    Watch& w = watches[i];
    w.due_next = is_shared(w.seen.collective) ? memory.node().value + 1u : w.seen.rank.value + 1;
    rearm(i, nullptr);
    request_if_dropped(i);
}

namespace {

uint64_t dropped_hash(const OperationId& id, uint32_t destination) {
    return mix64(mix64(id.group.value ^ mix64(id.sequence)) ^ destination);
}

constexpr uint32_t kSeveralDropped = 2;  // no tag is even
uint32_t dropped_tag(uint64_t hash) {
    return static_cast<uint32_t>(hash >> 32) | 1;
}

// Marks of what was dropped hold for longer than a source takes to tell it again, at most 128 ticks: whoever
// has not asked by then need not. In units of about a second, of clocks that may differ a little.
constexpr int32_t kMarkHolds = 20;
uint32_t mark_of(uint64_t now_ns) {
    return static_cast<uint32_t>(now_ns >> 30) + 1;
}
bool holds(uint32_t mark, uint64_t now_ns) {
    return mark != 0 && static_cast<int32_t>(mark_of(now_ns) - mark) <= kMarkHolds;
}

}  // namespace

// A notification for which there was no room is forgotten, but not that there was one.
void ServiceEngine::State::note_dropped(const Notification& n, WakeSet* wake) {
    ++counters->dropped;
    const uint64_t hash = dropped_hash(n.operation, n.destination);
    if ((n.destination & kToNode) == 0) {
        DroppedMark& mark = dropped_marks[hash % kDroppedMarks];
        const bool alone = !holds(mark.when, now_ns) || mark.tag == dropped_tag(hash);
        mark = {alone ? dropped_tag(hash) : kSeveralDropped, mark_of(now_ns)};
        return;
    }
    // Any of the node's ranks may be the one to enter: all its service processes must know.
    memory.dropped(hash).store(mark_of(now_ns), std::memory_order_seq_cst);
    memory.header().dropped_count.fetch_add(1, std::memory_order_seq_cst);
    memory.ring_all_services(wake);
}

void ServiceEngine::State::request_if_dropped(uint32_t i) {
    Watch& w = watches[i];
    const OperationId id{GroupId{memory.group(w.seen.group).id.load(std::memory_order_relaxed)},
                         w.seen.sequence};
    if (is_shared(w.seen.collective)) {
        const uint64_t hash = dropped_hash(id, kToNode | memory.node().value);
        if (holds(memory.dropped(hash).load(std::memory_order_seq_cst), now_ns)) want_all(i);
        return;
    }
    const uint64_t hash = dropped_hash(id, w.seen.rank.value);
    DroppedMark& mark = dropped_marks[hash % kDroppedMarks];
    if (!holds(mark.when, now_ns) || (mark.tag != dropped_tag(hash) && mark.tag != kSeveralDropped)) return;
    // Of several that share a place nobody knows who is the last: they go on asking, at worst in vain.
    if (mark.tag != kSeveralDropped) mark = {};
    want_all(i);
}

// Whether the block need not be asked for: told for the first time, to the service process that reads it, and
// read in one piece. Of an allgather's any of a node's may be that; a broadcast's comes from several nodes.
bool ServiceEngine::State::goes_along(const Watch& w, ServiceAddress to, const Notification& n) const {
    if (!limits.sends_along || w.repeats || !n.eager.empty() || is_staged(w)) return false;
    if (is_shared(n.collective)) return n.collective != Collective::kBcast && services_of[to.node.value] == 1;
    return true;
}

void ServiceEngine::State::send_along(ServiceAddress to, const Notification& n) {
    const uint32_t i = alongs.take();
    DueAlong& along = alongs[i];
    along.to = to;
    along.block = n.block();
    along.region = {n.owner, n.region, n.region_generation};
    along.offset = n.offset;
    along.bytes = n.bytes;
    push_back(alongs.items, &due_alongs, i);
}

bool ServiceEngine::State::next_along(Action* out) {
    const uint32_t i = pop_front(alongs.items, &due_alongs);
    if (i == kNone) return false;
    const DueAlong& along = alongs[i];
    *out = Action{};
    out->kind = Action::Kind::kSendAlong;
    out->peer = along.to;
    out->part.block = along.block;
    out->name = along.region;
    out->offset = along.offset;
    out->bytes = along.bytes;
    alongs.give(i);
    return true;
}

// Returns whether something was sent.
bool ServiceEngine::State::send_notifications(uint32_t i) {
    Watch& w = watches[i];
    const OperationRecord& record = memory.record(w.local, w.record);
    const GroupEntry& group = memory.group(w.seen.group);
    const Geometry geometry(memory, record, w.local);
    const bool shared = is_shared(w.seen.collective);
    const uint32_t places = shared ? limits.nodes_max : w.seen.size;
    uint64_t* bits = due_bits(i);
    uint32_t sent = 0;
    for (uint32_t looked = 0; looked < places && w.due_count != 0 && sent < kNotificationsPerVisit;
         ++looked, ++w.due_next) {
        if (w.due_next >= places) w.due_next = 0;
        if (!test_bit(bits, w.due_next)) continue;

        Message m;
        m.kind = MessageKind::kNotify;
        Notification& n = m.notification;
        ServiceAddress to;
        Rank destination{w.due_next};
        if (shared) {
            to.node = NodeId{static_cast<uint16_t>(w.due_next)};
            // Any of the node's service processes will do: spread the sources over them.
            to.service = ServiceId{static_cast<uint16_t>(w.seen.rank.value % services_of[to.node.value])};
            n.destination = kToNode | w.due_next;
            destination = Rank{w.seen.rank.value == 0 ? 1u : 0u};  // any other: the block is the same
        } else {
            const Member& member = memory.members(group)[w.due_next];
            to = {member.node, member.service};
            n.destination = w.due_next;
        }
        const Block block = geometry.outgoing(destination);
        n.operation = {GroupId{group.id.load(std::memory_order_relaxed)}, w.seen.sequence};
        n.source = w.seen.rank;
        n.collective = w.seen.collective;
        n.origin = here();
        n.owner = w.local;
        n.region = block.at.region;
        n.offset = block.at.offset;
        n.bytes = block.bytes;
        if (!still(w)) return sent != 0;
        if (block.bytes == 0) {  // does not lie in its region: nobody may read it
            clear_bit(bits, w.due_next);
            --w.due_count;
            continue;
        }
        n.region_generation = memory.region(n.owner, n.region).generation.load(std::memory_order_acquire);
        if (n.region == kArenaRegion && n.bytes <= limits.eager_bytes) {
            n.eager = {memory.arena(n.owner) + n.offset, static_cast<size_t>(n.bytes)};
            ++counters->eager_blocks;
        }
        n.along = alongs.room() != 0 && goes_along(w, to, n);
        if (!add(to, m)) return sent != 0;
        if (n.along) send_along(to, n);
        ++counters->notifications;
        clear_bit(bits, w.due_next);
        --w.due_count;
        ++sent;
    }
    return sent != 0;
}

void ServiceEngine::State::on_acknowledge(const Acknowledgement& a, WakeSet* wake) {
    GroupSlot slot;
    const GroupEntry* group = find_group(a.operation.group, &slot);
    if (group == nullptr || a.source.value >= group->size) return;
    const Member& member = memory.members(*group)[a.source.value];
    RecordId id;
    if (member.node != memory.node() ||
        entered(memory, *group, member.local_index, a.operation.sequence, &id) != Entered::kPublished)
        return;
    OperationRecord& record = memory.record(member.local, id);
    RecordLook seen;
    if (!look(record, &seen) || seen.sequence != a.operation.sequence || seen.group != slot) return;
    const bool to_node = (a.destination & kToNode) != 0;
    const uint32_t bit = a.destination & ~kToNode;
    if (to_node != is_shared(seen.collective) || bit >= (to_node ? memory.node_count() : group->size)) return;
    // After the swap the source may complete, and its group be gone.
    const LocalRank local = member.local;
    Atomic<ChunkWord>* word = acknowledgement_word(memory, record, bit);
    ChunkWord waiting = chunk_word(seen.generation, ChunkState::kFree);
    const ChunkWord read = chunk_word(seen.generation, a.failed ? ChunkState::kFailed : ChunkState::kLanded);
    if (word == nullptr || !word->compare_exchange_strong(waiting, read, std::memory_order_seq_cst)) return;
    memory.ring_rank(local, wake);
    settled_some = true;

    const uint32_t index = watch_of[uint64_t{local.value} * memory.limits().records_max + id.value];
    if (index == 0 || watches[index - 1].seen.generation != seen.generation) return;
    Watch& w = watches[index - 1];
    w.resend_ticks = 0;
    if (test_bit(due_bits(index - 1), bit)) {
        clear_bit(due_bits(index - 1), bit);
        --w.due_count;
    }
}

// A destination has entered and lacks our block: its notification was dropped there for want of room.
void ServiceEngine::State::on_request(const Request& r, WakeSet* wake) {
    GroupSlot slot;
    const GroupEntry* group = find_group(r.operation.group, &slot);
    if (group == nullptr || r.source.value >= group->size) return;
    const Member& member = memory.members(*group)[r.source.value];
    RecordId id;
    if (member.node != memory.node() || member.service != self ||
        entered(memory, *group, member.local_index, r.operation.sequence, &id) != Entered::kPublished)
        return;
    const uint32_t i = watch_record(member.local, id, wake);
    if (i == kNone || !watches[i].several_nodes || watches[i].seen.group != slot ||
        watches[i].seen.sequence != r.operation.sequence)
        return;
    Watch& w = watches[i];
    const bool to_node = (r.destination & kToNode) != 0;
    const uint32_t bit = r.destination & ~kToNode;
    if (to_node != is_shared(w.seen.collective) || bit >= (to_node ? limits.nodes_max : group->size)) return;
    if (to_node ? bit == memory.node().value : memory.members(*group)[bit].node == memory.node()) return;
    const OperationRecord& record = memory.record(w.local, w.record);
    const Geometry geometry(memory, record, w.local);
    if (!geometry.is_source(w.seen.rank) || acknowledged(memory, record, w.seen, bit) ||
        test_bit(due_bits(i), bit))
        return;
    if (!to_node && geometry.outgoing(Rank{bit}).bytes == 0) return;
    w.repeats = true;
    set_bit(due_bits(i), bit);
    ++w.due_count;
    w.unacknowledged = true;
}

void ServiceEngine::State::on_region_request(ServiceAddress from, const RegionMessage& m) {
    const bool staging = m.owner == kStaging && m.region.value == self.value;
    if (!staging && (m.owner.value >= memory.rank_count() || m.region.value >= memory.limits().regions_max))
        return;
    const uint32_t i = replies.take();
    if (i == kNone) {  // it asks again
        ++counters->pool_full;
        return;
    }
    replies[i].peer = from;
    replies[i].owner = m.owner;
    replies[i].region = m.region;
    replies[i].generation = m.generation;
    push_back(replies.items, &due_replies, i);
}

bool ServiceEngine::State::send_replies() {
    for (uint32_t n = due_replies.count; n != 0; --n) {
        const uint32_t i = pop_front(replies.items, &due_replies);
        const RegionReply& reply = replies[i];
        Message m;
        m.kind = MessageKind::kRegion;
        m.region.owner = reply.owner;
        m.region.region = reply.region;
        m.region.generation = reply.generation;
        bool current = reply.generation == incarnation;
        if (reply.owner == kStaging) {
            m.region.descriptor = {staging_descriptor, staging_descriptor_bytes};
        } else {
            const RegionEntry& region = memory.region(reply.owner, reply.region);
            const uint32_t bytes = load_relaxed(&region.descriptor_bytes);
            if (bytes <= kDescriptorBytesMax)
                m.region.descriptor = {reinterpret_cast<const std::byte*>(region.descriptor), bytes};
            current = region.generation.load(std::memory_order_acquire) == reply.generation;
        }
        // Of a region that is gone there is nothing to tell but that: who asked need not wait any more.
        if (!current) m.region.descriptor = {};
        if (!add(reply.peer, m)) {
            push_back(replies.items, &due_replies, i);
            return false;
        }
        replies.give(i);
    }
    return true;
}

// A peer has started anew and knows nothing: tell it again what it has not acknowledged.
void ServiceEngine::State::resync(ServiceAddress with) {
    for (uint32_t i = 0; i < watches_used; ++i)
        if (watches[i].used && !watches[i].helps && still(watches[i])) rearm(i, &with);
    leave_parents(with.node);
    for (uint32_t i = 0; i < limits.imports_max; ++i) {
        if (imports[i].state != Import::State::kRequested || imports[i].origin != with) continue;
        --imports_requested;
        ask_for(i);
    }
}

}  // namespace longshore
