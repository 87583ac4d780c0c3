// ServiceEngine, the destination's side: queued blocks are read in turn, at most a window at a time,
// settled, given to the node's other ranks and acknowledged.
#include "engine/service_state.h"

namespace longshore {
namespace {

bool range_over(const ChunkRange& chunks, uint64_t generation) {
    uint32_t from = 0;
    return block_settled(chunks, generation, &from);
}

}  // namespace

// A block whose destination has entered is to be read. kOver, kFailed: it has been, or never will be.
ServiceEngine::State::Queued ServiceEngine::State::queue_block(uint32_t i, const RemoteBlock& n, uint32_t row,
                                                               WakeSet* wake) {
    Watch& w = watches[i];
    OperationRecord& record = memory.record(w.local, w.record);
    const ChunkRange chunks = arriving_chunks(memory, record, n.source);
    const bool settled = range_over(chunks, w.seen.generation);
    const bool failed = range_failed(chunks);
    if (!still(w)) return Queued::kOver;
    if (settled && chunks.count != 0) return failed ? Queued::kFailed : Queued::kOver;
    const Geometry geometry(memory, record, w.local);
    const Block block = geometry.arriving(n.source);
    const bool fits = geometry.is_source(n.source) && block.valid && block.bytes == n.bytes &&
                      chunks.chunk_bytes != 0 &&
                      is_shared(w.seen.collective) == ((n.destination & kToNode) != 0);
    if (!fits) {
        if (w.helps) return Queued::kFailed;
        // Not the sizes that both sides agreed on: nothing is written.
        fail_block(i, n.source, OperationError::kTruncated, wake);
        return Queued::kFailed;
    }
    const uint32_t q = queue.take();
    if (q == kNone) {
        ++counters->pool_full;
        return Queued::kNoRoom;
    }
    uint32_t kept = row != kNone ? take_small(n.operation, n.source, n.destination) : kNone;
    if (kept != kNone && small[kept].count != n.bytes) {
        small.give(kept);
        kept = kNone;
    }
    QueuedRead& read = queue[q];
    read.watch = i;
    read.row = row;
    read.local = w.local;
    read.generation = w.seen.generation;
    read.n = n;
    read.small = kept;
    ++w.queued_count;
    ++share_pool[w.share].queued_count;
    if (row != kNone) {
        ++rows[row].queued;
        ++batches[rows[row].batch].queued;
    }
    if (kept == kNone) begin_relay(q);
    make_ready(q);
    return Queued::kQueued;
}

void ServiceEngine::State::give_queued(uint32_t q) {
    queue[q].watch = kNone;
    queue.give(q);
}

bool ServiceEngine::State::next_read(Share& s, Action* out, WakeSet* wake) {
    pull(s, wake);
    for (;; s.ready.count == 0 ? pull(s, wake) : void()) {
        if (s.ready.count == 0 || reads.room() == 0 || reading_bytes >= read_window) return false;
        const uint32_t i = s.ready.head;
        QueuedRead& q = queue[i];
        const bool staged = !q.cancelled && q.small == kNone && is_staged(watches[q.watch]);
        if (staged && moves.room() == 0) return false;
        if (!q.cancelled) {
            const Watch& w = watches[q.watch];
            const OperationRecord& record = memory.record(w.local, w.record);
            const ChunkRange chunks = arriving_chunks(memory, record, q.n.source);
            while (q.chunk < chunks.count) {
                const uint32_t c = q.chunk++;
                if (awaits(q, c)) continue;
                MemoryRef at;
                uint64_t bytes, claim_offset;
                if (!take_chunk(i, c, &at, &bytes, &claim_offset)) continue;
                charge(s, bytes);
                const uint64_t offset = uint64_t{c} * chunks.chunk_bytes;
                if (staged) {
                    stage_read(i, c, claim_offset, at, bytes);
                    return next_move(out);
                }
                const uint32_t id = reads.take();
                reads[id].queued = i;
                reads[id].claim_offset = claim_offset;
                reads[id].bytes = bytes;
                reading_bytes += bytes;
                *out = Action{};
                out->id = id;
                out->to = at;
                out->bytes = bytes;
                if (q.small != kNone) {
                    out->kind = Action::Kind::kWrite;
                    out->data = {small[q.small].bytes + offset, static_cast<size_t>(bytes)};
                } else {
                    out->kind = Action::Kind::kRead;
                    out->peer = q.n.origin;
                    out->name = region_of(q.n);
                    out->offset = q.n.offset + offset;
                    out->along = q.n.along;
                    out->part = {q.n.name(), offset};
                }
                return true;
            }
        }
        pop_front(queue.items, &s.ready);
        const bool asks = q.relay != kNone && relays[q.relay].asks;
        q.place = asks ? QueuedRead::Place::kAwaiting : QueuedRead::Place::kIssued;
        finish_queued(i, wake);
    }
}

// Claims a chunk of a queued block, and says where it belongs.
bool ServiceEngine::State::take_chunk(uint32_t i, uint32_t chunk, MemoryRef* to, uint64_t* bytes,
                                      uint64_t* claim_offset) {
    QueuedRead& q = queue[i];
    const Watch& w = watches[q.watch];
    OperationRecord& record = memory.record(w.local, w.record);
    const ChunkRange chunks = arriving_chunks(memory, record, q.n.source);
    if (chunk >= chunks.count || !claim_chunk(chunks.words[chunk], q.generation, worker)) return false;
    const Block block = Geometry(memory, record, w.local).arriving(q.n.source);
    const uint64_t offset = uint64_t{chunk} * chunks.chunk_bytes;
    if (!block.valid || block.bytes != q.n.bytes || offset >= block.bytes) {
        // Not what it was when the block was queued: whoever wrote the record is not to be trusted.
        note_error(record, q.generation, OperationError::kTruncated);
        settle_chunk(chunks.words[chunk], q.generation, ChunkState::kFailed);
        q.failed = true;
        return false;
    }
    *to = block.at;
    to->offset += offset;
    *bytes = block.bytes - offset < chunks.chunk_bytes ? block.bytes - offset : chunks.chunk_bytes;
    *claim_offset = memory.offset_of(&chunks.words[chunk]);
    ++q.in_flight;
    if (q.row != kNone) ++batches[rows[q.row].batch].in_flight;
    return true;
}

// Nothing of a chunk that was taken is under way any more.
void ServiceEngine::State::chunk_over(uint32_t i) {
    QueuedRead& q = queue[i];
    --q.in_flight;
    if (q.row != kNone) --batches[rows[q.row].batch].in_flight;
}

// A chunk of a queued block has come, or has not. It is still ours, so the record is the operation's.
void ServiceEngine::State::settle_read(uint32_t i, uint64_t claim_offset, uint64_t bytes, MoveResult result,
                                       WakeSet* wake) {
    QueuedRead& q = queue[i];
    const Watch& w = watches[q.watch];
    ++counters->reads;
    counters->taken += w.helps;
    counters->taken_reads += w.helps;
    settled_some = true;
    const bool moved = result == MoveResult::kMoved;
    OperationRecord& record = memory.record(w.local, w.record);
    const bool lands = has_landing(record);
    if (moved) {
        RankSlot& slot = memory.rank(w.local);
        (lands ? slot.bytes_landed : slot.bytes_by_service)[static_cast<uint32_t>(w.seen.collective)]
            .fetch_add(bytes, std::memory_order_relaxed);
    } else {
        q.failed = true;
        // Who reads what of a service process that is gone may not know it sooner than by that.
        const bool lost = peer(q.n.origin).lost;
        note_error(record, q.generation, lost ? OperationError::kServiceLost : OperationError::kUnreadable);
    }
    settle_chunk(*memory.at<Atomic<ChunkWord>>(claim_offset), q.generation,
                 moved ? ChunkState::kLanded : ChunkState::kFailed);
    if (lands) {
        announce_landing(memory, w.local, w.record, q.generation, q.n.source, wake);
        return;
    }
    const bool over = announce_block(memory, w.local, w.record, q.generation, q.n.source, false, wake);
    if (over && (q.n.destination & kToNode) != 0) give_to_node(q.watch, q.n.source, wake);
}

// A shared block is at its reader: we copy it to the node's other ranks that have entered (so may they
// themselves). Those who come later find it in their first lap.
void ServiceEngine::State::give_to_node(uint32_t i, Rank source, WakeSet* wake) {
    const Watch& w = watches[i];
    const uint32_t l = landed_pool.take();
    if (l == kNone) {
        memory.ring_all_services(wake);  // then everybody looks for himself
        return;
    }
    Landed& item = landed_pool[l];
    item.group = w.seen.group;
    item.id = GroupId{memory.group(w.seen.group).id.load(std::memory_order_acquire)};
    item.sequence = w.seen.sequence;
    item.source = source;
    push_back(landed_pool.items, &share_pool[w.share].landed, l);
}

bool ServiceEngine::State::next_landed(Share& s, Action* out) {
    while (s.landed.count != 0) {
        Landed& item = landed_pool[s.landed.head];
        const GroupEntry& group = memory.group(item.group);
        *out = Action{};
        out->kind = Action::Kind::kCopy;
        const bool there = group.id.load(std::memory_order_acquire) == item.id.value;
        for (; there && item.local_next < group.local_count; ++item.local_next, item.chunk = 0)
            if (mover.claim_shared(item.group, item.sequence, item.source, item.local_next, &item.chunk,
                                   &out->copy))
                return true;
        landed_pool.give(pop_front(landed_pool.items, &s.landed));
    }
    return false;
}

// What nobody has taken of a block will not be moved. False: nothing was left of it.
bool ServiceEngine::State::fail_block(uint32_t i, Rank source, OperationError error, WakeSet* wake) {
    const Watch& w = watches[i];
    OperationRecord& record = memory.record(w.local, w.record);
    bool failed = false;
    for (const ChunkRange& chunks :
         {landing_chunks(memory, record, source), incoming_chunks(memory, record, source)})
        for (uint32_t c = 0; c < chunks.count; ++c) {
            if (!claim_chunk(chunks.words[c], w.seen.generation, worker)) continue;
            note_error(record, w.seen.generation, error);
            settle_chunk(chunks.words[c], w.seen.generation, ChunkState::kFailed);
            failed = true;
        }
    if (!failed) return false;
    announce_landing(memory, w.local, w.record, w.seen.generation, source, wake);
    announce_block(memory, w.local, w.record, w.seen.generation, source, false, wake);
    memory.ring_all_services(wake);
    settled_some = true;
    return true;
}

// All its chunks are taken: is the block there?
void ServiceEngine::State::finish_queued(uint32_t i, WakeSet* wake) {
    QueuedRead& q = queue[i];
    const bool awaiting = q.place == QueuedRead::Place::kAwaiting;
    if ((q.place != QueuedRead::Place::kIssued && !awaiting) || q.in_flight != 0) return;
    if (!q.cancelled) {
        const Watch& w = watches[q.watch];
        const ChunkRange chunks = arriving_chunks(memory, memory.record(w.local, w.record), q.n.source);
        const bool settled = range_over(chunks, q.generation), failed = range_failed(chunks);
        // Of an operation that is over, the words may be anything by now.
        const bool over = !still(w) || settled;
        if (awaiting && !over) return;
        q.failed |= still(w) && failed;
        if (!over && q.row != kNone) {
            // Some chunks are, or were, in the hands of another service process. Look again later.
            q.place = QueuedRead::Place::kStalled;
            push_back(queue.items, &stalled, i);
            return;
        }
    }
    retire_queued(i, wake);
}

void ServiceEngine::State::retry_stalled() {
    for (uint32_t n = stalled.count; n != 0; --n) {
        const uint32_t i = pop_front(queue.items, &stalled);
        queue[i].chunk = 0;
        make_ready(i);
    }
}

void ServiceEngine::State::retire_queued(uint32_t i, WakeSet* wake) {
    QueuedRead& q = queue[i];
    if (q.relay != kNone) end_relay(i);
    if (q.small != kNone) small.give(q.small);
    const uint32_t row = q.row;
    const bool failed = q.failed;
    const ServiceId keeper{load_relaxed(&memory.rank(q.local).service)};
    if (!q.cancelled) {
        Watch& w = watches[q.watch];
        --w.queued_count;
        --share_pool[w.share].queued_count;
    }
    give_queued(i);
    if (row == kNone) {
        memory.ring_service(keeper, wake);  // who lent it to us
        return;
    }
    --batches[rows[row].batch].queued;
    if (--rows[row].queued == 0) ask_again |= again_count != 0;  // it may have to make room
    block_over(row, failed);
}

// The operation of a watch is over (its record has retired): what was still queued for it has landed
// otherwise.
void ServiceEngine::State::cancel_reads(uint32_t i) {
    Watch& w = watches[i];
    for (uint32_t q = 0; w.queued_count != 0 && q < queue.made; ++q) {
        if (queue[q].watch != i || queue[q].cancelled || queue[q].generation != w.seen.generation) continue;
        queue[q].cancelled = true;
        --w.queued_count;
        --share_pool[w.share].queued_count;
        if (queue[q].place == QueuedRead::Place::kAwaiting) make_ready(q);
    }
}

}  // namespace longshore
