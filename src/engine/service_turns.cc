// ServiceEngine: whose turn it is. What there is to move (chunks between ranks of the node, blocks of other
// nodes) is served by operation. Operations of about one size are a class. The class that has had least of
// this service process comes next, by start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996), so that
// a huge operation gets no more than a small one that has just begun. In a class the operation that began
// first is served until it is over: were they served side by side, all would be over at the end only, and a
// program that computes with each result would have nothing to do until then.
#include "engine/service_state.h"

namespace longshore {
namespace {

// However few bytes a move has, it costs about as much as so many.
constexpr uint64_t kMoveCostBytes = 4096;
// Classes: up to so many bytes, up to kClassFactor times as many, and so on.
constexpr uint64_t kClassFirst = 256 * 1024, kClassFactor = 4;

uint32_t class_of(uint64_t bytes) {
    uint32_t i = 0;
    for (uint64_t end = kClassFirst; bytes > end && i < kShareClasses - 1; end *= kClassFactor) ++i;
    return i;
}

uint32_t share_bucket(const OperationId& id, uint32_t count) {
    return static_cast<uint32_t>(mix64(id.group.value ^ mix64(id.sequence))) & (count - 1);
}

}  // namespace

// Into the list of its class: the last, but before the later ones of its own group.
void ServiceEngine::State::sort_in(uint32_t i) {
    Share& s = share_pool[i];
    s.sorted = true;
    s.its_class = class_of(s.bytes);
    uint32_t* link = &classes[s.its_class].shares;
    for (; *link != kNone; link = &share_pool[*link].next) {
        const OperationId& other = share_pool[*link].operation;
        if (other.group == s.operation.group && other.sequence > s.operation.sequence) break;
    }
    s.next = *link;
    *link = i;
}

void ServiceEngine::State::unsort(uint32_t i) {
    Share& s = share_pool[i];
    uint32_t* link = &classes[s.its_class].shares;
    while (*link != i) link = &share_pool[*link].next;
    *link = s.next;
    s.sorted = false;
}

uint32_t ServiceEngine::State::find_share(const OperationId& id) const {
    uint32_t i = share_buckets[share_bucket(id, share_bucket_count)];
    while (i != kNone && share_pool[i].operation != id) i = share_pool[i].chain;
    return i;
}

uint32_t ServiceEngine::State::share_for(const OperationId& id) {
    uint32_t i = find_share(id);
    if (i != kNone) return i;
    i = share_pool.take();  // there are as many as watches and rows together
    Share& s = share_pool[i];
    uint32_t& bucket = share_buckets[share_bucket(id, share_bucket_count)];
    s.operation = id;
    s.chain = bucket;
    bucket = i;
    return i;
}

void ServiceEngine::State::join_share(uint32_t i) {
    Watch& w = watches[i];
    const uint32_t k =
        share_for({GroupId{memory.group(w.seen.group).id.load(std::memory_order_acquire)}, w.seen.sequence});
    Share& s = share_pool[k];
    s.bytes += Geometry(memory, memory.record(w.local, w.record), w.local).incoming_bytes(w.seen.size);
    if (s.sorted && class_of(s.bytes) != s.its_class) unsort(k);
    if (!s.sorted) sort_in(k);
    w.share = k;
    s.own_count += !w.helps;
    if (s.watch_count++ == 0) {
        s.watch = s.pull_watch = w.share_next = w.share_previous = i;
        return;
    }
    // Last in the ring.
    w.share_next = s.watch;
    w.share_previous = watches[s.watch].share_previous;
    watches[w.share_previous].share_next = watches[s.watch].share_previous = i;
}

void ServiceEngine::State::leave_share(uint32_t i) {
    const Watch& w = watches[i];
    Share& s = share_pool[w.share];
    if (s.watch == i) s.watch = w.share_next;
    if (s.pull_watch == i) s.pull_watch = w.share_next;
    watches[w.share_previous].share_next = w.share_next;
    watches[w.share_next].share_previous = w.share_previous;
    s.own_count -= !w.helps;
    if (--s.watch_count == 0) s.watch = s.pull_watch = kNone;
    if (s.own_count == 0 && s.to_place != kNone) wait_for_ranks(s);
    drop_share_if_over(w.share);
}

// Without watches it has no turns: its blocks to be read are cancelled, and what one of its ranks had for
// others they have got, or its record would be there. Without rows either it is forgotten.
void ServiceEngine::State::drop_share_if_over(uint32_t i) {
    Share& s = share_pool[i];
    if (s.watch_count != 0 || serving == i) return;
    while (s.ready.count != 0) push_back(queue.items, &cancelled, pop_front(queue.items, &s.ready));
    while (s.landed.count != 0) landed_pool.give(pop_front(landed_pool.items, &s.landed));
    if (s.sorted) unsort(i);
    s.bytes = 0;
    if (s.row_count != 0 || s.waits) return;
    uint32_t* link = &share_buckets[share_bucket(s.operation, share_bucket_count)];
    while (*link != i) link = &share_pool[*link].chain;
    *link = s.chain;
    share_pool.give(i);
}

// The next move of the class that has had least and has something to move.
bool ServiceEngine::State::next_turn(Action* out, uint32_t events, WakeSet* wake) {
    if (!helping) yielded = false;
    for (uint32_t tried = 0;;) {
        uint32_t least = kShareClasses;
        for (uint32_t c = 0; c < kShareClasses; ++c) {
            if (classes[c].shares == kNone || (tried >> c & 1) != 0) continue;
            if (least == kShareClasses || classes[c].served < classes[least].served) least = c;
        }
        if (least == kShareClasses) return false;
        tried |= 1u << least;
        for (uint32_t i = classes[least].shares; i != kNone;) {
            serving = i;
            const bool served = serve(share_pool[i], out, events, wake);
            serving = kNone;
            const uint32_t next = share_pool[i].next;
            drop_share_if_over(i);
            if (served) return true;
            i = next;
        }
    }
}

bool ServiceEngine::State::serve(Share& s, Action* out, uint32_t events, WakeSet* wake) {
    if (s.due_count != 0) tell(s);
    if (next_read(s, out, wake)) return true;
    if (!next_copy(s, out, events)) return false;
    charge(s, out->copy.bytes);
    return staged(out);
}

// A class that had nothing to do for a while has not saved it up.
void ServiceEngine::State::charge(const Share& s, uint64_t bytes) {
    ShareClass& c = classes[s.its_class];
    if (c.served > level) level = c.served;
    c.served = level + bytes + kMoveCostBytes;
    if (!helping) run_bytes += bytes + kMoveCostBytes;
}

bool ServiceEngine::State::next_copy(Share& s, Action* out, uint32_t events) {
    // Where every copy needs a slot, none is claimed before there is one.
    const bool may_copy = !limits.staging_only || moves.room() != 0;
    if (may_copy && next_landed(s, out)) return true;
    for (uint32_t left = s.watch_count; left != 0; --left) {
        const uint32_t i = s.watch;
        Watch& w = watches[i];
        s.watch = w.share_next;
        if (!still(w)) {
            drop_watch(i);
            continue;
        }
        if (w.helps != helping || (w.lap_over && w.lap_events == events)) continue;
        if (yields && !w.several_nodes && memory.rank(w.local).waiting.load(std::memory_order_relaxed) != 0) {
            yielded |= !helping;
            continue;
        }
        if (!may_copy) continue;
        if (w.lap_over || w.incoming.idle_steps == 0) w.lap_events = events;
        if (w.lap_over) w.incoming.idle_steps = 0;
        w.lap_over = false;
        *out = Action{};
        out->kind = Action::Kind::kCopy;
        if (claim(w, &out->copy)) return true;
        w.lap_over = true;
    }
    return false;
}

bool ServiceEngine::State::claim(Watch& w, Copy* out) {
    if (mover.claim_landing(w.local, w.record, &w.landing_chunk, out)) return true;
    w.landing_chunk = 0;  // what was in others' hands may be free in the next lap
    return load_relaxed(&memory.record(w.local, w.record).copies_itself) == 0 &&
           mover.claim_incoming(w.local, w.record, &w.incoming, UINT32_MAX, out);
}

// A queued block may be read when its operation's turn comes; one whose operation is over is only
// acknowledged.
void ServiceEngine::State::make_ready(uint32_t q) {
    queue[q].place = QueuedRead::Place::kReady;
    push_back(queue.items, queue[q].cancelled ? &cancelled : &share_pool[watches[queue[q].watch].share].ready,
              q);
}

void ServiceEngine::State::retire_cancelled(WakeSet* wake) {
    while (cancelled.count != 0) {
        const uint32_t q = pop_front(queue.items, &cancelled);
        queue[q].place = QueuedRead::Place::kIssued;
        finish_queued(q, wake);
    }
}

}  // namespace longshore
