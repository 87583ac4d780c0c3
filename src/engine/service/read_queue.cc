#include "engine/service/read_queue.h"

namespace longshore {
namespace {

// An operation has so many times as many places in the queue as it leaves free: one that comes new finds room
// (dynamic thresholds, Choudhury and Hahne 1998).
constexpr uint32_t kQueueShare = 4;
// Blocks of one operation that are found before they can be read, at most: enough for the reads that are
// posted next, and to lend some.
constexpr uint32_t kReadyMax = 16;

bool range_over(const ChunkRange& chunks, uint64_t generation) {
    uint32_t from = 0;
    return block_settled(chunks, generation, &from);
}

}  // namespace

void ReadQueue::carve(Carver& c) {
    c.pool(&pool_, context_.limits.reads_queued_max);
    tasks_ = c.take<Task>(operations_.max());
    queued_of_ = c.take<uint32_t>(context_.limits.watches_max);
}

void ReadQueue::follow(BlockFollower* f) {
    (followers_[0] == nullptr ? followers_[0] : followers_[1]) = f;
}

bool ReadQueue::wants_more(uint32_t operation) const {
    return tasks_[operation].ready.count < kReadyMax && tasks_[operation].queued < kQueueShare * pool_.room();
}

ReadQueue::Queued ReadQueue::add(uint32_t i, const RemoteBlock& block, uint32_t row, WakeSet* wake) {
    const Watch& w = watches_[i];
    const OperationRecord& record = context_.memory.record(w.local, w.record);
    const ChunkRange chunks = arriving_chunks(context_.memory, record, block.source);
    const bool settled = range_over(chunks, w.seen.generation);
    const bool failed = range_failed(chunks);
    if (!watches_.still(w)) return Queued::kOver;
    if (settled && chunks.count != 0) return failed ? Queued::kFailed : Queued::kOver;
    const Geometry geometry(context_.memory, record, w.local);
    const Block to = geometry.arriving(block.source);
    const bool fits = geometry.is_source(block.source) && to.valid && to.bytes == block.bytes &&
                      chunks.chunk_bytes != 0 &&
                      is_shared(w.seen.collective) == ((block.destination & kToNode) != 0);
    if (!fits) {
        // Not the sizes that both sides agreed on: nothing is written. Who only helps leaves it to others.
        if (!w.helps) watches_.fail_block(i, block.source, OperationError::kTruncated, wake);
        return Queued::kFailed;
    }
    const uint32_t q = pool_.take();
    if (q == kNone) {
        ++context_.counters->pool_full;
        return Queued::kNoRoom;
    }
    QueuedRead& read = pool_[q];
    read.watch = i;
    read.row = row;
    read.local = w.local;
    read.generation = w.seen.generation;
    read.block = block;
    ++queued_of_[i];
    ++tasks_[w.operation].queued;
    if (row != kNone) {
        read.small = small_.take(block.name());
        ++rows_[row].queued;
        acknowledger_.count_queued(rows_[row].batch, 1);
    }
    if (read.small != kNone && small_.bytes(read.small).size() != block.bytes) {
        small_.give(read.small);
        read.small = kNone;
    }
    make_ready(q);
    if (read.small == kNone)
        for (BlockFollower* f : followers_)
            if (f != nullptr) f->block_queued(q);
    return Queued::kQueued;
}

// A queued block may be read when its operation's turn comes; one whose operation is over is only
// acknowledged.
void ReadQueue::make_ready(uint32_t q) {
    pool_[q].place = QueuedRead::Place::kReady;
    push_back(pool_.items,
              pool_[q].cancelled ? &cancelled_ : &tasks_[watches_[pool_[q].watch].operation].ready, q);
}

bool ReadQueue::next(uint32_t operation, bool slot_is_free, TakenChunk* out, WakeSet* wake) {
    List& ready = tasks_[operation].ready;
    while (ready.count != 0) {
        const uint32_t i = ready.head;
        QueuedRead& q = pool_[i];
        if (!q.cancelled) {
            const Watch& w = watches_[q.watch];
            if (!slot_is_free && q.small == kNone && context_.is_staged(w.seen.algorithm)) return false;
            const uint32_t count =
                arriving_chunks(context_.memory, context_.memory.record(w.local, w.record), q.block.source)
                    .count;
            while (q.chunk < count) {
                const uint32_t chunk = q.chunk++;
                if (q.own.has(chunk) && take(i, chunk, out)) return true;
            }
        }
        pop_front(pool_.items, &ready);
        q.place = q.own.all() ? QueuedRead::Place::kIssued : QueuedRead::Place::kAwaiting;
        finish(i, wake);
    }
    return false;
}

// Claims a chunk of a queued block, and says where it belongs.
bool ReadQueue::take(uint32_t i, uint32_t chunk, TakenChunk* out) {
    QueuedRead& q = pool_[i];
    const Watch& w = watches_[q.watch];
    OperationRecord& record = context_.memory.record(w.local, w.record);
    const ChunkRange chunks = arriving_chunks(context_.memory, record, q.block.source);
    if (chunk >= chunks.count || !claim_chunk(chunks.words[chunk], q.generation, context_.worker))
        return false;
    const Block to = Geometry(context_.memory, record, w.local).arriving(q.block.source);
    const uint64_t offset = uint64_t{chunk} * chunks.chunk_bytes;
    if (!to.valid || to.bytes != q.block.bytes || offset >= to.bytes) {
        // Not what it was when the block was queued: whoever wrote the record is not to be trusted.
        note_error(record, q.generation, OperationError::kTruncated);
        settle_chunk(chunks.words[chunk], q.generation, ChunkState::kFailed);
        q.failed = true;
        return false;
    }
    out->queued = i;
    out->chunk = chunk;
    out->to = to.at;
    out->to.offset += offset;
    out->offset = offset;
    out->bytes = to.bytes - offset < chunks.chunk_bytes ? to.bytes - offset : chunks.chunk_bytes;
    out->claim_offset = context_.memory.offset_of(&chunks.words[chunk]);
    ++q.in_flight;
    if (q.row != kNone) acknowledger_.count_in_flight(rows_[q.row].batch, 1);
    return true;
}

void ReadQueue::settle(const TakenChunk& taken, MoveResult result, WakeSet* wake) {
    QueuedRead& q = pool_[taken.queued];
    const Watch& w = watches_[q.watch];
    const NodeMemory& memory = context_.memory;
    ++context_.counters->reads;
    context_.counters->taken += w.helps;
    context_.counters->taken_reads += w.helps;
    watches_.note_settled();
    const bool moved = result == MoveResult::kMoved;
    OperationRecord& record = memory.record(w.local, w.record);
    const bool lands = has_landing(record);
    if (moved) {
        RankSlot& slot = memory.rank(w.local);
        (lands ? slot.bytes_landed : slot.bytes_by_service)[static_cast<uint32_t>(w.seen.collective)]
            .fetch_add(taken.bytes, std::memory_order_relaxed);
    } else {
        q.failed = true;
        // Whoever reads from a service process that is gone may learn of it in this way first.
        const bool lost = peers_.is_lost(q.block.origin);
        note_error(record, q.generation, lost ? OperationError::kServiceLost : OperationError::kUnreadable);
    }
    settle_chunk(*memory.at<Atomic<ChunkWord>>(taken.claim_offset), q.generation,
                 moved ? ChunkState::kLanded : ChunkState::kFailed);
    if (lands) {
        announce_landing(memory, w.local, w.record, q.generation, q.block.source, wake);
        return;
    }
    const bool over = announce_block(memory, w.local, w.record, q.generation, q.block.source, false, wake);
    if (over && (q.block.destination & kToNode) != 0) copies_.give_to_node(q.watch, q.block.source, wake);
}

void ReadQueue::chunk_over(uint32_t i, WakeSet* wake) {
    --pool_[i].in_flight;
    if (pool_[i].row != kNone) acknowledger_.count_in_flight(rows_[pool_[i].row].batch, -1);
    finish(i, wake);
}

void ReadQueue::give_back(const TakenChunk& taken) {
    QueuedRead& q = pool_[taken.queued];
    settle_chunk(*context_.memory.at<Atomic<ChunkWord>>(taken.claim_offset), q.generation, ChunkState::kFree);
    --q.in_flight;
    if (q.row != kNone) acknowledger_.count_in_flight(rows_[q.row].batch, -1);
    q.chunk = 0;
    if (q.place == QueuedRead::Place::kIssued) make_ready(taken.queued);
}

void ReadQueue::set_own(uint32_t i, const OwnChunks& own) {
    pool_[i].own = own;
}

void ReadQueue::read_all(uint32_t i) {
    QueuedRead& q = pool_[i];
    q.own = {};
    q.chunk = 0;
    if (q.place == QueuedRead::Place::kAwaiting) make_ready(i);
}

// All its chunks are taken: is the block there?
void ReadQueue::finish(uint32_t i, WakeSet* wake) {
    QueuedRead& q = pool_[i];
    const bool awaiting = q.place == QueuedRead::Place::kAwaiting;
    if ((q.place != QueuedRead::Place::kIssued && !awaiting) || q.in_flight != 0) return;
    if (!q.cancelled) {
        const Watch& w = watches_[q.watch];
        const ChunkRange chunks =
            arriving_chunks(context_.memory, context_.memory.record(w.local, w.record), q.block.source);
        const bool settled = range_over(chunks, q.generation), failed = range_failed(chunks);
        // Of an operation that is over, the words may be anything by now.
        const bool there = watches_.still(w), over = !there || settled;
        if (awaiting && !over) return;
        q.failed |= there && failed;
        if (!over && q.row != kNone) {
            // Some chunks are, or were, in the hands of another service process. Look again later.
            q.place = QueuedRead::Place::kStalled;
            push_back(pool_.items, &stalled_, i);
            return;
        }
    }
    retire(i, wake);
}

void ReadQueue::retire(uint32_t i, WakeSet* wake) {
    QueuedRead& q = pool_[i];
    for (BlockFollower* f : followers_)
        if (f != nullptr) f->block_ended(i);
    if (q.small != kNone) small_.give(q.small);
    const uint32_t row = q.row;
    const bool failed = q.failed;
    const ServiceId keeper{load_relaxed(&context_.memory.rank(q.local).service)};
    if (!q.cancelled) {
        --queued_of_[q.watch];
        --tasks_[watches_[q.watch].operation].queued;
    }
    q.watch = kNone;
    pool_.give(i);
    if (row == kNone) {
        context_.memory.ring_service(keeper, wake);  // who lent it to us
        return;
    }
    acknowledger_.count_queued(rows_[row].batch, -1);
    if (--rows_[row].queued == 0) acknowledger_.ask_soon();  // it may have to make room
    rows_.block_over(row, failed);
}

void ReadQueue::retry_stalled() {
    for (uint32_t n = stalled_.count; n != 0; --n) {
        const uint32_t i = pop_front(pool_.items, &stalled_);
        pool_[i].chunk = 0;
        make_ready(i);
    }
}

void ReadQueue::retire_cancelled(WakeSet* wake) {
    while (cancelled_.count != 0) {
        const uint32_t i = pop_front(pool_.items, &cancelled_);
        pool_[i].place = QueuedRead::Place::kIssued;
        finish(i, wake);
    }
}

// The operation of a watch is over (its record has retired): what was still queued for it has landed
// otherwise.
void ReadQueue::watch_ended(uint32_t w) {
    for (uint32_t i = 0; queued_of_[w] != 0 && i < pool_.made; ++i) {
        QueuedRead& q = pool_[i];
        if (q.watch != w || q.cancelled) continue;
        q.cancelled = true;
        --queued_of_[w];
        --tasks_[watches_[w].operation].queued;
        if (q.place == QueuedRead::Place::kAwaiting) make_ready(i);
    }
}

void ReadQueue::operation_emptied(uint32_t operation) {
    List& ready = tasks_[operation].ready;
    while (ready.count != 0) push_back(pool_.items, &cancelled_, pop_front(pool_.items, &ready));
}

uint32_t ReadQueue::lend(uint32_t operation, ServiceId to, uint32_t blocks_max, Outbox& outbox) {
    // Behind those that may not be lent there are others.
    constexpr uint32_t kLookedMax = 64;
    List& ready = tasks_[operation].ready;
    uint32_t count = 0;
    // The first is being read. What has been lent goes to the end: we come to it last.
    for (uint32_t before = ready.head, looked = 0; count < blocks_max && looked < kLookedMax; ++looked) {
        if (before == kNone || pool_[before].next == kNone) break;
        const uint32_t i = pool_[before].next;
        QueuedRead& q = pool_[i];
        // What is relayed comes from elsewhere, or is read for others, too; what was sent along is on its way
        // to here.
        if (q.lent || q.cancelled || q.row == kNone || q.small != kNone || q.is_relayed || q.block.along) {
            before = i;
            continue;
        }
        Message m;
        m.kind = MessageKind::kLend;
        m.lent = q.block;
        if (!outbox.add({context_.memory.node(), to}, m)) break;
        q.lent = true;
        ++count;
        if (i == ready.tail) break;
        pool_[before].next = q.next;
        --ready.count;
        push_back(pool_.items, &ready, i);
    }
    return count;
}

}  // namespace longshore
