// ServiceEngine: what other service processes have told, as far as it has not all been read: rows, by
// operation and source. A row is over when each rank it is for has its block, or never will; then its source
// is acknowledged, together with the other rows of the same batch that are over by then. Where there is no
// room for a row it is forgotten, and its teller asked, when there may be room, to tell again what has not
// been acknowledged. Rows that nobody can read yet make room for those that somebody can.
#include <algorithm>
#include <cstring>

#include "engine/service_state.h"

namespace longshore {
namespace {

constexpr uint32_t kEvictLooks = 64;  // rows looked at for one that may go
// A row that is over waits at most so many actions for others of its batch whose blocks are being read.
constexpr uint64_t kAcknowledgeSteps = 64;

uint32_t hash_of(const OperationId& id, Rank source) {
    return static_cast<uint32_t>(mix64(id.group.value ^ mix64(id.sequence ^ uint64_t{source.value} << 40)));
}

}  // namespace

uint32_t ServiceEngine::State::find_row(const OperationId& operation, Rank source) const {
    uint32_t i = row_buckets[hash_of(operation, source) & (row_bucket_count - 1)];
    while (i != kNone && (rows[i].row.source != source || share_pool[rows[i].share].operation != operation))
        i = rows[i].chain;
    return i;
}

void ServiceEngine::State::hash_in(uint32_t i) {
    const OperationId& id = share_pool[rows[i].share].operation;
    uint32_t& bucket = row_buckets[hash_of(id, rows[i].row.source) & (row_bucket_count - 1)];
    rows[i].chain = bucket;
    bucket = i;
}

// Returns kNone if there is no room. The caller says whose it is and calls hash_in(). `readable`: a rank that
// it is for has entered.
uint32_t ServiceEngine::State::make_row(const OperationId& operation, ServiceAddress origin, bool readable) {
    if (rows.room() == 0 && (!readable || !evict())) return kNone;
    Peer& p = peer(origin);
    uint32_t b = p.batches;
    while (b != kNone && batches[b].operation != operation) b = batches[b].chain;
    if (b == kNone) {
        b = batches.take();  // there are as many as rows
        batches[b].operation = operation;
        batches[b].origin = origin;
        batches[b].chain = p.batches;
        p.batches = b;
    }
    ++batches[b].rows;
    const uint32_t i = rows.take();
    RowEntry& r = rows[i];
    r.used = true;
    r.batch = b;
    r.share = share_for(operation);
    r.serial = ++row_serial;
    ++share_pool[r.share].row_count;
    return i;
}

// Whether no rank that is here can read anything of the row.
bool ServiceEngine::State::passed(const RowEntry& r) const {
    const Share& s = share_pool[r.share];
    if (r.queued != 0) return false;
    if (s.own_count == 0 || !r.whole) return true;
    if (r.shared) return false;
    uint32_t i = s.watch;
    for (uint32_t n = s.watch_count; n != 0; --n, i = watches[i].share_next)
        if (!watches[i].helps && watches[i].row_next != kNone && rows[watches[i].row_next].serial <= r.serial)
            return false;
    return true;
}

bool ServiceEngine::State::evict() {
    for (uint32_t looks = std::min(kEvictLooks, rows.made); looks != 0; --looks) {
        const uint32_t i = evict_clock++ % rows.made;
        if (!rows[i].used || rows[i].over || !passed(rows[i])) continue;
        owe(batches[rows[i].batch].origin);
        drop_row(i);
        return true;
    }
    return false;
}

// Takes a row out of its share: its cursors go on to the next.
void ServiceEngine::State::unlink_row(uint32_t i) {
    RowEntry& r = rows[i];
    Share& s = share_pool[r.share];
    uint32_t* link = &row_buckets[hash_of(s.operation, r.row.source) & (row_bucket_count - 1)];
    while (*link != i) link = &rows[*link].chain;
    *link = r.chain;
    drop_small(s.operation, r.row.source);
    while (r.spans != kNone) {
        const uint32_t chunk = r.spans;
        r.spans = spans[chunk].next;
        spans.give(chunk);
    }
    stop_waiting(r);
    --s.row_count;
    if (!r.whole) return;
    if (s.to_place == i) s.to_place = r.after;
    uint32_t w = s.watch;
    for (uint32_t n = s.unpulled != 0 ? s.watch_count : 0; n != 0; --n, w = watches[w].share_next) {
        if (watches[w].row_next != i) continue;
        watches[w].row_next = next_plain(r.after);
        s.unpulled -= watches[w].row_next == kNone;
    }
    (r.before != kNone ? rows[r.before].after : s.rows_head) = r.after;
    (r.after != kNone ? rows[r.after].before : s.rows_tail) = r.before;
}

// Forgets a row.
void ServiceEngine::State::drop_row(uint32_t i) {
    const uint32_t share = rows[i].share, b = rows[i].batch;
    unlink_row(i);
    rows[i].used = false;
    rows.give(i);
    Batch& batch = batches[b];
    if (--batch.rows == 0 && batch.over.count == 0) {
        uint32_t* link = &peer(batch.origin).batches;
        while (*link != b) link = &batches[*link].chain;
        *link = batch.chain;
        batches.give(b);
    }
    drop_share_if_over(share);
}

// Rows of which the last parts will not come: their teller is no more.
void ServiceEngine::State::drop_parts(ServiceAddress of) {
    for (uint32_t i = 0; i < rows.made; ++i)
        if (rows[i].used && !rows[i].over && !rows[i].whole && batches[rows[i].batch].origin == of)
            drop_row(i);
}

// The spans of a part go behind those of the parts before. False: no room, or they are not well formed.
bool ServiceEngine::State::add_spans(RowEntry& r, const Row& part) {
    SpanReader reader(part);
    uint32_t last = r.spans, at = part.span_first;
    while (last != kNone && spans[last].next != kNone) last = spans[last].next;
    BlockSpan span;
    for (uint32_t n = 0; n < part.spans_here; ++n, ++at) {
        if (!reader.next(&span)) return false;
        if (at % kSpansPerChunk == 0) {
            const uint32_t chunk = spans.take();
            if (chunk == kNone) return false;
            (last == kNone ? r.spans : spans[last].next) = chunk;
            last = chunk;
        }
        spans[last].spans[at % kSpansPerChunk] = span;
    }
    r.row.spans_here = static_cast<uint16_t>(at);
    return true;
}

// The block of a row that is for one rank: `own_index` among those of this service process. 0 bytes: none.
BlockSpan ServiceEngine::State::block_in(const RowEntry& r, Rank rank, uint32_t own_index) const {
    switch (r.row.form) {
        case Row::Form::kUniform:
            return {r.row.offset + rank.value * r.row.stride, r.row.bytes};
        case Row::Form::kOne:
            if (r.row.destination == rank.value) return {r.row.offset, r.row.bytes};
            return {};
        case Row::Form::kSpans:
            break;
    }
    if (own_index >= r.row.spans_here) return {};
    uint32_t chunk = r.spans;
    for (uint32_t n = own_index / kSpansPerChunk; n != 0; --n) chunk = spans[chunk].next;
    return spans[chunk].spans[own_index % kSpansPerChunk];
}

// One more of its blocks has been settled.
void ServiceEngine::State::block_over(uint32_t i, bool failed) {
    rows[i].failed |= failed;
    LONGSHORE_CHECK(rows[i].left != 0);
    if (--rows[i].left == 0) row_over(i);
}

void ServiceEngine::State::row_over(uint32_t i) {
    RowEntry& r = rows[i];
    const uint32_t share = r.share;
    unlink_row(i);
    r.over = true;
    Batch& b = batches[r.batch];
    --b.rows;
    if (b.over.count == 0) {
        b.since_step = steps;
        push_back(batches.items, &acknowledgements_due, r.batch);
    }
    push_back(rows.items, &b.over, i);
    drop_share_if_over(share);
}

// `until`: what else of their batch rows that are over wait for.
void ServiceEngine::State::send_acknowledgements(Awaited until) {
    for (uint32_t n = acknowledgements_due.count; n != 0; --n) {
        const uint32_t i = pop_front(batches.items, &acknowledgements_due);
        Batch& b = batches[i];
        const uint32_t others = until == Awaited::kQueued     ? b.queued
                                : until == Awaited::kInFlight ? b.in_flight
                                                              : 0;
        const bool waits = b.rows != 0 && others != 0 && steps - b.since_step < kAcknowledgeSteps;
        if (waits || !acknowledge(b)) {
            push_back(batches.items, &acknowledgements_due, i);
            continue;
        }
        if (b.rows != 0) continue;
        uint32_t* link = &peer(b.origin).batches;
        while (*link != i) link = &batches[*link].chain;
        *link = b.chain;
        batches.give(i);
    }
}

// False: no room in the frame; what is left goes with the next.
bool ServiceEngine::State::acknowledge(Batch& b) {
    while (b.over.count != 0) {
        Message m;
        m.kind = MessageKind::kAcknowledge;
        Acknowledgement& a = m.acknowledgement;
        const RowEntry& first = rows[b.over.head];
        a.operation = b.operation;
        a.failed = first.failed;
        a.first = first.row.local_index & ~63;
        const auto is_in = [&](const RowEntry& r) {
            return r.failed == a.failed && (r.row.local_index & ~63) == a.first;
        };
        for (uint32_t i = b.over.head; i != kNone; i = rows[i].next)
            if (is_in(rows[i])) a.sources |= uint64_t{1} << (rows[i].row.local_index - a.first);
        if (!add(b.origin, m)) return false;
        for (uint32_t n = b.over.count; n != 0; --n) {
            const uint32_t i = pop_front(rows.items, &b.over);
            if (is_in(rows[i])) {
                rows[i].used = false;
                rows.give(i);
            } else {
                push_back(rows.items, &b.over, i);
            }
        }
    }
    ask_again |= rows.room() >= rows.max / 4 || queue.in_use() == 0;
    return true;
}

// Of a row that is not kept. Without room in the frame it is asked for again, with all the others.
void ServiceEngine::State::answer(const OperationId& operation, ServiceAddress origin, uint16_t local_index,
                                  bool failed) {
    Message m;
    m.kind = MessageKind::kAcknowledge;
    m.acknowledgement.operation = operation;
    m.acknowledgement.failed = failed;
    m.acknowledgement.first = local_index & ~63;
    m.acknowledgement.sources = uint64_t{1} << (local_index & 63);
    if (add(origin, m)) return;
    owe(origin);
    ask_again = true;
}

// What a service process has told was dropped: it is to tell it again, when there may be room.
void ServiceEngine::State::owe(ServiceAddress origin) {
    ++counters->dropped;
    if (!peer(origin).again_due) ++again_count;
    peer(origin).again_due = true;
}

void ServiceEngine::State::ask_for_dropped() {
    if (!ask_again) return;
    ask_again = false;
    for (uint32_t p = 0; again_count != 0 && p < limits.nodes_max * limits.services_per_node_max; ++p) {
        if (!peers[p].again_due) continue;
        Message m;
        m.kind = MessageKind::kAgain;
        peers[p].again_due = !add(address(p), m);
        again_count -= !peers[p].again_due;
        ask_again |= peers[p].again_due;
    }
}

// --- small blocks, which come before their rows

void ServiceEngine::State::keep_small(ServiceAddress from, const SmallBlock& block) {
    uint32_t& bucket = small_buckets[hash_of(block.operation, block.source) & (small_bucket_count - 1)];
    for (uint32_t i = bucket; i != kNone; i = small[i].chain)
        if (small[i].operation == block.operation && small[i].source == block.source &&
            small[i].destination == block.destination)
            return;
    if (small.room() == 0) drop_stray_small();
    const uint32_t i = small.take();
    if (i == kNone) return;  // it is read like any other
    SmallBytes& s = small[i];
    s.operation = block.operation;
    s.source = block.source;
    s.destination = block.destination;
    s.origin = from;
    s.count = static_cast<uint32_t>(block.bytes.size());
    memcpy(s.bytes, block.bytes.data(), block.bytes.size());
    s.chain = bucket;
    bucket = i;
}

// Makes room, if there is a small block whose row is not here: it has been told again, and was acknowledged
// before its row was.
void ServiceEngine::State::drop_stray_small() {
    for (uint32_t looks = std::min(kEvictLooks, small_bucket_count); looks != 0; --looks) {
        const uint32_t i = small_buckets[small_clock++ & (small_bucket_count - 1)];
        if (i == kNone || find_row(small[i].operation, small[i].source) != kNone) continue;
        drop_small(small[i].operation, small[i].source);
        return;
    }
}

// Takes it out of the table. Who takes it gives it back. kNone: it is not there.
uint32_t ServiceEngine::State::take_small(const OperationId& operation, Rank source, uint32_t destination) {
    uint32_t* link = &small_buckets[hash_of(operation, source) & (small_bucket_count - 1)];
    while (*link != kNone && (small[*link].operation != operation || small[*link].source != source ||
                              small[*link].destination != destination))
        link = &small[*link].chain;
    const uint32_t i = *link;
    if (i != kNone) *link = small[i].chain;
    return i;
}

void ServiceEngine::State::drop_small(const OperationId& operation, Rank source) {
    uint32_t* link = &small_buckets[hash_of(operation, source) & (small_bucket_count - 1)];
    while (*link != kNone) {
        const uint32_t i = *link;
        if (small[i].operation != operation || small[i].source != source) {
            link = &small[i].chain;
            continue;
        }
        *link = small[i].chain;
        small.give(i);
    }
}

// Those whose rows may not come: who has sent them is no more.
void ServiceEngine::State::drop_small_of(ServiceAddress origin) {
    for (uint32_t bucket = 0; bucket < small_bucket_count && small.in_use() != 0; ++bucket)
        for (uint32_t* link = &small_buckets[bucket]; *link != kNone;) {
            const uint32_t i = *link;
            if (small[i].origin != origin) {
                link = &small[i].chain;
                continue;
            }
            *link = small[i].chain;
            small.give(i);
        }
}

}  // namespace longshore
