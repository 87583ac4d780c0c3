// ServiceEngine: rows of other nodes' blocks as they come, and which of their blocks can be read. Those of
// the alltoall family wait here until the ranks they are for have entered; each rank that has goes through
// the rows once. A shared block (allgather family) is read by one rank of the node: of this service process,
// if one has entered, else of another one, which is then handed the row. If no rank of the node has entered,
// the row waits here (paper S0, III.D.2 hands it around and parks it; every service process here sees all
// records).
#include "engine/service_state.h"

namespace longshore {
namespace {

// An operation has so many times as many places in the queue as it leaves free: one that comes new finds room
// (dynamic thresholds, Choudhury and Hahne 1998).
constexpr uint32_t kQueueShare = 4;
// Blocks of one operation that are found before they can be read, at most: enough for the reads that are
// posted next, and to lend some.
constexpr uint32_t kReadyMax = 256;

}  // namespace

// The ranks of a group that this service process serves.
std::span<const uint32_t> ServiceEngine::State::own_members(const GroupEntry& group) const {
    for (uint32_t i = 0; i < group.local_count; ++i) {
        const Member& m = memory.members(group)[memory.locals(group)[i]];
        if (m.service == self) return memory.members_of(group, memory.peers(group)[m.peer]);
    }
    return {};
}

void ServiceEngine::State::on_told(const Told& told, ServiceAddress sender, bool handed_on, WakeSet* wake) {
    const bool known_origin = known(told.origin) && told.origin.node != memory.node() &&
                              told.origin.service.value < services_of[told.origin.node.value];
    if (!known_origin || (handed_on ? sender.node != memory.node() : sender != told.origin)) {
        ++counters->malformed_messages;
        return;
    }
    // Its blocks have failed already, or will as soon as a rank enters (lose()); nobody could read them.
    if (peer(told.origin).lost) return;
    RowReader reader(told);
    Row row;
    while (reader.next(&row)) {
        if (!handed_on) ++counters->late_of(told.collective).received;
        GroupSlot slot;
        const GroupEntry* group = find_group(told.operation.group, &slot);
        if (group == nullptr) {  // freed here: all its operations are over here
            ++counters->duplicates;
            drop_small(told.operation, row.source);
            answer(told.operation, told.origin, row.local_index, false);
        } else if (!plausible(*group, told, row)) {
            ++counters->malformed_messages;
        } else {
            on_row(slot, told, row, handed_on, wake);
        }
    }
    counters->malformed_messages += reader.malformed();
}

bool ServiceEngine::State::plausible(const GroupEntry& group, const Told& told, const Row& row) const {
    if (row.source.value >= group.size) return false;
    const Member& source = memory.members(group)[row.source.value];
    if (source.node != told.origin.node || source.local_index != row.local_index) return false;
    if (row.form == Row::Form::kOne && (row.destination & kToNode) != 0)
        return row.destination == (kToNode | memory.node().value) && group.local_count != group.size;
    if (row.form == Row::Form::kSpans) return row.span_count == own_members(group).size();
    if (row.form == Row::Form::kUniform) return !own_members(group).empty();
    if (row.destination >= group.size) return false;
    const Member& member = memory.members(group)[row.destination];
    return member.node == memory.node() && member.service == self;
}

void ServiceEngine::State::on_row(GroupSlot slot, const Told& told, const Row& row, bool handed_on,
                                  WakeSet* wake) {
    uint32_t i = find_row(told.operation, row.source);
    if (i != kNone && (rows[i].whole || row.span_first != rows[i].row.spans_here)) {
        if (rows[i].whole || row.span_first != 0) {
            ++counters->duplicates;
            return;
        }
        drop_row(i);  // its teller has begun anew
        i = kNone;
    }
    if (i == kNone && row.form == Row::Form::kSpans && row.span_first != 0) {
        owe(told.origin);  // there was no room for the first part
        return;
    }
    if (i == kNone) {
        const GroupEntry& group = memory.group(slot);
        const Worth worth = rows.room() == 0 ? worth_of(group, told, row) : Worth::kAwaited;
        if (worth == Worth::kNothing) {
            ++counters->duplicates;
            drop_small(told.operation, row.source);
            answer(told.operation, told.origin, row.local_index, false);
            return;
        }
        i = make_row(told.operation, told.origin, worth == Worth::kAwaited);
        if (i == kNone) {
            ++counters->pool_full;
            drop_small(told.operation, row.source);
            owe(told.origin);
            answer_held_wants();
            return;
        }
        RowEntry& r = rows[i];
        r.row = row;
        r.owner = memory.members(group)[row.source.value].local;
        r.row.spans = {};
        r.row.spans_here = 0;
        r.collective = told.collective;
        r.shared = row.form == Row::Form::kOne && (row.destination & kToNode) != 0;
        hash_in(i);
    }
    if (row.form == Row::Form::kSpans) {
        if (!add_spans(rows[i], row)) {
            owe(told.origin);
            drop_row(i);
            return;
        }
        if (rows[i].row.spans_here != row.span_count) return;
    }
    begin_row(slot, i, handed_on, wake);
}

// What a row is worth that has not been kept: a rank has entered and lacks a block of it; or none will need
// it; or one may.
ServiceEngine::State::Worth ServiceEngine::State::worth_of(const GroupEntry& group, const Told& told,
                                                           const Row& row) const {
    const bool shared = row.form == Row::Form::kOne && (row.destination & kToNode) != 0;
    if (row.spans_here != row.span_count) return Worth::kAwaited;  // in parts: nobody knows
    SpanReader reader(row);
    bool some_later = false, some_entered = false;
    for (uint32_t k = 0; k < group.local_count; ++k) {
        const uint32_t rank = memory.locals(group)[k];
        const Member& member = memory.members(group)[rank];
        if (!shared && member.service != self) continue;
        BlockSpan span;
        if (row.form == Row::Form::kSpans && (!reader.next(&span) || span.bytes == 0)) continue;
        if (row.form == Row::Form::kOne && !shared && rank != row.destination) continue;
        if (lacks(group, k, told.operation.sequence, row.source)) return Worth::kAwaited;
        RecordId ignored;
        const bool later = entered(memory, group, k, told.operation.sequence, &ignored) == Entered::kNotYet;
        some_later |= later;
        some_entered |= !later;
    }
    return some_later && !(shared && some_entered) ? Worth::kLater : Worth::kNothing;
}

// Whether a rank of the node takes part in an operation now, and has not got the block of `source`.
bool ServiceEngine::State::lacks(const GroupEntry& group, uint32_t local_index, uint64_t sequence,
                                 Rank source) const {
    RecordId id;
    RecordLook seen;
    if (entered(memory, group, local_index, sequence, &id) != Entered::kPublished) return false;
    const LocalRank local = memory.members(group)[memory.locals(group)[local_index]].local;
    const OperationRecord& record = memory.record(local, id);
    if (!look(record, &seen) || seen.sequence != sequence) return false;
    uint32_t from = 0;
    const ChunkRange chunks = arriving_chunks(memory, record, source);
    return chunks.count != 0 && !block_settled(chunks, seen.generation, &from);
}

// All of a row is here: who it is for, and who of those may read now?
void ServiceEngine::State::begin_row(GroupSlot slot, uint32_t i, bool handed_on, WakeSet* wake) {
    RowEntry& r = rows[i];
    const GroupEntry& group = memory.group(slot);
    const uint64_t sequence = share_pool[r.share].operation.sequence;
    LateCounters& late = counters->late_of(r.collective);
    // Those that are past the operation go, so that each watch that stays looks at the row once.
    for (bool again = true; again;) {
        again = false;
        uint32_t w = share_pool[r.share].watch;
        for (uint32_t n = share_pool[r.share].watch_count; n != 0 && !again; --n) {
            const uint32_t at = w;
            w = watches[w].share_next;
            again = !watches[at].helps && !still(watches[at]);
            if (again) drop_watch(at);
        }
    }
    Share& s = share_pool[r.share];
    r.whole = true;
    r.before = s.rows_tail;
    (s.rows_tail != kNone ? rows[s.rows_tail].after : s.rows_head) = i;
    s.rows_tail = i;
    if (r.shared) {
        r.left = 1;
        if (s.to_place == kNone) s.to_place = i;
        if (handed_on) {
            late.rescued += !r.row.waited;
        } else {
            late.late += !has_entered(group, sequence);
        }
        place_rows(s, wake);
        return;
    }
    uint64_t watched[kRanksPerNodeMax / 64] = {};
    uint32_t w = s.watch;
    for (uint32_t n = s.watch_count; n != 0; --n, w = watches[w].share_next) {
        if (watches[w].helps) continue;
        watched[watches[w].own_index / 64] |= uint64_t{1} << (watches[w].own_index % 64);
        if (watches[w].row_next != kNone) continue;
        watches[w].row_next = i;
        ++s.unpulled;
    }
    const auto own = own_members(group);
    bool is_late = false;
    for (uint32_t k = 0; k < own.size(); ++k) {
        if (block_in(r, Rank{own[k]}, k).bytes == 0) continue;
        if ((watched[k / 64] >> (k % 64) & 1) != 0) {
            ++r.left;
            continue;
        }
        RecordId ignored;
        const Entered has =
            entered(memory, group, memory.members(group)[own[k]].local_index, sequence, &ignored);
        r.left += has != Entered::kOver;
        is_late |= has == Entered::kNotYet;
    }
    late.late += is_late;
    if (r.left != 0) return;
    ++counters->duplicates;
    row_over(i);
}

// Whether a rank of this service process takes part in the operation now.
bool ServiceEngine::State::has_entered(const GroupEntry& group, uint64_t sequence) const {
    for (const uint32_t rank : own_members(group)) {
        RecordId ignored;
        if (entered(memory, group, memory.members(group)[rank].local_index, sequence, &ignored) ==
            Entered::kPublished)
            return true;
    }
    return false;
}

void ServiceEngine::State::on_small(ServiceAddress from, const SmallBlock& block) {
    GroupSlot slot;
    const GroupEntry* group = find_group(block.operation.group, &slot);
    if (group == nullptr) return;  // its row is answered
    bool here = block.source.value < group->size;
    if ((block.destination & kToNode) != 0) {
        here = here && block.destination == (kToNode | memory.node().value);
    } else {
        here = here && block.destination < group->size &&
               memory.members(*group)[block.destination].node == memory.node();
    }
    if (!here) {
        ++counters->malformed_messages;
        return;
    }
    keep_small(from, block);
}

// The next row from `row` on that is for ranks, not for the node.
uint32_t ServiceEngine::State::next_plain(uint32_t row) const {
    while (row != kNone && rows[row].shared) row = rows[row].after;
    return row;
}

// A rank has entered: the rows that have come before are to be looked at.
void ServiceEngine::State::join_rows(uint32_t i) {
    Watch& w = watches[i];
    Share& s = share_pool[w.share];
    const GroupEntry& group = memory.group(w.seen.group);
    const auto own = own_members(group);
    while (w.own_index < own.size() && own[w.own_index] != w.seen.rank.value) ++w.own_index;
    w.row_next = next_plain(s.rows_head);
    s.unpulled += w.row_next != kNone;
    ask_again = true;
}

// A rank is past the operation: what it has not looked at has been settled for it otherwise.
void ServiceEngine::State::leave_rows(uint32_t i) {
    Watch& w = watches[i];
    Share& s = share_pool[w.share];
    if (w.row_next == kNone) return;
    uint32_t row = w.row_next;
    w.row_next = kNone;
    --s.unpulled;
    while (row != kNone) {
        const uint32_t next = next_plain(rows[row].after);
        if (block_in(rows[row], w.seen.rank, w.own_index).bytes != 0) block_over(row, false);
        row = next;
    }
}

// Finds blocks that can be read now. Each rank takes the rows of one peer, one after the other, before the
// next rank has its turn: the rows of a peer are so over at about the same time, and acknowledged at once.
void ServiceEngine::State::pull(Share& s, WakeSet* wake) {
    if (s.to_place != kNone) place_rows(s, wake);
    uint32_t tries = s.watch_count;
    while (s.unpulled != 0 && s.ready.count < kReadyMax && s.queued_count < kQueueShare * queue.room()) {
        const uint32_t i = s.pull_watch;
        const Watch& w = watches[i];
        if (w.helps || w.row_next == kNone || !still(w)) {
            s.pull_watch = w.share_next;
            if (--tries == 0) return;
            continue;
        }
        const uint32_t batch = rows[w.row_next].batch;
        if (!pull_row(i, wake)) return;
        if (w.row_next == kNone || rows[w.row_next].batch != batch) s.pull_watch = w.share_next;
        tries = s.watch_count;
    }
}

// False: there is no room now.
bool ServiceEngine::State::pull_row(uint32_t i, WakeSet* wake) {
    Watch& w = watches[i];
    const uint32_t row = w.row_next;
    RowEntry& r = rows[row];
    Queued queued = Queued::kOver;
    const BlockSpan span = block_in(r, w.seen.rank, w.own_index);
    if (span.bytes != 0) {
        queued = queue_block(i, remote_block(r, span, w.seen.rank.value), row, wake);
        if (queued == Queued::kNoRoom) return false;
    }
    ask_again |= again_count != 0;  // it may have to make room
    w.row_next = next_plain(r.after);
    if (w.row_next == kNone) --share_pool[w.share].unpulled;
    if (span.bytes != 0 && queued != Queued::kQueued) block_over(row, queued == Queued::kFailed);
    return true;
}

RemoteBlock ServiceEngine::State::remote_block(const RowEntry& r, const BlockSpan& span,
                                               uint32_t destination) const {
    RemoteBlock n;
    n.operation = share_pool[r.share].operation;
    n.source = r.row.source;
    n.destination = destination;
    n.origin = batches[r.batch].origin;
    n.owner = r.owner;
    n.region = r.row.region;
    n.region_generation = r.row.generation;
    n.offset = span.offset;
    n.bytes = span.bytes;
    n.along = r.row.along;
    return n;
}

// A net: ranks that were past an operation before this service process had seen them in it.
void ServiceEngine::State::sweep_rows() {
    for (uint32_t i = 0; i < rows.made; ++i) {
        RowEntry& r = rows[i];
        if (!r.used || r.over || !r.whole || r.shared || share_pool[r.share].own_count != 0) continue;
        const OperationId id = share_pool[r.share].operation;
        GroupSlot slot;
        const GroupEntry* group = find_group(id.group, &slot);
        bool all_over = true;
        const auto own = group != nullptr ? own_members(*group) : std::span<const uint32_t>{};
        for (uint32_t k = 0; k < own.size() && all_over; ++k) {
            RecordId ignored;
            all_over = block_in(r, Rank{own[k]}, k).bytes == 0 ||
                       entered(memory, *group, memory.members(*group)[own[k]].local_index, id.sequence,
                               &ignored) == Entered::kOver;
        }
        if (all_over) row_over(i);
    }
}

}  // namespace longshore
