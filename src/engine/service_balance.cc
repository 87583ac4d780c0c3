// ServiceEngine: balance between the service processes of a node. One that has had much to do for a while
// says so; an idle one then moves chunks between its ranks, and is lent blocks of other nodes that it would
// have to read. Nothing is handed over for good: claims decide who moves what, once, and the service process
// whose ranks they are stays the one to answer for them, whoever dies.
#include "engine/service_state.h"

namespace longshore {

ServiceLoad ServiceEngine::State::load_of(ServiceId s) const {
    return static_cast<ServiceLoad>(memory.service(s).load.load(std::memory_order_relaxed));
}

void ServiceEngine::State::set_load(ServiceLoad load) {
    Atomic<uint32_t>& word = memory.service(self).load;
    const auto value = static_cast<uint32_t>(load);
    if (word.load(std::memory_order_relaxed) != value) word.store(value, std::memory_order_relaxed);
}

// There is nothing to do now. With reads in flight that is no pause: there may only be no room for more.
void ServiceEngine::State::note_pause() {
    if (queue.in_use() != 0 || moves.in_use() != 0) return;
    run_bytes = ring_at = 0;
    offer_at = limits.help_bytes;
    set_load(ServiceLoad::kIdle);
}

// After a move of our own: have we had too much to do for long?
void ServiceEngine::State::offer(WakeSet* wake) {
    if (run_bytes < offer_at || limits.help_bytes == 0) {
        if (load_of(self) == ServiceLoad::kIdle) set_load(ServiceLoad::kBusy);
        return;
    }
    offer_at = run_bytes + limits.help_bytes;
    set_load(ServiceLoad::kLoaded);
    // Whoever found nothing is not rung again at once.
    const bool may_wake = run_bytes >= ring_at;
    for (uint16_t s = 0; s < memory.service_count(); ++s) {
        const ServiceId other{s};
        if (other == self || load_of(other) != ServiceLoad::kIdle) continue;
        lend(other);
        if (!may_wake) continue;
        memory.ring_service(other, wake);
        ring_at = 2 * run_bytes;
    }
}

// Blocks that would not be read soon. What is too much for the other one comes to it last here, too.
void ServiceEngine::State::lend(ServiceId to) {
    constexpr uint32_t kBlocksMax = 4;
    uint32_t left = std::min(kBlocksMax, limits.reads_max);
    for (const ShareClass& c : classes)
        for (uint32_t i = c.shares; i != kNone && left != 0; i = share_pool[i].next)
            left -= lend_of(share_pool[i], to, left);
}

uint32_t ServiceEngine::State::lend_of(Share& s, ServiceId to, uint32_t blocks_max) {
    // Behind those that may not be lent there are others.
    constexpr uint32_t kLookedMax = 64;
    uint32_t count = 0;
    // The first is being read. What has been lent goes to the end: we come to it last.
    for (uint32_t before = s.ready.head, looked = 0; count < blocks_max && looked < kLookedMax; ++looked) {
        if (before == kNone || queue[before].next == kNone) break;
        const uint32_t i = queue[before].next;
        QueuedRead& q = queue[i];
        // What a relay awaits comes from elsewhere, and what it reads is for others, too; what was sent along
        // is on its way to here.
        if (q.lent || q.cancelled || q.row == kNone || q.small != kNone || q.relay != kNone || q.n.along) {
            before = i;
            continue;
        }
        Message m;
        m.kind = MessageKind::kLend;
        m.lent = q.n;
        if (!add({memory.node(), to}, m)) break;
        q.lent = true;
        ++count;
        if (i == s.ready.tail) break;
        queue[before].next = q.next;
        --s.ready.count;
        push_back(queue.items, &s.ready, i);
    }
    return count;
}

// A block for a rank of another service process of the node, which has much to do. Where anything is not as
// it should be it is left to that one.
void ServiceEngine::State::on_lent(const RemoteBlock& n, WakeSet* wake) {
    GroupSlot slot;
    const GroupEntry* group = find_group(n.operation.group, &slot);
    if (group == nullptr || !known(n.origin) || n.origin.node == memory.node() || peer(n.origin).lost ||
        n.source.value >= group->size || memory.members(*group)[n.source.value].node != n.origin.node)
        return;
    uint32_t destination = n.destination;
    if ((destination & kToNode) != 0) {
        if (group->local_count == group->size) return;
        const uint64_t reader = memory.reader_of(*group, n.operation.sequence, n.source);
        const uint64_t index = (reader & kDone) - 1;
        if (reader >> 20 != n.operation.sequence || index >= group->local_count) return;
        destination = memory.locals(*group)[index];
    }
    if (destination >= group->size) return;
    const Member& member = memory.members(*group)[destination];
    RecordId record;
    if (member.node != memory.node() || member.service == self ||
        entered(memory, *group, member.local_index, n.operation.sequence, &record) != Entered::kPublished)
        return;
    const uint32_t w = watch_record(member.local, record, wake);
    if (w == kNone || watches[w].seen.group != slot || watches[w].seen.sequence != n.operation.sequence)
        return;
    queue_block(w, n, kNone, wake);
    // Until it is read nobody needs to lend us more.
    if (queue.in_use() != 0 && load_of(self) == ServiceLoad::kIdle) set_load(ServiceLoad::kBusy);
}

// With nothing to do for our own ranks: a chunk between ranks of a service process that is loaded.
bool ServiceEngine::State::help(Action* out, uint32_t events, WakeSet* wake) {
    if (limits.help_bytes == 0 || load_of(self) != ServiceLoad::kIdle) return false;
    // Nothing was found, and nobody has rung since.
    if (help_over && events == help_events) return false;
    bool loaded = false;
    for (uint16_t s = 0; s < memory.service_count(); ++s)
        loaded |= s != self.value && load_of(ServiceId{s}) == ServiceLoad::kLoaded;
    if (!loaded) return false;
    helping = true;
    bool found = next_turn(out, events, wake);
    for (uint16_t s = 0; s < memory.service_count() && !found; ++s) {
        if (s == self.value || load_of(ServiceId{s}) != ServiceLoad::kLoaded) continue;
        scan(ServiceId{s}, wake);
        found = next_turn(out, events, wake);
    }
    helping = false;
    help_over = !found;
    help_events = events;
    counters->taken += found;
    return found;
}

}  // namespace longshore
