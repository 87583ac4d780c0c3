// ServiceEngine: chunks that go through its staging memory, because the algorithm says so or because the
// fabric moves nothing from one rank's memory into another's (papers S1 and S3, "staging"). A chunk larger
// than a slot goes in pieces, so that a message may be larger than the memory. Staged bytes are soft like
// everything here: a block counts as read when it has landed in a rank's memory, and the claims on the way
// are those of any mover.
#include <algorithm>

#include "engine/service_state.h"

namespace longshore {
namespace {

bool has_others(const StagedMove& m) {
    for (const uint64_t bits : m.others)
        if (bits != 0) return true;
    return false;
}

uint64_t piece_of(const StagedMove& m, uint64_t slot_bytes) {
    return std::min(slot_bytes, m.copy.bytes - m.done);
}

}  // namespace

// A claimed chunk of a queued block. The caller has seen that there is a slot.
uint32_t ServiceEngine::State::stage_read(uint32_t i, uint32_t chunk, uint64_t claim_offset,
                                          const MemoryRef& to, uint64_t bytes) {
    const uint32_t id = moves.take();
    const Watch& w = watches[queue[i].watch];
    StagedMove& m = moves[id];
    m.queued = i;
    m.chunk = chunk;
    m.copy.to = to;
    m.copy.bytes = bytes;
    m.copy.destination = w.local;
    m.copy.record = w.record;
    m.copy.generation = queue[i].generation;
    m.copy.claim_offset = claim_offset;
    m.copy.source = queue[i].n.source;
    m.copy.collective = w.seen.collective;
    m.serial = ++move_serial;
    push_back(moves.items, &moves_due, id);
    return id;
}

// A claimed copy between two ranks of this node becomes the first step of a move, where it may not be one.
// Always true.
bool ServiceEngine::State::staged(Action* out) {
    if (!limits.staging_only || out->copy.doomed != 0 || out->copy.bytes == 0) return true;
    const uint32_t id = moves.take();
    moves[id].copy = out->copy;
    push_back(moves.items, &moves_due, id);
    return next_move(out);
}

bool ServiceEngine::State::next_move(Action* out) {
    const uint32_t id = pop_front(moves.items, &moves_due);
    if (id == kNone) return false;
    const StagedMove& m = moves[id];
    const MemoryRef slot{kStaging, RegionId{0}, uint64_t{id} * limits.staging_slot_bytes};
    *out = Action{};
    out->kind = Action::Kind::kMove;
    out->id = kMoveId | id;
    out->bytes = piece_of(m, limits.staging_slot_bytes);
    if (m.fetched) {
        out->from = slot;
        out->to = target_of(m);
        out->to.offset += m.done;
        return true;
    }
    out->to = slot;
    if (m.queued == kNone) {
        out->from = m.copy.from;
        out->from.offset += m.done;
        return true;
    }
    const QueuedRead& q = queue[m.queued];
    out->kind = Action::Kind::kRead;
    if (m.offered != kNone) {
        const Offered& o = offered[m.offered];
        out->peer = o.from;
        out->name = {kStaging, RegionId{o.from.service.value}, o.incarnation};
        out->offset = uint64_t{o.offer.slot} * limits.staging_slot_bytes;
        return true;
    }
    out->peer = q.n.origin;
    out->name = region_of(q.n);
    out->offset = q.n.offset + chunk_offset(m) + m.done;
    return true;
}

// One fabric operation of a move has ended.
void ServiceEngine::State::finish_move(uint32_t id, MoveResult result, WakeSet* wake) {
    LONGSHORE_CHECK(id < moves.made);
    StagedMove& m = moves[id];
    const uint64_t piece = piece_of(m, limits.staging_slot_bytes);
    const bool last = m.done + piece == m.copy.bytes;
    if (!m.fetched && result != MoveResult::kMoved) {
        if (m.offered != kNone) {
            return_offer(id);
        } else {
            fail_move(id, result, wake);
        }
        return;
    }
    if (!m.fetched) {
        if (m.offered != kNone) {
            counters->bytes_relayed += piece;
            end_offer(id);
        }
        m.fetched = true;
        counters->bytes_staged += piece;
        if (m.queued != kNone) counters->bytes_between_nodes += piece;
        if (m.done == 0 && m.queued != kNone && is_shared(m.copy.collective) &&
            !has_landing(memory.record(m.copy.destination, m.copy.record)))
            choose_others(m, wake);
        if (m.queued != kNone && queue[m.queued].relay != kNone) offer_chunk(id);
        m.target = kNone;
        if (m.settled) next_target(m);  // it has had enough; the others have not
    } else {
        if (last || result != MoveResult::kMoved) settle_target(m, result, wake);
        if (!next_target(m)) {
            m.done += piece;
            m.fetched = false;
            if (m.settled && !has_others(m)) {
                end_move(id, wake);
                return;
            }
        }
    }
    push_back(moves.items, &moves_due, id);
}

// Nothing more of it can be had: whoever still waits for it is told so.
void ServiceEngine::State::fail_move(uint32_t id, MoveResult result, WakeSet* wake) {
    StagedMove& m = moves[id];
    if (m.queued != kNone && queue[m.queued].relay != kNone) dismiss_all(&relays[queue[m.queued].relay]);
    m.target = kNone;
    if (!m.settled) settle_target(m, result, wake);
    while (next_target(m)) settle_target(m, MoveResult::kFailed, wake);
    end_move(id, wake);
}

void ServiceEngine::State::end_move(uint32_t id, WakeSet* wake) {
    StagedMove& m = moves[id];
    const uint32_t i = m.queued;
    m.over = true;
    m.queued = kNone;
    if (m.pin_count == 0) moves.give(id);
    if (i == kNone) return;
    chunk_over(i);
    finish_queued(i, wake);
}

void ServiceEngine::State::settle_target(StagedMove& m, MoveResult result, WakeSet* wake) {
    settled_some = true;
    if (m.target != kNone) {
        Copy copy;
        LONGSHORE_CHECK(other_chunk(m, m.target, false, &copy));  // ours, so its record stays
        m.others[m.target / 64] &= ~(uint64_t{1} << (m.target % 64));
        ++counters->copies;
        ++counters->staged_for_others;
        mover.finish(copy, result, wake);
        return;
    }
    m.settled = true;
    if (m.queued != kNone) {
        settle_read(m.queued, m.copy.claim_offset, m.copy.bytes, result, wake);
    } else {
        if (!m.copy.is_self) ++counters->copies;
        mover.finish(m.copy, result, wake);
    }
}

// The node's other ranks that have entered and lack this chunk: they get it from the slot. Who comes later
// copies from the destination, as ever.
void ServiceEngine::State::choose_others(StagedMove& m, WakeSet* wake) {
    const Watch& w = watches[queue[m.queued].watch];
    const GroupEntry& group = memory.group(w.seen.group);
    for (uint32_t k = 0; k < group.local_count; ++k) {
        Copy copy;
        if (k == w.local_index || !other_chunk(m, k, true, &copy)) continue;
        const Block to = block_of(copy);
        if (to.valid && to.bytes == queue[m.queued].n.bytes) {
            m.others[k / 64] |= uint64_t{1} << (k % 64);
        } else {
            copy.doomed = static_cast<uint32_t>(OperationError::kTruncated);
            mover.finish(copy, MoveResult::kFailed, wake);
        }
    }
}

Block ServiceEngine::State::block_of(const Copy& copy) const {
    return Geometry(memory, memory.record(copy.destination, copy.record), copy.destination)
        .incoming(copy.source);
}

// Where the present target's chunk belongs.
MemoryRef ServiceEngine::State::target_of(const StagedMove& m) const {
    if (m.target == kNone) return m.copy.to;
    Copy copy;
    LONGSHORE_CHECK(other_chunk(m, m.target, false, &copy));
    MemoryRef to = block_of(copy).at;
    to.offset += chunk_offset(m);
    return to;
}

uint64_t ServiceEngine::State::chunk_offset(const StagedMove& m) const {
    const OperationRecord& record = memory.record(m.copy.destination, m.copy.record);
    return uint64_t{m.chunk} * record.chunk_bytes.load(std::memory_order_relaxed);
}

// The chunk of one other rank, claimed now or (claim: false) held already.
bool ServiceEngine::State::other_chunk(const StagedMove& m, uint32_t local_index, bool claim,
                                       Copy* copy) const {
    const Watch& w = watches[queue[m.queued].watch];
    const GroupEntry& group = memory.group(w.seen.group);
    RecordId id;
    RecordLook seen;
    if (entered(memory, group, local_index, w.seen.sequence, &id) != Entered::kPublished) return false;
    const LocalRank local = memory.members(group)[memory.locals(group)[local_index]].local;
    const OperationRecord& record = memory.record(local, id);
    if (!look(record, &seen) || seen.group != w.seen.group || seen.sequence != w.seen.sequence) return false;
    const ChunkRange chunks = incoming_chunks(memory, record, m.copy.source);
    // Cut like the destination's, or the slot holds something else.
    if (m.chunk >= chunks.count || uint64_t{m.chunk} * chunks.chunk_bytes != chunk_offset(m)) return false;
    if (claim && !claim_chunk(chunks.words[m.chunk], seen.generation, worker)) return false;
    *copy = m.copy;
    copy->destination = local;
    copy->record = id;
    copy->generation = seen.generation;
    copy->giver = m.copy.destination;
    copy->claim_offset = memory.offset_of(chunks.words + m.chunk);
    return true;
}

// Goes on to the next of the others; false: there is none behind the present one.
bool ServiceEngine::State::next_target(StagedMove& m) const {
    for (uint32_t k = m.target == kNone ? 0 : m.target + 1; m.queued != kNone && k < kRanksPerNodeMax; ++k) {
        if ((m.others[k / 64] >> (k % 64) & 1) == 0) continue;
        m.target = k;
        return true;
    }
    return false;
}

}  // namespace longshore
