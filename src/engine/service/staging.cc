#include "engine/service/staging.h"

#include <algorithm>

namespace longshore {
namespace {

Block block_of(const NodeMemory& memory, const Copy& copy) {
    return Geometry(memory, memory.record(copy.destination, copy.record), copy.destination)
        .incoming(copy.source);
}

}  // namespace

void Staging::carve(Carver& c) {
    c.pool(&pool_, context_.limits.staging_slots);
}

const Staging::Move& Staging::at(uint32_t move) const {
    LONGSHORE_CHECK(move < pool_.made);
    return pool_[move];
}

uint64_t Staging::piece_of(const Move& m) const {
    return std::min<uint64_t>(context_.limits.staging_slot_bytes, m.copy.bytes - m.done);
}

uint32_t Staging::fetch(const TakenChunk& taken, const Offer* offer) {
    const uint32_t id = pool_.take();
    const QueuedRead& q = queue_[taken.queued];
    const Watch& w = watches_[q.watch];
    Move& m = pool_[id];
    m.taken = taken;
    m.offered = offer != nullptr;
    if (m.offered) m.offer = *offer;
    m.copy.to = taken.to;
    m.copy.bytes = taken.bytes;
    m.copy.destination = w.local;
    m.copy.record = w.record;
    m.copy.generation = q.generation;
    m.copy.claim_offset = taken.claim_offset;
    m.copy.source = q.block.source;
    m.copy.collective = w.seen.collective;
    m.serial = ++serial_;
    push_back(pool_.items, &due_, id);
    return id;
}

void Staging::copy(const Copy& copy) {
    const uint32_t id = pool_.take();
    pool_[id].copy = copy;
    pool_[id].from_node = true;
    pool_[id].serial = ++serial_;
    push_back(pool_.items, &due_, id);
}

bool Staging::next(Action* out) {
    const uint32_t id = pop_front(pool_.items, &due_);
    if (id == kNone) return false;
    const Move& m = pool_[id];
    const MemoryRef slot{kStaging, RegionId{0}, uint64_t{id} * context_.limits.staging_slot_bytes};
    *out = Action{};
    out->kind = Action::Kind::kMove;
    out->id = kMoveId | id;
    out->bytes = piece_of(m);
    if (m.fetched) {
        out->from = slot;
        out->to = target_of(m);
        out->to.offset += m.done;
        return true;
    }
    out->to = slot;
    if (m.from_node) {
        out->from = m.copy.from;
        out->from.offset += m.done;
        return true;
    }
    const RemoteBlock& block = queue_[m.taken.queued].block;
    out->kind = Action::Kind::kRead;
    if (m.offered) {
        out->peer = m.offer.from;
        out->name = m.offer.region;
        out->offset = m.offer.offset;
        return true;
    }
    out->peer = block.origin;
    out->name = {block.owner, block.region, block.region_generation};
    out->offset = block.offset + m.taken.offset + m.done;
    return true;
}

void Staging::fetched(uint32_t id, WakeSet* wake) {
    Move& m = pool_[id];
    const uint64_t piece = piece_of(m);
    m.fetched = true;
    context_.counters->bytes_staged += piece;
    if (!m.from_node) context_.counters->bytes_between_nodes += piece;
    if (m.done == 0 && !m.from_node && is_shared(m.copy.collective) &&
        !has_landing(context_.memory.record(m.copy.destination, m.copy.record)))
        choose_others(m, wake);
    m.target = kNone;
    if (m.settled) next_target(m);  // it has had enough; the others have not
    push_back(pool_.items, &due_, id);
}

void Staging::delivered(uint32_t id, MoveResult result, WakeSet* wake) {
    Move& m = pool_[id];
    const uint64_t piece = piece_of(m);
    if (m.done + piece == m.copy.bytes || result != MoveResult::kMoved) settle_target(m, result, wake);
    if (!next_target(m)) {
        m.done += piece;
        m.fetched = false;
        const bool some_wait =
            std::any_of(m.others, std::end(m.others), [](uint64_t bits) { return bits != 0; });
        if (m.settled && !some_wait) {
            end(id, wake);
            return;
        }
    }
    push_back(pool_.items, &due_, id);
}

void Staging::fail(uint32_t id, MoveResult result, WakeSet* wake) {
    Move& m = pool_[id];
    m.target = kNone;
    if (!m.settled) settle_target(m, result, wake);
    while (next_target(m)) settle_target(m, MoveResult::kFailed, wake);
    end(id, wake);
}

void Staging::give_back(uint32_t id) {
    const TakenChunk taken = pool_[id].taken;
    give(id);
    queue_.give_back(taken);
}

void Staging::end(uint32_t id, WakeSet* wake) {
    const uint32_t queued = pool_[id].taken.queued;
    give(id);
    if (queued != kNone) queue_.chunk_over(queued, wake);
}

void Staging::give(uint32_t id) {
    Move& m = pool_[id];
    m.over = true;
    m.taken.queued = kNone;
    if (m.holds == 0) pool_.give(id);
}

void Staging::release(uint32_t id) {
    Move& m = pool_[id];
    if (--m.holds == 0 && m.over) pool_.give(id);
}

Staging::View Staging::view(uint32_t id) const {
    const Move& m = pool_[id];
    return {m.taken.queued, m.taken.chunk, m.serial, m.taken.offset, m.copy.bytes, m.fetched && m.done == 0};
}

void Staging::settle_target(Move& m, MoveResult result, WakeSet* wake) {
    watches_.note_settled();
    if (m.target != kNone) {
        Copy copy;
        LONGSHORE_CHECK(other_chunk(m, m.target, false, &copy));  // ours, so its record stays
        clear_bit(m.others, m.target);
        ++context_.counters->copies;
        ++context_.counters->staged_for_others;
        mover_.finish(copy, result, wake);
        return;
    }
    m.settled = true;
    if (!m.from_node) {
        queue_.settle(m.taken, result, wake);
    } else {
        if (!m.copy.is_self) ++context_.counters->copies;
        mover_.finish(m.copy, result, wake);
    }
}

// The node's other ranks that have entered and lack this chunk: they get it from the slot. Who comes later
// copies from the destination, as ever.
void Staging::choose_others(Move& m, WakeSet* wake) {
    const Watch& w = watches_[queue_[m.taken.queued].watch];
    const GroupEntry& group = context_.memory.group(w.seen.group);
    for (uint32_t k = 0; k < group.local_count; ++k) {
        Copy copy;
        if (k == w.local_index || !other_chunk(m, k, true, &copy)) continue;
        const Block to = block_of(context_.memory, copy);
        if (to.valid && to.bytes == queue_[m.taken.queued].block.bytes) {
            set_bit(m.others, k);
        } else {
            copy.doomed = static_cast<uint32_t>(OperationError::kTruncated);
            mover_.finish(copy, MoveResult::kFailed, wake);
        }
    }
}

// Where the present target's chunk belongs.
MemoryRef Staging::target_of(const Move& m) const {
    if (m.target == kNone) return m.copy.to;
    Copy copy;
    LONGSHORE_CHECK(other_chunk(m, m.target, false, &copy));
    MemoryRef to = block_of(context_.memory, copy).at;
    to.offset += m.taken.offset;
    return to;
}

// The chunk of one other rank, claimed now or (claim: false) held already.
bool Staging::other_chunk(const Move& m, uint32_t local_index, bool claim, Copy* copy) const {
    const NodeMemory& memory = context_.memory;
    const Watch& w = watches_[queue_[m.taken.queued].watch];
    const GroupEntry& group = memory.group(w.seen.group);
    RecordId id;
    RecordLook seen;
    if (entered(memory, group, local_index, w.seen.sequence, &id) != Entered::kPublished) return false;
    const LocalRank local = memory.members(group)[memory.locals(group)[local_index]].local;
    const OperationRecord& record = memory.record(local, id);
    if (!look(record, &seen) || seen.group != w.seen.group || seen.sequence != w.seen.sequence) return false;
    const ChunkRange chunks = incoming_chunks(memory, record, m.copy.source);
    const uint32_t chunk = m.taken.chunk;
    // Cut like the destination's, or the slot holds something else.
    if (chunk >= chunks.count || uint64_t{chunk} * chunks.chunk_bytes != m.taken.offset) return false;
    if (claim && is_left_to_rank(memory, record, local)) return false;
    if (claim && !claim_chunk(chunks.words[chunk], seen.generation, context_.worker)) return false;
    *copy = m.copy;
    copy->destination = local;
    copy->record = id;
    copy->generation = seen.generation;
    copy->giver = m.copy.destination;
    copy->claim_offset = memory.offset_of(chunks.words + chunk);
    return true;
}

// Goes on to the next of the others; false: there is none behind the present one.
bool Staging::next_target(Move& m) const {
    for (uint32_t k = m.target == kNone ? 0 : m.target + 1; !m.from_node && k < kRanksPerNodeMax; ++k) {
        if (!test_bit(m.others, k)) continue;
        m.target = k;
        return true;
    }
    return false;
}

}  // namespace longshore
