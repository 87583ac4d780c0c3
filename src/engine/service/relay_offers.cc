#include "engine/service/relay_offers.h"

namespace longshore {
namespace {

constexpr uint32_t kMissedMax = 8;  // chunks that a child comes too late for, told one by one
constexpr uint32_t kWantTicks = 2;
constexpr uint32_t kPassesMax = 256;

}  // namespace

void RelayOffers::carve(Carver& c) {
    const uint32_t relays = context_.limits.staging_slots != 0 ? kRelaysMax : 0;
    c.pool(&pool_, relays);
    c.pool(&wants_, relays);
    c.pool(&passes_, kPassesMax);
    readers_ = c.filled<Readers>(context_.limits.staging_slots, {});
    read_by_ = c.filled<uint32_t>(peers_.count(), 0);
}

uint32_t RelayOffers::find(uint32_t queued) const {
    for (uint32_t i = 0; i < pool_.made; ++i)
        if (pool_[i].queued == queued) return i;
    return kNone;
}

void RelayOffers::block_queued(uint32_t queued) {
    RelayTree tree;
    if (!is_relayed(context_, watches_[queue_[queued].watch], queue_[queued], &tree)) return;
    const uint32_t i = pool_.take();
    if (i == kNone) return;
    pool_[i].queued = queued;
    pool_[i].tree = tree;
    queue_.mark_relayed(queued);
}

void RelayOffers::block_ended(uint32_t queued) {
    if (!queue_[queued].is_relayed) return;
    dismiss_children(queued);
    const uint32_t i = find(queued);
    pool_[i].queued = kNone;
    pool_.give(i);
}

void RelayOffers::on_want(const Relayed& want, uint32_t ticks) {
    const NodeMemory& memory = context_.memory;
    if (!peers_.known(want.origin) || want.origin.node == memory.node()) {
        ++context_.counters->malformed_messages;
        return;
    }
    GroupSlot slot;
    const GroupEntry* group = groups_.find(want.operation.group, &slot);
    if (group == nullptr || group->local_count == group->size || want.source.value >= group->size) {
        pass(want.origin, want.ticket);
        return;
    }
    const uint64_t sequence = want.operation.sequence;
    const uint64_t reader = memory.reader_of(*group, sequence, want.source);
    const uint32_t index = static_cast<uint32_t>((reader & kDone) - 1);
    const uint32_t row = rows_.find(want.operation, want.source);
    // Where there is but one rank, it is the reader before the block has been told of.
    const bool told = group->local_count > 1 || row != kNone;
    if (reader >> 20 == sequence && index < group->local_count && told) {
        const Member& holder = memory.members(*group)[memory.locals(*group)[index]];
        if (holder.service != context_.self) {
            Message m;
            m.kind = MessageKind::kWant;
            m.relayed = want;
            ++m.relayed.hops;
            if (want.hops != 0 || !outbox_.add({memory.node(), holder.service}, m))
                pass(want.origin, want.ticket);
            return;
        }
        for (uint32_t i = 0; i < pool_.made; ++i) {
            if (pool_[i].queued == kNone || queue_[pool_[i].queued].block.operation != want.operation ||
                queue_[pool_[i].queued].block.source != want.source)
                continue;
            if (adopt(&pool_[i], want)) return;
            break;
        }
        pass(want.origin, want.ticket);
        return;
    }
    // Where a rank has entered, the source tells of the block soon. Not where there is no room for it: it may
    // be dropped, and what has the room may wait for who wants this.
    bool expected = false;
    for (uint32_t k = 0; rows_.room() != 0 && reader >> 20 <= sequence && !expected && k < group->local_count;
         ++k)
        expected = lacks(memory, *group, k, sequence, want.source);
    const uint32_t i = expected ? wants_.take() : kNone;
    if (i == kNone) {
        pass(want.origin, want.ticket);
        return;
    }
    wants_[i].want = want;
    wants_[i].ticks = ticks;
    push_back(wants_.items, &waiting_, i);
}

// False: it had better go alone.
bool RelayOffers::adopt(Relay* r, const Relayed& want) {
    const QueuedRead& q = queue_[r->queued];
    const Watch& w = watches_[q.watch];
    if (r->child_count == kRelayChildrenMax || q.cancelled || !watches_.still(w) ||
        peers_.is_lost(want.origin) || peers_.incarnation(want.origin) > incarnation_of(want.ticket))
        return false;
    const NodeMemory& memory = context_.memory;
    const ChunkRange chunks = arriving_chunks(memory, memory.record(w.local, w.record), q.block.source);
    const RelayTree tree = RelayTree::in_group(memory, memory.group(w.seen.group), q.block.origin.node,
                                               want.origin.node, chunks.count);
    const Child child{want.origin, want.ticket, tree.index};
    // What is in a slot is offered now, what will be in one then; the rest it has missed.
    uint32_t missed_chunks[kMissedMax], missed = 0;
    for (uint32_t c = 0; c < chunks.count; ++c) {
        const ChunkWord word = chunks.words[c].load(std::memory_order_acquire);
        if ((tree.ring && tree.own().has(c)) || word == chunk_word(q.generation, ChunkState::kFree)) continue;
        uint32_t move = 0;
        while (move < staging_.limit() &&
               (staging_.view(move).queued != r->queued || staging_.view(move).chunk != c))
            ++move;
        if (move < staging_.limit() && (!staging_.view(move).in_slot || offer_to(child, move))) continue;
        if (missed == kMissedMax) return false;
        missed_chunks[missed++] = c;
    }
    for (uint32_t i = 0; i < missed; ++i)
        if (!skip(child, uint64_t{missed_chunks[i]} * chunks.chunk_bytes)) return false;
    r->children[r->child_count++] = child;
    return true;
}

void RelayOffers::answer_waiting() {
    for (uint32_t n = waiting_.count; n != 0; --n) {
        const uint32_t i = pop_front(wants_.items, &waiting_);
        const Want want = wants_[i];
        wants_.give(i);
        on_want(want.want, want.ticks);
    }
}

void RelayOffers::offer(uint32_t move) {
    const Staging::View view = staging_.view(move);
    if (view.queued == kNone || !queue_[view.queued].is_relayed) return;
    Relay& r = pool_[find(view.queued)];
    for (uint32_t i = r.child_count; i-- > 0;) {
        const Child& child = r.children[i];
        if (r.tree.ring && r.tree.scattered_to(view.chunk) == child.index) continue;
        if (!offer_to(child, move) && !skip(child, view.offset)) dismiss(&r, i);
    }
}

bool RelayOffers::offer_to(const Child& child, uint32_t move) {
    Readers& readers = readers_[move];
    uint32_t& read_by_it = read_by_[peers_.index(child.at)];
    const Staging::View view = staging_.view(move);
    if (readers.count == kRelayChildrenMax ||
        (readers.count == 0 && kept_ + 1 >= context_.limits.staging_slots) || peers_.is_lost(child.at) ||
        read_by_it == kPinsOfChildMax || !view.in_slot)
        return false;
    Message m;
    m.kind = MessageKind::kOffer;
    m.relayed.ticket = child.ticket;
    m.relayed.slot = move;
    m.relayed.serial = view.serial;
    m.relayed.offset = view.offset;
    m.relayed.bytes = view.bytes;
    if (!outbox_.add(child.at, m)) return false;
    kept_ += readers.count == 0;
    ++read_by_it;
    readers.all[readers.count++] = {child.at, child.ticket};
    staging_.hold(move);
    return true;
}

bool RelayOffers::skip(const Child& child, uint64_t offset) {
    Message m;
    m.kind = MessageKind::kOffer;
    m.relayed.ticket = child.ticket;
    m.relayed.offset = offset;
    return outbox_.add(child.at, m);
}

void RelayOffers::dismiss(Relay* r, uint32_t child) {
    pass(r->children[child].at, r->children[child].ticket);
    r->children[child] = r->children[--r->child_count];
}

void RelayOffers::dismiss_children(uint32_t queued) {
    const uint32_t i = find(queued);
    while (i != kNone && pool_[i].child_count != 0) dismiss(&pool_[i], pool_[i].child_count - 1);
}

void RelayOffers::pass(ServiceAddress to, uint64_t ticket) {
    const uint32_t i = passes_.take();
    if (i == kNone) {  // it gives up by itself, later
        ++context_.counters->pool_full;
        return;
    }
    passes_[i].to = to;
    passes_[i].ticket = ticket;
    push_back(passes_.items, &due_passes_, i);
}

void RelayOffers::on_taken(ServiceAddress from, const Relayed& m) {
    if (m.slot >= staging_.limit() || staging_.view(m.slot).serial != m.serial) return;
    const Readers& readers = readers_[m.slot];
    for (uint32_t k = 0; k < readers.count; ++k)
        // What was offered to an earlier incarnation of it is not what this one is reading.
        if (readers.all[k].at == from && readers.all[k].ticket == m.ticket) {
            forget_reader(m.slot, k);
            return;
        }
}

void RelayOffers::forget_reader(uint32_t move, uint32_t k) {
    Readers& readers = readers_[move];
    --read_by_[peers_.index(readers.all[k].at)];
    readers.all[k] = readers.all[--readers.count];
    kept_ -= readers.count == 0;
    staging_.release(move);
}

void RelayOffers::drop_before(ServiceAddress of, uint32_t incarnation) {
    for (uint32_t i = 0; i < staging_.limit(); ++i)
        for (uint32_t k = readers_[i].count; k-- > 0;)
            if (readers_[i].all[k].at == of && incarnation_of(readers_[i].all[k].ticket) < incarnation)
                forget_reader(i, k);
    for (uint32_t i = 0; i < pool_.made; ++i)
        for (uint32_t k = pool_[i].queued != kNone ? pool_[i].child_count : 0; k-- > 0;) {
            const Child& child = pool_[i].children[k];
            if (child.at == of && incarnation_of(child.ticket) < incarnation) dismiss(&pool_[i], k);
        }
}

void RelayOffers::send_passes() {
    for (uint32_t n = due_passes_.count; n != 0; --n) {
        const uint32_t i = due_passes_.head;
        Message m;
        m.kind = MessageKind::kPass;
        m.relayed.ticket = passes_[i].ticket;
        if (!outbox_.add(passes_[i].to, m)) break;
        passes_.give(pop_front(passes_.items, &due_passes_));
    }
}

void RelayOffers::tick() {
    for (uint32_t n = waiting_.count; n != 0; --n) {
        const uint32_t i = pop_front(wants_.items, &waiting_);
        if (++wants_[i].ticks < kWantTicks) {
            push_back(wants_.items, &waiting_, i);
            continue;
        }
        pass(wants_[i].want.origin, wants_[i].want.ticket);
        wants_.give(i);
    }
}

uint32_t RelayOffers::slots_of_lost() const {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < staging_.limit(); ++i) {
        bool lost = staging_.view(i).queued == kNone && readers_[i].count != 0;
        for (uint32_t k = 0; k < readers_[i].count; ++k) lost = lost && peers_.is_lost(readers_[i].all[k].at);
        kept += lost;
    }
    return kept;
}

}  // namespace longshore
