#include "engine/service/teller.h"

#include <algorithm>

namespace longshore {
namespace {

constexpr uint32_t kRowsPerVisit = 64;
constexpr uint32_t kResendAfterMax = 128;  // ticks

// Where a peer's acknowledgement is kept; of another generation where the record is recycled.
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

// Equal blocks, as far from each other as their ranks say.
bool is_uniform(const BlockSpan* blocks, std::span<const uint32_t> members) {
    const uint64_t distance = blocks[1].offset - blocks[0].offset;
    const uint64_t stride = distance / (members[1] - members[0]);
    for (size_t k = 0; k < members.size(); ++k)
        if (blocks[k].bytes != blocks[0].bytes ||
            blocks[k].offset - blocks[0].offset != (members[k] - members[0]) * stride)
            return false;
    return true;
}

}  // namespace

// What a rank gives to the ranks of one peer, in their order; of a shared block what it gives to any.
struct Teller::Given {
    RegionId region;
    uint32_t count, with_bytes, only;  // only: the last with bytes
    BlockSpan blocks[kRanksPerNodeMax];
};

// A row before it is in a frame.
struct Teller::Draft {
    ServiceAddress to;
    Told told;
    Row row;
};

void Teller::carve(Carver& c) {
    words_ = (peers_.count() + 63) / 64;
    tasks_ = c.take<Task>(operations_.max());
    progress_ = c.take<Progress>(context_.limits.watches_max);
    due_ = c.take<uint64_t>(uint64_t{context_.limits.watches_max} * words_);
    given_ = c.take<Given>(1);
}

void Teller::look_at_given(std::span<const uint32_t> members, const Geometry& geometry, bool shared) {
    Given& given = *given_;
    given.count = given.with_bytes = given.only = 0;
    for (uint32_t k = 0; k < members.size() && k < kRanksPerNodeMax; ++k) {
        const Block block = geometry.outgoing(Rank{members[k]});
        given.region = block.at.region;
        given.blocks[k] = {block.at.offset, block.bytes};
        given.count = k + 1;
        if (block.bytes == 0) continue;
        ++given.with_bytes;
        given.only = k;
        if (shared) return;
    }
}

void Teller::watch_began(uint32_t i, WakeSet*) {
    progress_[i] = {};
    progress_[i].resend_after = context_.limits.repeat_ticks;
    const Watch& w = watches_[i];
    if (!w.is_told()) return;
    std::fill(due_bits(i), due_bits(i) + words_, 0);
    // The right neighbour first, so that not all begin with the same one.
    Task& task = tasks_[w.operation];
    const GroupEntry& group = context_.memory.group(w.seen.group);
    if (task.due_count == 0) task.due_next = context_.memory.members(group)[w.seen.rank.value].peer + 1;
    rearm(i, nullptr);
}

// Marks who is to be told: peers on other nodes that have not acknowledged. `only`: one of them.
void Teller::rearm(uint32_t i, const ServiceAddress* only) {
    const Watch& w = watches_[i];
    Progress& progress = progress_[i];
    const NodeMemory& memory = context_.memory;
    const OperationRecord& record = memory.record(w.local, w.record);
    const GroupEntry& group = memory.group(w.seen.group);
    if (!w.is_told() || !Geometry(memory, record, w.local).is_source(w.seen.rank)) return;
    const bool shared = is_shared(w.seen.collective);
    progress.repeats |= only != nullptr;
    const auto all = memory.peers(group);
    for (uint32_t p = 0; p < all.size(); ++p) {
        const ServiceAddress at = all[p].at;
        if (at.node == memory.node() || !peers_.known(at) || (shared && all[p].node_first != p)) continue;
        if (only != nullptr && (at.node != only->node || (!shared && at.service != only->service))) continue;
        if (test_bit(due_bits(i), p) || acknowledged(memory, record, w.seen, p)) continue;
        set_bit(due_bits(i), p);
        ++progress.due_count;
        ++tasks_[w.operation].due_count;
        progress.small_peer = kNone;
    }
    // The record may have retired meanwhile; then what was read above means nothing, and the watch goes.
    if (!watches_.still(w)) forget(i);
    if (progress.due_count != 0) progress.unacknowledged = true;
}

void Teller::forget(uint32_t i) {
    if (progress_[i].due_count == 0) return;
    tasks_[watches_[i].operation].due_count -= progress_[i].due_count;
    progress_[i].due_count = 0;
    std::fill(due_bits(i), due_bits(i) + words_, 0);
}

void Teller::told(uint32_t i, uint32_t peer) {
    clear_bit(due_bits(i), peer);
    --progress_[i].due_count;
    --tasks_[watches_[i].operation].due_count;
}

void Teller::tell(uint32_t operation) {
    Task& task = tasks_[operation];
    if (task.due_count == 0) return;
    GroupSlot slot;
    const GroupEntry* group = groups_.find(operations_[operation].id.group, &slot);
    const uint32_t count = group != nullptr ? group->peer_count : 0;
    uint32_t rows = 0;
    for (uint32_t looked = 0; looked < count && task.due_count != 0 && rows < kRowsPerVisit; ++looked) {
        if (task.due_next >= count) task.due_next = 0;
        if (!tell_peer(operation, task.due_next, &rows)) return;
        ++task.due_next;
    }
}

// Small blocks of all ranks first, then all rows, which are so in one message. False: the frame is full.
bool Teller::tell_peer(uint32_t operation, uint32_t peer, uint32_t* rows) {
    const Operation& o = operations_[operation];
    for (const bool small_blocks : {true, false}) {
        uint32_t i = o.watch;
        for (uint32_t n = o.watch_count; n != 0; --n, i = operations_.after(i)) {
            const Watch& w = watches_[i];
            if (!w.is_told() || progress_[i].due_count == 0 || !test_bit(due_bits(i), peer)) continue;
            if (!watches_.still(w)) continue;
            if (!(small_blocks ? send_small(i, peer) : tell_row(i, peer))) return false;
            *rows += !small_blocks;
        }
    }
    return true;
}

// Blocks that lie in the node's memory and are small enough to go with the frame. False: it is full.
bool Teller::send_small(uint32_t i, uint32_t peer) {
    const Watch& w = watches_[i];
    Progress& progress = progress_[i];
    const NodeMemory& memory = context_.memory;
    const OperationRecord& record = memory.record(w.local, w.record);
    if (load_relaxed(&record.send_region) != kArenaRegion.value) return true;
    const GroupEntry& group = memory.group(w.seen.group);
    const Geometry geometry(memory, record, w.local);
    const bool shared = is_shared(w.seen.collective);
    const GroupPeer& to = memory.peers(group)[peer];
    const auto members = memory.members_of(group, to);
    if (progress.small_peer != peer) progress.small_next = 0;
    progress.small_peer = peer;
    for (; progress.small_next < members.size(); ++progress.small_next) {
        const uint32_t rank = members[progress.small_next];
        const Block block = geometry.outgoing(Rank{rank});
        if (block.bytes == 0 || block.bytes > context_.limits.eager_bytes) continue;
        Message m;
        m.kind = MessageKind::kSmallBlock;
        m.small.operation = operations_[w.operation].id;
        m.small.source = w.seen.rank;
        m.small.destination = shared ? kToNode | to.at.node.value : rank;
        m.small.bytes = {memory.arena(w.local) + block.at.offset, static_cast<size_t>(block.bytes)};
        if (!watches_.still(w)) return true;
        if (!outbox_.add(shared ? teller_for(memory, group, peer, w.seen.rank) : to.at, m)) return false;
        ++context_.counters->eager_blocks;
        if (shared) progress.small_next = static_cast<uint32_t>(members.size());
    }
    return true;
}

// Whether the blocks of a row need not be asked for: told for the first time, to the service process that
// reads them, and read in one piece. Of an allgather's any of a node's may be that; a broadcast's comes from
// several nodes.
bool Teller::goes_along(uint32_t i, ServiceAddress to) const {
    const RecordLook& seen = watches_[i].seen;
    if (!context_.limits.sends_along || progress_[i].repeats || context_.is_staged(seen.algorithm))
        return false;
    if (!is_shared(seen.collective)) return true;
    return seen.collective != Collective::kBcast && peers_.count_of(to.node) == 1;
}

// False: the record has retired, and what was read means nothing.
bool Teller::draft_row(uint32_t i, uint32_t peer, Draft* out) {
    const Watch& w = watches_[i];
    const NodeMemory& memory = context_.memory;
    const OperationRecord& record = memory.record(w.local, w.record);
    const GroupEntry& group = memory.group(w.seen.group);
    const bool shared = is_shared(w.seen.collective);
    const GroupPeer& at = memory.peers(group)[peer];
    const auto members = memory.members_of(group, at);
    look_at_given(members, Geometry(memory, record, w.local), shared);
    const Given& given = *given_;
    const BlockSpan& only = given.blocks[given.only];

    out->to = shared ? teller_for(memory, group, peer, w.seen.rank) : at.at;
    out->told.operation = operations_[w.operation].id;
    out->told.collective = w.seen.collective;
    out->told.origin = context_.here();
    Row& row = out->row;
    row.source = w.seen.rank;
    row.local_index = static_cast<uint16_t>(w.local_index);
    row.region = given.region;
    if (row.region.value < memory.limits().regions_max)
        row.generation = memory.region(w.local, row.region).generation.load(std::memory_order_acquire);
    if (!watches_.still(w)) return false;
    if (given.with_bytes == 0) return true;
    const bool small_ones = row.region == kArenaRegion && only.bytes <= context_.limits.eager_bytes;
    row.along = !small_ones && outbox_.room_along() >= given.with_bytes && goes_along(i, out->to);
    if (shared || given.with_bytes == 1) {
        row.form = Row::Form::kOne;
        row.destination = shared ? kToNode | out->to.node.value : members[given.only];
        row.offset = only.offset;
        row.bytes = only.bytes;
    } else if (is_uniform(given.blocks, members)) {
        row.form = Row::Form::kUniform;
        row.bytes = given.blocks[0].bytes;
        row.stride = (given.blocks[1].offset - given.blocks[0].offset) / (members[1] - members[0]);
        row.offset = given.blocks[0].offset - members[0] * row.stride;
    } else {
        row.form = Row::Form::kSpans;
        row.span_count = static_cast<uint16_t>(members.size());
        row.span_first = static_cast<uint16_t>(progress_[i].row_peer == peer ? progress_[i].spans_told : 0);
    }
    return true;
}

// False: the frame is full.
bool Teller::tell_row(uint32_t i, uint32_t peer) {
    const Watch& w = watches_[i];
    Progress& progress = progress_[i];
    Draft draft;
    if (!draft_row(i, peer, &draft)) return true;
    const Given& given = *given_;
    const Row& row = draft.row;
    if (given.with_bytes == 0) {  // does not lie in its region: nobody may read it
        told(i, peer);
        return true;
    }
    const uint32_t spans_left = row.span_count - row.span_first;
    const uint32_t written = outbox_.add_row(draft.to, MessageKind::kTell, draft.told, row,
                                             {given.blocks + row.span_first, spans_left});
    if (written == 0) return false;
    if (row.form == Row::Form::kSpans && written != spans_left) {
        progress.row_peer = peer;
        progress.spans_told = row.span_first + written;
        outbox_.send_soon();
        return false;
    }
    progress.row_peer = kNone;
    progress.spans_told = 0;
    const GroupEntry& group = context_.memory.group(w.seen.group);
    const auto members = context_.memory.members_of(group, context_.memory.peers(group)[peer]);
    for (uint32_t k = 0; row.along && k < given.count; ++k) {
        if (given.blocks[k].bytes == 0) continue;
        const uint32_t destination = is_shared(w.seen.collective) ? row.destination : members[k];
        outbox_.send_along(draft.to, {draft.told.operation, row.source, destination},
                           {w.local, row.region, row.generation}, given.blocks[k].offset,
                           given.blocks[k].bytes);
    }
    ++context_.counters->notifications;
    told(i, peer);
    return true;
}

void Teller::on_acknowledge(ServiceAddress from, const Acknowledgement& a, WakeSet* wake) {
    const NodeMemory& memory = context_.memory;
    GroupSlot slot;
    const GroupEntry* group = groups_.find(a.operation.group, &slot);
    if (group == nullptr) return;
    const uint32_t p = find_peer(memory, *group, from);
    if (p == group->peer_count || from.node == memory.node()) return;
    for (uint64_t bits = a.sources; bits != 0; bits &= bits - 1) {
        const uint32_t k = a.first + static_cast<uint32_t>(__builtin_ctzll(bits));
        RecordId id;
        if (k >= group->local_count ||
            entered(memory, *group, k, a.operation.sequence, &id) != Entered::kPublished)
            continue;
        const LocalRank local = memory.members(*group)[memory.locals(*group)[k]].local;
        RecordLook seen;
        if (!look(memory.record(local, id), &seen) || seen.sequence != a.operation.sequence ||
            seen.group != slot)
            continue;
        settle_peer(local, id, seen, is_shared(seen.collective) ? memory.peers(*group)[p].node_first : p,
                    a.failed, wake);
    }
}

void Teller::give_up(uint32_t i, uint32_t peer, WakeSet* wake) {
    const Watch& w = watches_[i];
    const GroupPeer& at = context_.memory.peers(context_.memory.group(w.seen.group))[peer];
    const uint32_t p = is_shared(w.seen.collective) ? at.node_first : peer;
    OperationRecord& record = context_.memory.record(w.local, w.record);
    if (!acknowledged(context_.memory, record, w.seen, p))
        note_error(record, w.seen.generation, OperationError::kServiceLost);
    settle_peer(w.local, w.record, w.seen, p, true, wake);
}

// A peer has read what a rank gives it, or never will.
void Teller::settle_peer(LocalRank local, RecordId id, const RecordLook& seen, uint32_t p, bool failed,
                         WakeSet* wake) {
    // After the swap the source may complete, and its group be gone.
    Atomic<ChunkWord>* word = acknowledgement_word(context_.memory, context_.memory.record(local, id), p);
    ChunkWord waiting = chunk_word(seen.generation, ChunkState::kFree);
    const ChunkWord read = chunk_word(seen.generation, failed ? ChunkState::kFailed : ChunkState::kLanded);
    if (word == nullptr || !word->compare_exchange_strong(waiting, read, std::memory_order_seq_cst)) return;
    context_.memory.ring_rank(local, wake);
    watches_.note_settled();

    const uint32_t i = watches_.find(local, id, seen.generation);
    if (i == kNone || !watches_[i].is_told()) return;
    progress_[i].ticks = 0;
    if (test_bit(due_bits(i), p)) told(i, p);
}

void Teller::retell(ServiceAddress to) {
    for (uint32_t i = 0; i < watches_.end(); ++i)
        if (watches_[i].used && watches_[i].is_told() && watches_.still(watches_[i])) rearm(i, &to);
}

void Teller::tick() {
    for (uint32_t i = 0; i < watches_.end(); ++i) {
        Progress& progress = progress_[i];
        if (!watches_[i].used || !progress.unacknowledged || progress.due_count != 0 ||
            !watches_.still(watches_[i]) || ++progress.ticks < progress.resend_after)
            continue;
        progress.ticks = 0;
        if (progress.resend_after < kResendAfterMax) progress.resend_after *= 2;
        progress.repeats = true;
        rearm(i, nullptr);
        context_.counters->notifications_resent += progress.due_count;
    }
}

}  // namespace longshore
