#include "engine/service/relay_intake.h"

#include <algorithm>

namespace longshore {
namespace {

constexpr uint32_t kParentTicks = 4;
// Of each relay's parent so many slots can be ours, and no more is told of than there is room for.
constexpr uint32_t kOfferedMax = kRelaysMax * kPinsOfChildMax;

}  // namespace

void RelayIntake::carve(Carver& c) {
    const bool on = context_.limits.staging_slots != 0;
    c.pool(&pool_, on ? kRelaysMax : 0);
    c.pool(&offered_, on ? kOfferedMax : 0);
    offered_of_ = c.filled<uint32_t>(context_.limits.staging_slots, kNone);
}

void RelayIntake::block_queued(uint32_t queued) {
    const QueuedRead& q = queue_[queued];
    const Watch& w = watches_[q.watch];
    RelayTree tree;
    if (!is_relayed(context_, w, q, &tree) || tree.parent() == 0) return;
    const NodeMemory& memory = context_.memory;
    const GroupEntry& group = memory.group(w.seen.group);
    const uint32_t peer = relay_peer(memory, group, q.block.origin.node, tree.parent());
    const NodeId parent = memory.peers(group)[peer].at.node;
    for (uint16_t k = 0; k < peers_.count_of(parent); ++k)
        if (peers_.is_lost({parent, ServiceId{k}})) return;
    const uint32_t i = pool_.take();
    if (i == kNone) return;
    Intake& intake = pool_[i];
    intake.queued = queued;
    intake.parent = parent;
    // Where the source tells of it first.
    intake.parent_first = teller_for(memory, group, peer, q.block.source);
    intake.ticket = uint64_t{context_.incarnation} << 32 | ++ticket_count_;
    intake.want_due = true;
    queue_.set_own(queued, tree.own());
}

void RelayIntake::block_ended(uint32_t queued) {
    for (uint32_t i = 0; i < pool_.made; ++i) {
        if (pool_[i].queued != queued) continue;
        pool_[i].queued = kNone;
        pool_.give(i);
        return;
    }
}

uint32_t RelayIntake::find(uint64_t ticket) const {
    for (uint32_t i = 0; i < pool_.made; ++i)
        if (pool_[i].queued != kNone && pool_[i].ticket == ticket) return i;
    return kNone;
}

// No (more) chunks from the parent: the source is asked for all that we lack.
void RelayIntake::go_alone(uint32_t i) {
    const uint32_t queued = pool_[i].queued;
    ++context_.counters->relays_refused;
    block_ended(queued);
    queue_.read_all(queued);
}

void RelayIntake::leave_parents(NodeId node) {
    for (uint32_t i = 0; i < pool_.made; ++i)
        if (pool_[i].queued != kNone &&
            (pool_[i].parent == node || queue_[pool_[i].queued].block.origin.node == node))
            go_alone(i);
}

void RelayIntake::on_offer(ServiceAddress from, uint32_t incarnation, const Relayed& offer) {
    const uint32_t intake = find(offer.ticket);
    const uint32_t i = offered_.take();
    if (i == kNone) {
        // Slots are never more than there is room for; what is not in one is read at the source.
        if (offer.slot != Relayed::kNoSlot) ++context_.counters->malformed_messages;
        if (intake != kNone) go_alone(intake);
        return;
    }
    offered_[i].from = from;
    offered_[i].incarnation = incarnation;
    offered_[i].offer = offer;
    push_back(offered_.items, &offers_, i);
    if (intake == kNone) return;
    pool_[intake].ticks = 0;
    ++pool_[intake].offer_count;
}

void RelayIntake::on_pass(const Relayed& m) {
    const uint32_t i = find(m.ticket);
    if (i == kNone) return;
    pool_[i].passed = true;
    if (pool_[i].offer_count == 0) go_alone(i);
}

bool RelayIntake::next(TakenChunk* out) {
    for (uint32_t n = offers_.count; n != 0; --n) {
        const uint32_t i = pop_front(offered_.items, &offers_);
        Took took = Took::kNo;
        if (!offered_[i].over) {
            const uint32_t intake = find(offered_[i].offer.ticket);
            if (intake != kNone) took = take(intake, i, out);
            if (took == Took::kLater) {
                push_back(offered_.items, &offers_, i);
                continue;
            }
            // It may have gone alone.
            if (intake != kNone && pool_[intake].queued != kNone && --pool_[intake].offer_count == 0 &&
                pool_[intake].passed)
                go_alone(intake);
            offered_[i].over = took == Took::kNo || offered_[i].offer.slot == Relayed::kNoSlot;
        }
        if (offered_[i].over && !answer(i)) push_back(offered_.items, &offers_, i);
        if (took == Took::kYes) return true;
    }
    return false;
}

// False: no room in the frame.
bool RelayIntake::answer(uint32_t i) {
    Message m;
    m.kind = MessageKind::kTaken;
    m.relayed.ticket = offered_[i].offer.ticket;
    m.relayed.slot = offered_[i].offer.slot;
    m.relayed.serial = offered_[i].offer.serial;
    if (m.relayed.slot != Relayed::kNoSlot && !outbox_.add(offered_[i].from, m)) return false;
    offered_.give(i);
    return true;
}

RelayIntake::Took RelayIntake::take(uint32_t intake, uint32_t i, TakenChunk* out) {
    const Offered& o = offered_[i];
    const uint32_t queued = pool_[intake].queued;
    const QueuedRead& q = queue_[queued];
    if (q.cancelled) return Took::kNo;
    if (!staging_.has_room()) return Took::kLater;
    const bool has_slot = o.offer.slot != Relayed::kNoSlot;
    const Watch& w = watches_[q.watch];
    const NodeMemory& memory = context_.memory;
    const ChunkRange chunks = arriving_chunks(memory, memory.record(w.local, w.record), q.block.source);
    if (!watches_.still(w)) return Took::kNo;
    const uint64_t offset = o.offer.offset;
    if (chunks.chunk_bytes == 0 || offset >= q.block.bytes || offset % chunks.chunk_bytes != 0 ||
        (has_slot && o.offer.bytes != std::min<uint64_t>(chunks.chunk_bytes, q.block.bytes - offset))) {
        go_alone(intake);  // not cut as ours is
        return Took::kNo;
    }
    if (!queue_.take(queued, static_cast<uint32_t>(offset / chunks.chunk_bytes), out)) return Took::kNo;
    const Offer offer{o.from,
                      {kStaging, RegionId{o.from.service.value}, o.incarnation},
                      uint64_t{o.offer.slot} * context_.limits.staging_slot_bytes};
    const uint32_t move = staging_.fetch(*out, has_slot ? &offer : nullptr);
    offered_of_[move] = has_slot ? i : kNone;
    return Took::kYes;
}

bool RelayIntake::fetch_ended(uint32_t move, bool fetched) {
    const uint32_t i = offered_of_[move];
    if (i == kNone) return false;
    offered_of_[move] = kNone;
    offered_[i].over = true;
    push_back(offered_.items, &offers_, i);
    if (fetched) {
        context_.counters->bytes_relayed += staging_.view(move).bytes;
        return true;
    }
    // Its owner has gone. The source has it.
    const uint32_t queued = staging_.view(move).queued;
    staging_.give_back(move);
    for (uint32_t k = 0; k < pool_.made; ++k)
        if (pool_[k].queued == queued) go_alone(k);
    return true;
}

void RelayIntake::send_wants() {
    for (uint32_t i = 0; i < pool_.made; ++i) {
        Intake& intake = pool_[i];
        if (intake.queued == kNone || !intake.want_due) continue;
        Message m;
        m.kind = MessageKind::kWant;
        m.relayed.operation = queue_[intake.queued].block.operation;
        m.relayed.source = queue_[intake.queued].block.source;
        m.relayed.origin = context_.here();
        m.relayed.ticket = intake.ticket;
        intake.want_due = !outbox_.add(intake.parent_first, m);
    }
}

void RelayIntake::tick() {
    for (uint32_t i = 0; i < pool_.made; ++i) {
        if (pool_[i].queued == kNone || ++pool_[i].ticks < kParentTicks) continue;
        ++context_.counters->relays_overdue;
        go_alone(i);
    }
}

}  // namespace longshore
