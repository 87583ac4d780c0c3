#include "engine/service/arrivals.h"

#include <algorithm>

namespace longshore {
namespace {

constexpr uint32_t kStrayLooks = 64;  // small blocks looked at for one whose row is not here

}  // namespace

void Arrivals::carve(Carver& c) {
    pull_watch_ = c.take<uint32_t>(operations_.max());
}

void Arrivals::on_told(const Told& told, ServiceAddress sender, bool handed_on, WakeSet* wake) {
    const bool known_origin = peers_.is_other(told.origin) && told.origin.node != context_.memory.node();
    if (!known_origin || (handed_on ? sender.node != context_.memory.node() : sender != told.origin)) {
        ++context_.counters->malformed_messages;
        return;
    }
    // Its blocks have failed already, or will as soon as a rank enters; nobody could read them.
    if (peers_.is_lost(told.origin)) return;
    RowReader reader(told);
    Row row;
    while (reader.next(&row)) {
        if (!handed_on) ++context_.counters->late_of(told.collective).received;
        GroupSlot slot;
        const GroupEntry* group = groups_.find(told.operation.group, &slot);
        if (group == nullptr) {  // freed here: all its operations are over here
            ++context_.counters->duplicates;
            small_.drop(told.operation, row.source);
            acknowledger_.answer(told.operation, told.origin, row.local_index, false);
        } else if (!is_plausible(*group, told, row)) {
            ++context_.counters->malformed_messages;
        } else {
            on_row(slot, told, row, handed_on, wake);
        }
    }
    context_.counters->malformed_messages += reader.malformed();
}

bool Arrivals::is_plausible(const GroupEntry& group, const Told& told, const Row& row) const {
    const NodeMemory& memory = context_.memory;
    if (row.source.value >= group.size) return false;
    const Member& source = memory.members(group)[row.source.value];
    if (source.node != told.origin.node || source.local_index != row.local_index) return false;
    if (row.form == Row::Form::kOne && (row.destination & kToNode) != 0)
        return row.destination == (kToNode | memory.node().value) && group.local_count != group.size;
    const auto served = members_served(memory, group, context_.self);
    if (row.form == Row::Form::kSpans) return row.span_count == served.size();
    if (row.form == Row::Form::kUniform) return !served.empty();
    if (row.destination >= group.size) return false;
    const Member& member = memory.members(group)[row.destination];
    return member.node == memory.node() && member.service == context_.self;
}

void Arrivals::on_row(GroupSlot slot, const Told& told, const Row& row, bool handed_on, WakeSet* wake) {
    uint32_t i = rows_.find(told.operation, row.source);
    if (i != kNone && (rows_[i].whole || row.span_first != rows_[i].row.spans_here)) {
        if (rows_[i].whole || row.span_first != 0) {
            ++context_.counters->duplicates;
            return;
        }
        rows_.drop(i);  // its teller has begun anew
        i = kNone;
    }
    if (i == kNone && row.form == Row::Form::kSpans && row.span_first != 0) {
        acknowledger_.owe(told.origin);  // there was no room for the first part
        return;
    }
    if (i == kNone) {
        const GroupEntry& group = context_.memory.group(slot);
        const Worth worth = rows_.room() == 0 ? worth_of(group, told, row) : Worth::kAwaited;
        if (worth == Worth::kNothing) {
            ++context_.counters->duplicates;
            small_.drop(told.operation, row.source);
            acknowledger_.answer(told.operation, told.origin, row.local_index, false);
            return;
        }
        const LocalRank owner = context_.memory.members(group)[row.source.value].local;
        i = rows_.make(told, row, owner, worth == Worth::kAwaited);
        if (i == kNone) {
            ++context_.counters->pool_full;
            small_.drop(told.operation, row.source);
            acknowledger_.owe(told.origin);
            dropped_some_ = true;
            return;
        }
    }
    if (row.form == Row::Form::kSpans) {
        if (!rows_.add_part(i, row)) {
            acknowledger_.owe(told.origin);
            rows_.drop(i);
            return;
        }
        if (rows_[i].row.spans_here != row.span_count) return;
    }
    begin_row(slot, i, handed_on, wake);
}

bool Arrivals::dropped_some() {
    const bool some = dropped_some_;
    dropped_some_ = false;
    return some;
}

Arrivals::Worth Arrivals::worth_of(const GroupEntry& group, const Told& told, const Row& row) const {
    const NodeMemory& memory = context_.memory;
    const bool shared = row.form == Row::Form::kOne && (row.destination & kToNode) != 0;
    if (row.spans_here != row.span_count) return Worth::kAwaited;  // in parts: nobody knows
    SpanReader reader(row);
    // Who has entered and lacks it no more has it from that one; where there is none, it has given up.
    const uint64_t sequence = told.operation.sequence;
    const bool has_reader =
        shared && group.local_count != 1 && memory.reader_of(group, sequence, row.source) >> 20 >= sequence;
    bool some_later = false;
    for (uint32_t k = 0; k < group.local_count; ++k) {
        const uint32_t rank = memory.locals(group)[k];
        if (!shared && memory.members(group)[rank].service != context_.self) continue;
        BlockSpan span;
        if (row.form == Row::Form::kSpans && (!reader.next(&span) || span.bytes == 0)) continue;
        if (row.form == Row::Form::kOne && !shared && rank != row.destination) continue;
        if (lacks(memory, group, k, sequence, row.source)) return Worth::kAwaited;
        RecordId ignored;
        some_later |= entered(memory, group, k, sequence, &ignored) == Entered::kNotYet;
    }
    return some_later && !has_reader ? Worth::kLater : Worth::kNothing;
}

// Those that are past the operation go, so that each watch that stays looks at a new row once.
void Arrivals::drop_stale_watches(uint32_t operation) {
    for (bool again = true; again;) {
        again = false;
        uint32_t w = operations_[operation].watch;
        for (uint32_t n = operations_[operation].watch_count; n != 0 && !again; --n) {
            const uint32_t at = w;
            w = operations_.after(w);
            again = !watches_[at].helps && !watches_.still(watches_[at]);
            if (again) watches_.drop(at);
        }
    }
}

// All of a row is here: who it is for, and who of those may read now?
void Arrivals::begin_row(GroupSlot slot, uint32_t i, bool handed_on, WakeSet* wake) {
    const RowEntry& r = rows_[i];
    const GroupEntry& group = context_.memory.group(slot);
    drop_stale_watches(r.operation);
    rows_.complete(i);
    if (!r.shared) {
        begin_plain_row(group, i);
        return;
    }
    LateCounters& late = context_.counters->late_of(r.collective);
    rows_[i].left = 1;
    if (rows_.cursors(r.operation).to_place == kNone) rows_.cursors(r.operation).to_place = i;
    if (handed_on) {
        late.rescued += !r.row.waited;
    } else {
        late.late += !has_entered(group, operations_[r.operation].id.sequence);
    }
    shared_.place(r.operation, wake);
}

void Arrivals::begin_plain_row(const GroupEntry& group, uint32_t i) {
    RowEntry& r = rows_[i];
    const Operation& o = operations_[r.operation];
    uint64_t watched[kRanksPerNodeMax / 64] = {};
    uint32_t w = o.watch;
    for (uint32_t n = o.watch_count; n != 0; --n, w = operations_.after(w)) {
        if (watches_[w].helps) continue;
        set_bit(watched, watches_[w].own_index);
        if (rows_.next_of(w) == kNone) rows_.set_next(w, i);
    }
    const auto own = members_served(context_.memory, group, context_.self);
    bool is_late = false;
    for (uint32_t k = 0; k < own.size(); ++k) {
        if (rows_.block_in(i, Rank{own[k]}, k).bytes == 0) continue;
        if (test_bit(watched, k)) {
            ++r.left;
            continue;
        }
        RecordId ignored;
        const uint32_t local_index = context_.memory.members(group)[own[k]].local_index;
        const Entered has = entered(context_.memory, group, local_index, o.id.sequence, &ignored);
        r.left += has != Entered::kOver;
        is_late |= has == Entered::kNotYet;
    }
    context_.counters->late_of(r.collective).late += is_late;
    if (r.left != 0) return;
    ++context_.counters->duplicates;
    rows_.end(i);
}

// Whether a rank of this service process takes part in the operation now.
bool Arrivals::has_entered(const GroupEntry& group, uint64_t sequence) const {
    for (const uint32_t rank : members_served(context_.memory, group, context_.self)) {
        RecordId ignored;
        if (entered(context_.memory, group, context_.memory.members(group)[rank].local_index, sequence,
                    &ignored) == Entered::kPublished)
            return true;
    }
    return false;
}

void Arrivals::on_small(ServiceAddress from, const SmallBlock& block) {
    const NodeMemory& memory = context_.memory;
    GroupSlot slot;
    const GroupEntry* group = groups_.find(block.operation.group, &slot);
    if (group == nullptr) return;  // its row is answered
    bool here = block.source.value < group->size;
    if ((block.destination & kToNode) != 0) {
        here = here && block.destination == (kToNode | memory.node().value);
    } else {
        here = here && block.destination < group->size &&
               memory.members(*group)[block.destination].node == memory.node();
    }
    if (!here) {
        ++context_.counters->malformed_messages;
        return;
    }
    // One whose row is not here has been told again, and was acknowledged before its row was.
    for (uint32_t looks = kStrayLooks; small_.room() == 0 && looks != 0; --looks) {
        OperationId operation;
        Rank source;
        if (small_.look_at_one(&operation, &source) && rows_.find(operation, source) == kNone)
            small_.drop(operation, source);
    }
    small_.keep(from, block);
}

void Arrivals::watch_began(uint32_t i, WakeSet*) {
    const Watch& w = watches_[i];
    if (pull_watch_[w.operation] == kNone) pull_watch_[w.operation] = i;
    if (w.is_told()) acknowledger_.ask_soon();
}

// A rank is past the operation: what it has not looked at has been settled for it otherwise.
void Arrivals::watch_ended(uint32_t i) {
    const Watch& w = watches_[i];
    uint32_t& turn = pull_watch_[w.operation];
    if (turn == i) turn = operations_[w.operation].watch_count > 1 ? operations_.after(i) : kNone;
    uint32_t row = rows_.next_of(i);
    rows_.set_next(i, kNone);
    while (row != kNone) {
        const uint32_t next = rows_.plain_from(rows_[row].after);
        if (rows_.block_in(row, w.seen.rank, w.own_index).bytes != 0) rows_.block_over(row, false);
        row = next;
    }
}

void Arrivals::pull(uint32_t operation, WakeSet* wake) {
    shared_.place(operation, wake);
    uint32_t tries = operations_[operation].watch_count;
    const Rows::Cursors& cursors = rows_.cursors(operation);
    while (cursors.unpulled != 0 && queue_.wants_more(operation)) {
        const uint32_t i = pull_watch_[operation];
        const uint32_t row = rows_.next_of(i);
        if (row == kNone || !watches_.still(watches_[i])) {
            pull_watch_[operation] = operations_.after(i);
            if (--tries == 0) return;
            continue;
        }
        if (!pull_row(i, wake)) return;
        tries = operations_[operation].watch_count;
    }
}

// False: there is no room now.
bool Arrivals::pull_row(uint32_t i, WakeSet* wake) {
    const Watch& w = watches_[i];
    const uint32_t row = rows_.next_of(i);
    ReadQueue::Queued queued = ReadQueue::Queued::kOver;
    const BlockSpan span = rows_.block_in(row, w.seen.rank, w.own_index);
    if (span.bytes != 0) {
        queued = queue_.add(i, rows_.remote_block(row, span, w.seen.rank.value), row, wake);
        if (queued == ReadQueue::Queued::kNoRoom) return false;
    }
    acknowledger_.ask_soon();  // the row may have to make room
    rows_.set_next(i, rows_.plain_from(rows_[row].after));
    if (span.bytes != 0 && queued != ReadQueue::Queued::kQueued)
        rows_.block_over(row, queued == ReadQueue::Queued::kFailed);
    return true;
}

void Arrivals::sweep() {
    const NodeMemory& memory = context_.memory;
    for (uint32_t i = 0; i < rows_.limit(); ++i) {
        const RowEntry& r = rows_[i];
        // A block that is queued still ends its part of the row, also when the operation is over.
        if (!r.used || !r.whole || r.shared || r.queued != 0) continue;
        const OperationId id = operations_[r.operation].id;
        GroupSlot slot;
        const GroupEntry* group = groups_.find(id.group, &slot);
        bool all_over = true;
        const auto own =
            group != nullptr ? members_served(memory, *group, context_.self) : std::span<const uint32_t>{};
        for (uint32_t k = 0; k < own.size() && all_over; ++k) {
            RecordId ignored;
            const uint32_t local_index = memory.members(*group)[own[k]].local_index;
            all_over = rows_.block_in(i, Rank{own[k]}, k).bytes == 0 ||
                       (entered(memory, *group, local_index, id.sequence, &ignored) != Entered::kNotYet &&
                        !lacks(memory, *group, local_index, id.sequence, r.row.source));
        }
        if (all_over) rows_.end(i);
    }
}

}  // namespace longshore
