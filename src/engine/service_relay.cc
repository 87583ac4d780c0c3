// ServiceEngine: broadcasts that go from service process to service process (paper S1: binomial tree for few
// chunks, scatter and allgather for many). What the source tells and its acknowledgements stay between
// it and each node; only bytes go along the tree: a node asks its parent, which offers each chunk while that
// is in its staging memory, and keeps the slot until it is taken. One slot at least is never kept, so that
// everybody goes on. Who gets no offer (the parent is late, gone, or short of memory) reads at the source.
#include <algorithm>

#include "engine/service_state.h"

namespace longshore {
namespace {

constexpr uint32_t kMissedMax = 8;  // chunks that a child comes too late for, told one by one
// Nets, not mechanisms.
constexpr uint32_t kWantTicks = 2, kParentTicks = 4;

uint32_t incarnation_of(uint64_t ticket) {
    return static_cast<uint32_t>(ticket >> 32);
}

}  // namespace

// --- the tree

RelayTree ServiceEngine::State::relay_tree(const GroupEntry& group, NodeId source, NodeId of,
                                           uint64_t chunks) {
    std::fill(node_bits, node_bits + words, 0);
    for (uint32_t m = 0; m < group.size; ++m) {
        const uint32_t node = memory.members(group)[m].node.value;
        if (node < limits.nodes_max) set_bit(node_bits, node);
    }
    RelayTree tree;
    uint32_t before_source = 0, before = 0;
    for (uint32_t node = 0; node < limits.nodes_max; ++node) {
        if (!test_bit(node_bits, node)) continue;
        before_source += node < source.value;
        before += node < of.value;
        ++tree.count;
    }
    tree.index = (before + tree.count - before_source) % tree.count;
    tree.ring = tree.count > 2 && chunks >= tree.count - 1;
    return tree;
}

// Of the group that relay_tree() has just looked at.
NodeId ServiceEngine::State::relay_node(NodeId source, uint32_t index) const {
    uint32_t node = source.value;
    while (index != 0) {
        node = (node + 1) % limits.nodes_max;
        index -= test_bit(node_bits, node);
    }
    return NodeId{static_cast<uint16_t>(node)};
}

// --- a block of our own

// A block has been queued; it is read through staging memory, or this does nothing.
void ServiceEngine::State::begin_relay(uint32_t i) {
    QueuedRead& q = queue[i];
    const Watch& w = watches[q.watch];
    const CollectiveRules& rules = rules_of(w.seen.collective);
    if (w.helps || !rules.is_shared || rules.givers != Who::kRoot || !is_staged(w)) return;
    const ChunkRange chunks = arriving_chunks(memory, memory.record(w.local, w.record), q.n.source);
    if (chunks.chunk_bytes > limits.staging_slot_bytes) return;
    const GroupEntry& group = memory.group(w.seen.group);
    const RelayTree tree = relay_tree(group, q.n.origin.node, memory.node(), chunks.count);
    if (tree.count < 3) return;
    const uint32_t id = relays.take();
    if (id == kNone) return;
    q.relay = id;
    Relay& r = relays[id];
    r.queued = i;
    r.operation = q.n.operation;
    r.source = q.n.source;
    r.tree = tree;
    if (tree.parent() == 0) return;
    r.parent = relay_node(q.n.origin.node, tree.parent());
    // Where the source tells of it first.
    const auto all = memory.peers(group);
    uint32_t p = 0;
    while (all[p].at.node != r.parent) ++p;
    r.parent_first = teller_for(group, p, r.source);
    for (uint16_t k = 0; k < services_of[r.parent.value]; ++k)
        if (peer({r.parent, ServiceId{k}}).lost) return;
    r.ticket = uint64_t{incarnation} << 32 | ++ticket_count;
    r.asks = r.want_due = true;
}

// Its block is there, or will not be.
void ServiceEngine::State::end_relay(uint32_t i) {
    Relay& r = relays[queue[i].relay];
    dismiss_all(&r);
    r.queued = kNone;
    relays.give(queue[i].relay);
    queue[i].relay = kNone;
}

// No (more) chunks from the parent: the source is asked for all that we lack.
void ServiceEngine::State::go_alone(Relay* r) {
    if (!r->asks) return;
    r->asks = r->want_due = false;
    ++counters->relays_refused;
    QueuedRead& q = queue[r->queued];
    q.chunk = 0;
    if (q.place != QueuedRead::Place::kAwaiting) return;
    make_ready(r->queued);
}

// A service process of the node knows nothing of us any more.
void ServiceEngine::State::leave_parents(NodeId node) {
    for (uint32_t i = 0; i < relays.made; ++i) {
        Relay& r = relays[i];
        if (r.queued != kNone && (r.parent == node || queue[r.queued].n.origin.node == node)) go_alone(&r);
    }
}

Relay* ServiceEngine::State::find_relay(const OperationId& operation, Rank source) {
    for (uint32_t i = 0; i < relays.made; ++i)
        if (relays[i].queued != kNone && relays[i].operation == operation && relays[i].source == source)
            return &relays[i];
    return nullptr;
}

bool ServiceEngine::State::awaits(const QueuedRead& q, uint32_t chunk) const {
    return q.relay != kNone && relays[q.relay].asks && !relays[q.relay].tree.is_own(chunk);
}

// --- children

// `ticks`: since it came.
void ServiceEngine::State::on_want(const Relayed& want, uint32_t ticks) {
    if (!known(want.origin) || want.origin.node == memory.node()) {
        ++counters->malformed_messages;
        return;
    }
    GroupSlot slot;
    const GroupEntry* group = find_group(want.operation.group, &slot);
    if (group == nullptr || group->local_count == group->size || want.source.value >= group->size) {
        pass(want.origin, want.ticket);
        return;
    }
    const uint64_t sequence = want.operation.sequence;
    const uint64_t reader = memory.reader_of(*group, sequence, want.source);
    const uint32_t index = static_cast<uint32_t>((reader & kDone) - 1);
    // Where there is but one rank, it is the reader before the block has been told of.
    const bool told = group->local_count > 1 || find_row(want.operation, want.source) != kNone;
    if (reader >> 20 == sequence && index < group->local_count && told) {
        const Member& holder = memory.members(*group)[memory.locals(*group)[index]];
        if (holder.service != self) {
            Message m;
            m.kind = MessageKind::kWant;
            m.relayed = want;
            ++m.relayed.hops;
            if (want.hops != 0 || !add({memory.node(), holder.service}, m)) pass(want.origin, want.ticket);
            return;
        }
        Relay* r = find_relay(want.operation, want.source);
        if (r == nullptr || !adopt(r, want)) pass(want.origin, want.ticket);
        return;
    }
    // Where a rank has entered, the source tells of the block soon. Not where there is no room for it: it may
    // be dropped, and what has the room may wait for who wants this.
    bool expected = false;
    for (uint32_t k = 0; rows.room() != 0 && reader >> 20 <= sequence && !expected && k < group->local_count;
         ++k)
        expected = lacks(*group, k, sequence, want.source);
    const uint32_t held_as = expected ? wants.take() : kNone;
    if (held_as == kNone) {
        pass(want.origin, want.ticket);
        return;
    }
    wants[held_as].want = want;
    wants[held_as].ticks = ticks;
    push_back(wants.items, &held_wants, held_as);
}

// False: it had better go alone.
bool ServiceEngine::State::adopt(Relay* r, const Relayed& want) {
    const QueuedRead& q = queue[r->queued];
    const Watch& w = watches[q.watch];
    if (r->child_count == kRelayChildrenMax || q.cancelled || !still(w) || peer(want.origin).lost ||
        peer(want.origin).incarnation > incarnation_of(want.ticket))
        return false;
    const ChunkRange chunks = arriving_chunks(memory, memory.record(w.local, w.record), q.n.source);
    const RelayTree tree =
        relay_tree(memory.group(w.seen.group), q.n.origin.node, want.origin.node, chunks.count);
    Relay::Child child{want.origin, want.ticket, tree.index};
    // What is in a slot is offered now, what will be in one then; the rest it has missed.
    uint32_t missed_chunks[kMissedMax], missed = 0;
    for (uint32_t c = 0; c < chunks.count; ++c) {
        const ChunkWord word = chunks.words[c].load(std::memory_order_acquire);
        if ((tree.ring && tree.is_own(c)) || word == chunk_word(q.generation, ChunkState::kFree)) continue;
        uint32_t move = 0;
        while (move < moves.made &&
               (moves[move].over || moves[move].queued != r->queued || moves[move].chunk != c))
            ++move;
        if (move < moves.made && !moves[move].fetched) continue;
        if (move < moves.made && offer_to(child, move)) continue;
        if (missed == kMissedMax) return false;
        missed_chunks[missed++] = c;
    }
    for (uint32_t i = 0; i < missed; ++i)
        if (!skip_chunk(child, uint64_t{missed_chunks[i]} * chunks.chunk_bytes)) return false;
    r->children[r->child_count++] = child;
    return true;
}

// A block may have found its reader.
void ServiceEngine::State::answer_held_wants() {
    for (uint32_t n = held_wants.count; n != 0; --n) {
        const uint32_t i = pop_front(wants.items, &held_wants);
        const HeldWant waiting = wants[i];
        wants.give(i);
        on_want(waiting.want, waiting.ticks);
    }
}

// A chunk has come into its slot.
void ServiceEngine::State::offer_chunk(uint32_t move) {
    const StagedMove& m = moves[move];
    Relay& r = relays[queue[m.queued].relay];
    for (uint32_t i = r.child_count; i-- > 0;) {
        const Relay::Child& child = r.children[i];
        if (r.tree.ring && r.tree.scattered_to(m.chunk) == child.index) continue;
        if (!offer_to(child, move) && !skip_chunk(child, chunk_offset(m))) dismiss(&r, i);
    }
}

bool ServiceEngine::State::offer_to(const Relay::Child& child, uint32_t move) {
    StagedMove& m = moves[move];
    if (m.pin_count == kRelayChildrenMax || (m.pin_count == 0 && pinned + 1 >= limits.staging_slots) ||
        peer(child.at).lost || peer(child.at).pins == kPinsOfChildMax || m.done != 0)
        return false;
    Message message;
    message.kind = MessageKind::kOffer;
    message.relayed.ticket = child.ticket;
    message.relayed.slot = move;
    message.relayed.serial = m.serial;
    message.relayed.offset = chunk_offset(m);
    message.relayed.bytes = m.copy.bytes;
    if (!add(child.at, message)) return false;
    if (m.pin_count == 0) ++pinned;
    ++peer(child.at).pins;
    m.pins[m.pin_count++] = {child.at, child.ticket};
    return true;
}

bool ServiceEngine::State::skip_chunk(const Relay::Child& child, uint64_t offset) {
    Message message;
    message.kind = MessageKind::kOffer;
    message.relayed.ticket = child.ticket;
    message.relayed.offset = offset;
    return add(child.at, message);
}

void ServiceEngine::State::dismiss(Relay* r, uint32_t child) {
    pass(r->children[child].at, r->children[child].ticket);
    r->children[child] = r->children[--r->child_count];
}

void ServiceEngine::State::dismiss_all(Relay* r) {
    while (r->child_count != 0) dismiss(r, r->child_count - 1);
}

void ServiceEngine::State::pass(ServiceAddress to, uint64_t ticket) {
    const uint32_t i = passes.take();
    if (i == kNone) {  // it gives up by itself, later
        ++counters->pool_full;
        return;
    }
    passes[i].to = to;
    passes[i].ticket = ticket;
    push_back(passes.items, &due_passes, i);
}

void ServiceEngine::State::on_taken(ServiceAddress from, const Relayed& m) {
    if (m.slot >= moves.made || moves[m.slot].serial != m.serial) return;
    for (uint32_t k = 0; k < moves[m.slot].pin_count; ++k)
        // What was offered to an earlier incarnation of it is not what this one is reading.
        if (moves[m.slot].pins[k].at == from && moves[m.slot].pins[k].ticket == m.ticket) {
            unpin(m.slot, k);
            return;
        }
}

void ServiceEngine::State::unpin(uint32_t move, uint32_t pin) {
    StagedMove& m = moves[move];
    --peer(m.pins[pin].at).pins;
    m.pins[pin] = m.pins[--m.pin_count];
    if (m.pin_count != 0) return;
    --pinned;
    if (m.over) moves.give(move);
}

// Earlier incarnations of a service process do not read any more. (Of one that is lost nobody knows whether
// it still does: what it was offered is kept for good.)
void ServiceEngine::State::drop_pins(ServiceAddress of, uint32_t before) {
    for (uint32_t i = 0; i < moves.made; ++i)
        for (uint32_t k = moves[i].pin_count; k-- > 0;)
            if (moves[i].pins[k].at == of && incarnation_of(moves[i].pins[k].ticket) < before) unpin(i, k);
    for (uint32_t i = 0; i < relays.made; ++i)
        for (uint32_t k = relays[i].queued != kNone ? relays[i].child_count : 0; k-- > 0;) {
            const Relay::Child& child = relays[i].children[k];
            if (child.at == of && incarnation_of(child.ticket) < before) dismiss(&relays[i], k);
        }
}

// --- the parent's offers

void ServiceEngine::State::on_offer(ServiceAddress from, uint32_t from_incarnation, const Relayed& offer) {
    const uint32_t i = offered.take();
    if (i == kNone) {
        // Slots are never more than there is room for; what is not in one is read at the source.
        if (offer.slot != Relayed::kNoSlot) ++counters->malformed_messages;
        if (Relay* r = asking(offer.ticket)) go_alone(r);
        return;
    }
    offered[i].from = from;
    offered[i].incarnation = from_incarnation;
    offered[i].offer = offer;
    push_back(offered.items, &offers, i);
    Relay* r = asking(offer.ticket);
    if (r == nullptr) return;
    r->ticks = 0;
    ++r->offer_count;
}

// What it offered before that holds.
void ServiceEngine::State::on_pass(const Relayed& m) {
    Relay* r = asking(m.ticket);
    if (r == nullptr) return;
    r->passed = true;
    if (r->offer_count == 0) go_alone(r);
}

Relay* ServiceEngine::State::asking(uint64_t ticket) {
    for (uint32_t i = 0; i < relays.made; ++i)
        if (relays[i].queued != kNone && relays[i].asks && relays[i].ticket == ticket) return &relays[i];
    return nullptr;
}

bool ServiceEngine::State::next_offered(Action* out) {
    for (uint32_t n = offers.count; n != 0; --n) {
        const uint32_t i = pop_front(offered.items, &offers);
        if (!offered[i].over) {
            Relay* r = asking(offered[i].offer.ticket);
            const Took took = r != nullptr ? take_offer(r, i) : Took::kNo;
            if (took == Took::kLater) {
                push_back(offered.items, &offers, i);
                continue;
            }
            if (r != nullptr && --r->offer_count == 0 && r->passed) go_alone(r);
            if (took == Took::kYes) return next_move(out);
            offered[i].over = true;
        }
        Message m;
        m.kind = MessageKind::kTaken;
        m.relayed.ticket = offered[i].offer.ticket;
        m.relayed.slot = offered[i].offer.slot;
        m.relayed.serial = offered[i].offer.serial;
        if (m.relayed.slot == Relayed::kNoSlot || add(offered[i].from, m)) {
            offered.give(i);
        } else {
            push_back(offered.items, &offers, i);
        }
    }
    return false;
}

// Begins to read an offered chunk, or (no slot) the same one at the source.
ServiceEngine::State::Took ServiceEngine::State::take_offer(Relay* r, uint32_t i) {
    const Offered& o = offered[i];
    const QueuedRead& q = queue[r->queued];
    if (q.cancelled) return Took::kNo;
    const bool has_slot = o.offer.slot != Relayed::kNoSlot;
    if (moves.room() == 0) return Took::kLater;
    const Watch& w = watches[q.watch];
    const ChunkRange chunks = arriving_chunks(memory, memory.record(w.local, w.record), q.n.source);
    if (!still(w)) return Took::kNo;
    const uint64_t offset = o.offer.offset;
    if (chunks.chunk_bytes == 0 || offset >= q.n.bytes || offset % chunks.chunk_bytes != 0 ||
        (has_slot && o.offer.bytes != std::min<uint64_t>(chunks.chunk_bytes, q.n.bytes - offset))) {
        go_alone(r);  // not cut as ours is
        return Took::kNo;
    }
    const uint32_t chunk = static_cast<uint32_t>(offset / chunks.chunk_bytes);
    MemoryRef to;
    uint64_t bytes, claim_offset;
    if (!take_chunk(r->queued, chunk, &to, &bytes, &claim_offset)) return Took::kNo;
    charge(share_pool[w.share], bytes);
    const uint32_t move = stage_read(r->queued, chunk, claim_offset, to, bytes);
    moves[move].offered = i;
    if (!has_slot) end_offer(move);
    return Took::kYes;
}

// What was offered could not be read: its owner has gone. The source has it.
void ServiceEngine::State::return_offer(uint32_t move) {
    const StagedMove m = moves[move];
    const uint32_t i = m.queued;
    end_offer(move);
    settle_chunk(*memory.at<Atomic<ChunkWord>>(m.copy.claim_offset), m.copy.generation, ChunkState::kFree);
    moves[move].over = true;
    moves[move].queued = kNone;
    moves.give(move);
    QueuedRead& q = queue[i];
    chunk_over(i);
    q.chunk = 0;
    if (q.place == QueuedRead::Place::kIssued) make_ready(i);
    go_alone(&relays[q.relay]);
}

void ServiceEngine::State::end_offer(uint32_t move) {
    const uint32_t i = moves[move].offered;
    moves[move].offered = kNone;
    offered[i].over = true;
    push_back(offered.items, &offers, i);
}

// --- in time

void ServiceEngine::State::send_relay_messages() {
    for (uint32_t n = due_passes.count; n != 0; --n) {
        const uint32_t i = due_passes.head;
        Message m;
        m.kind = MessageKind::kPass;
        m.relayed.ticket = passes[i].ticket;
        if (!add(passes[i].to, m)) break;
        passes.give(pop_front(passes.items, &due_passes));
    }
    for (uint32_t i = 0; i < relays.made; ++i) {
        Relay& r = relays[i];
        if (r.queued == kNone || !r.want_due) continue;
        Message m;
        m.kind = MessageKind::kWant;
        m.relayed.operation = r.operation;
        m.relayed.source = r.source;
        m.relayed.origin = here();
        m.relayed.ticket = r.ticket;
        r.want_due = !add(r.parent_first, m);
    }
}

void ServiceEngine::State::tick_relays() {
    for (uint32_t i = 0; i < relays.made; ++i) {
        Relay& r = relays[i];
        if (r.queued == kNone || !r.asks || ++r.ticks < kParentTicks) continue;
        ++counters->relays_overdue;
        go_alone(&r);
    }
    for (uint32_t n = held_wants.count; n != 0; --n) {
        const uint32_t i = pop_front(wants.items, &held_wants);
        if (++wants[i].ticks < kWantTicks) {
            push_back(wants.items, &held_wants, i);
            continue;
        }
        pass(wants[i].want.origin, wants[i].want.ticket);
        wants.give(i);
    }
}

}  // namespace longshore
