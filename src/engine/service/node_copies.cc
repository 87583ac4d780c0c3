#include "engine/service/node_copies.h"

namespace longshore {
namespace {

constexpr uint32_t kLandedMax = 1024;

}  // namespace

void NodeCopies::carve(Carver& c) {
    laps_ = c.take<Lap>(context_.limits.watches_max);
    landed_ = c.take<List>(operations_.max());
    c.pool(&pool_, kLandedMax);
}

void NodeCopies::watch_began(uint32_t i, WakeSet*) {
    laps_[i] = {};
}

void NodeCopies::operation_emptied(uint32_t operation) {
    List& landed = landed_[operation];
    while (landed.count != 0) pool_.give(pop_front(pool_.items, &landed));
}

bool NodeCopies::next(uint32_t operation, uint32_t events, bool helping, bool may_copy, Action* out) {
    if (may_copy && next_landed(operation, out)) return true;
    for (uint32_t left = operations_[operation].watch_count; left != 0; --left) {
        const uint32_t i = operations_.rotate(operation);
        const Watch& w = watches_[i];
        if (!watches_.still(w)) {
            watches_.drop(i);
            continue;
        }
        Lap& lap = laps_[i];
        if (w.helps != helping || (lap.over && lap.events == events)) continue;
        if (yields_ && !w.several_nodes &&
            context_.memory.rank(w.local).waiting.load(std::memory_order_relaxed) != 0) {
            yielded_ |= !helping;
            continue;
        }
        if (!may_copy) continue;
        if (lap.over || lap.incoming.idle_steps == 0) lap.events = events;
        if (lap.over) lap.incoming.idle_steps = 0;
        lap.over = false;
        *out = Action{};
        out->kind = Action::Kind::kCopy;
        if (claim(i, &out->copy)) return true;
        lap.over = true;
    }
    return false;
}

bool NodeCopies::claim(uint32_t i, Copy* out) {
    const Watch& w = watches_[i];
    Lap& lap = laps_[i];
    if (mover_.claim_landing(w.local, w.record, &lap.landing_chunk, out)) return true;
    lap.landing_chunk = 0;  // what was in others' hands may be free in the next lap
    return load_relaxed(&context_.memory.record(w.local, w.record).copies_itself) == 0 &&
           mover_.claim_incoming(w.local, w.record, &lap.incoming, UINT32_MAX, out);
}

void NodeCopies::give_to_node(uint32_t i, Rank source, WakeSet* wake) {
    const Watch& w = watches_[i];
    const uint32_t l = pool_.take();
    if (l == kNone) {
        context_.memory.ring_all_services(wake);  // then everybody looks for himself
        return;
    }
    Landed& item = pool_[l];
    item.group = w.seen.group;
    item.id = operations_[w.operation].id.group;
    item.sequence = w.seen.sequence;
    item.source = source;
    push_back(pool_.items, &landed_[w.operation], l);
}

bool NodeCopies::next_landed(uint32_t operation, Action* out) {
    List& landed = landed_[operation];
    while (landed.count != 0) {
        Landed& item = pool_[landed.head];
        const GroupEntry& group = context_.memory.group(item.group);
        *out = Action{};
        out->kind = Action::Kind::kCopy;
        const bool there = group.id.load(std::memory_order_acquire) == item.id.value;
        for (; there && item.local_next < group.local_count; ++item.local_next, item.chunk = 0)
            if (mover_.claim_shared(item.group, item.sequence, item.source, item.local_next, &item.chunk,
                                    &out->copy))
                return true;
        pool_.give(pop_front(pool_.items, &landed));
    }
    return false;
}

void NodeCopies::finish(const Copy& copy, MoveResult result, WakeSet* wake) {
    if (!copy.is_self) ++context_.counters->copies;
    watches_.note_settled();
    mover_.finish(copy, result, wake);
}

}  // namespace longshore
