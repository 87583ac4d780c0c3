#include "engine/service/rows.h"

#include <algorithm>

namespace longshore {
namespace {

constexpr uint32_t kEvictLooks = 64;  // rows looked at for one that may go

}  // namespace

void Rows::carve(Carver& c) {
    c.pool(&pool_, context_.limits.rows_max);
    spans_.carve(c, context_.limits.rows_max);
    buckets_.carve(c, context_.limits.rows_max);
    cursors_ = c.take<Cursors>(operations_.max());
    next_of_ = c.take<uint32_t>(context_.limits.watches_max);
}

uint32_t& Rows::bucket_of(const OperationId& operation, Rank source) const {
    return buckets_.of(hash_of(operation, source));
}

uint32_t Rows::find(const OperationId& operation, Rank source) const {
    uint32_t i = bucket_of(operation, source);
    while (i != kNone && (pool_[i].row.source != source || operations_[pool_[i].operation].id != operation))
        i = pool_[i].chain;
    return i;
}

uint32_t Rows::make(const Told& told, const Row& row, LocalRank owner, bool readable) {
    if (pool_.room() == 0 && (!readable || !evict())) return kNone;
    const uint32_t i = pool_.take();
    RowEntry& r = pool_[i];
    r.used = true;
    r.operation = operations_.open(told.operation);
    r.batch = acknowledger_.begin_row(r.operation, told.operation, told.origin);
    operations_.hold(r.operation);
    r.row = row;
    r.row.spans = {};
    r.row.spans_here = 0;
    r.owner = owner;
    r.collective = told.collective;
    r.shared = row.form == Row::Form::kOne && (row.destination & kToNode) != 0;
    uint32_t& bucket = bucket_of(told.operation, row.source);
    r.chain = bucket;
    bucket = i;
    return i;
}

bool Rows::add_part(uint32_t i, const Row& part) {
    RowEntry& r = pool_[i];
    if (!spans_.append(&r.spans, part)) return false;
    r.row.spans_here = static_cast<uint16_t>(part.span_first + part.spans_here);
    return true;
}

void Rows::complete(uint32_t i) {
    RowEntry& r = pool_[i];
    Cursors& c = cursors_[r.operation];
    r.whole = true;
    r.serial = ++serial_;
    // Shared rows are placed in the order of arrival (shared_rows.h).
    if (r.shared) {
        r.round = c.last != kNone ? pool_[c.last].round : c.round;
    } else {
        r.round = acknowledger_.next_round(r.batch, c.round);
    }
    link(i, place_of(c, r.round));
    c.recent = i;
}

// The row behind which the next one of a round has its place; kNone: it is the first of all.
uint32_t Rows::place_of(const Cursors& c, uint64_t round) const {
    uint32_t last = kNone;
    const bool near = c.recent != kNone && pool_[c.recent].round <= round;
    uint32_t first = near ? pool_[c.recent].other_end : c.first;
    while (first != kNone && pool_[first].round <= round) {
        last = pool_[first].other_end;
        first = pool_[last].after;
    }
    return last;
}

void Rows::link(uint32_t i, uint32_t before) {
    RowEntry& r = pool_[i];
    Cursors& c = cursors_[r.operation];
    r.before = before;
    r.after = before != kNone ? pool_[before].after : c.first;
    (before != kNone ? pool_[before].after : c.first) = i;
    (r.after != kNone ? pool_[r.after].before : c.last) = i;
    const bool begins = before == kNone || pool_[before].round != r.round;
    r.other_end = begins ? i : pool_[before].other_end;
    pool_[r.other_end].other_end = i;
}

void Rows::unlink_from_round(uint32_t i) {
    const RowEntry& r = pool_[i];
    const bool is_first = r.before == kNone || pool_[r.before].round != r.round;
    const bool is_last = r.after == kNone || pool_[r.after].round != r.round;
    if (is_first == is_last) return;  // it is alone, or within
    const uint32_t end = is_first ? r.after : r.before;
    pool_[end].other_end = r.other_end;
    pool_[r.other_end].other_end = end;
}

bool Rows::is_before(uint32_t a, uint32_t b) const {
    const RowEntry &x = pool_[a], &y = pool_[b];
    return x.round != y.round ? x.round < y.round : x.serial < y.serial;
}

// Whether no rank that is here can read anything of the row.
bool Rows::can_go(uint32_t i) const {
    const RowEntry& r = pool_[i];
    if (r.queued != 0) return false;
    const Operation& o = operations_[r.operation];
    if (o.own_count == 0 || !r.whole) return true;
    if (r.shared) return false;
    uint32_t w = o.watch;
    for (uint32_t n = o.watch_count; n != 0; --n, w = operations_.after(w))
        if (next_of_[w] != kNone && !is_before(i, next_of_[w])) return false;
    return true;
}

bool Rows::evict() {
    for (uint32_t looks = std::min(kEvictLooks, pool_.made); looks != 0; --looks) {
        const uint32_t i = clock_++ % pool_.made;
        if (!pool_[i].used || !can_go(i)) continue;
        acknowledger_.owe(acknowledger_.teller(pool_[i].batch));
        drop(i);
        return true;
    }
    return false;
}

// Takes a row out of its operation: cursors go on to the next.
void Rows::unlink(uint32_t i) {
    RowEntry& r = pool_[i];
    const Operation& o = operations_[r.operation];
    uint32_t* link = &bucket_of(o.id, r.row.source);
    while (*link != i) link = &pool_[*link].chain;
    *link = r.chain;
    small_.drop(o.id, r.row.source);
    spans_.give(&r.spans);
    stop_waiting(context_, r);
    if (r.whole) {
        Cursors& c = cursors_[r.operation];
        if (c.to_place == i) c.to_place = r.after;
        uint32_t w = o.watch;
        for (uint32_t n = c.unpulled != 0 ? o.watch_count : 0; n != 0; --n, w = operations_.after(w))
            if (next_of_[w] == i) set_next(w, plain_from(r.after));
        unlink_from_round(i);
        if (c.recent == i) c.recent = kNone;
        (r.before != kNone ? pool_[r.before].after : c.first) = r.after;
        (r.after != kNone ? pool_[r.after].before : c.last) = r.before;
    }
    r.used = false;
    pool_.give(i);
    operations_.release(r.operation);
}

void Rows::drop(uint32_t i) {
    const uint32_t batch = pool_[i].batch;
    unlink(i);
    acknowledger_.forget_row(batch);
}

void Rows::end(uint32_t i) {
    const RowEntry r = pool_[i];
    unlink(i);
    acknowledger_.end_row(r.batch, r.row.local_index, r.failed);
}

void Rows::drop_parts(ServiceAddress of) {
    for (uint32_t i = 0; i < pool_.made; ++i)
        if (pool_[i].used && !pool_[i].whole && acknowledger_.teller(pool_[i].batch) == of) drop(i);
}

BlockSpan Rows::block_in(uint32_t i, Rank rank, uint32_t own_index) const {
    const RowEntry& r = pool_[i];
    switch (r.row.form) {
        case Row::Form::kUniform:
            return {r.row.offset + rank.value * r.row.stride, r.row.bytes};
        case Row::Form::kOne:
            if (r.row.destination == rank.value) return {r.row.offset, r.row.bytes};
            return {};
        case Row::Form::kSpans:
            break;
    }
    return own_index < r.row.spans_here ? spans_.at(r.spans, own_index) : BlockSpan{};
}

RemoteBlock Rows::remote_block(uint32_t i, const BlockSpan& span, uint32_t destination) const {
    const RowEntry& r = pool_[i];
    RemoteBlock n;
    n.operation = operations_[r.operation].id;
    n.source = r.row.source;
    n.destination = destination;
    n.origin = acknowledger_.teller(r.batch);
    n.owner = r.owner;
    n.region = r.row.region;
    n.region_generation = r.row.generation;
    n.offset = span.offset;
    n.bytes = span.bytes;
    n.along = r.row.along;
    return n;
}

void Rows::block_over(uint32_t i, bool failed) {
    pool_[i].failed |= failed;
    LONGSHORE_CHECK(pool_[i].left != 0);
    if (--pool_[i].left == 0) end(i);
}

uint32_t Rows::plain_from(uint32_t row) const {
    while (row != kNone && pool_[row].shared) row = pool_[row].after;
    return row;
}

void Rows::set_next(uint32_t watch, uint32_t row) {
    Cursors& c = cursors_[watches_[watch].operation];
    c.unpulled += (row != kNone) - (next_of_[watch] != kNone);
    if (row != kNone) c.round = std::max(c.round, pool_[row].round);
    next_of_[watch] = row;
}

// A rank has entered: the rows that have come before are to be looked at.
void Rows::watch_began(uint32_t i, WakeSet*) {
    next_of_[i] = kNone;
    const Watch& w = watches_[i];
    if (w.is_told()) set_next(i, plain_from(cursors_[w.operation].first));
}

void begin_waiting(const ServiceContext& context, RowEntry& r) {
    if (r.waiting) return;
    ++context.counters->late_of(r.collective).parked;
    r.waiting = r.row.waited = true;
    r.since_ns = context.now_ns;
}

// Who told of it may have read its clock later than we ours.
void stop_waiting(const ServiceContext& context, RowEntry& r) {
    if (!r.waiting) return;
    r.waiting = false;
    ++context.counters->unparked;
    LateCounters& late = context.counters->late_of(r.collective);
    const uint64_t waited_ns = context.now_ns > r.since_ns ? context.now_ns - r.since_ns : 0;
    late.parked_ns += waited_ns;
    if (waited_ns > late.parked_longest_ns) late.parked_longest_ns = waited_ns;
}

}  // namespace longshore
