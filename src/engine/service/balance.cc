#include "engine/service/balance.h"

#include <algorithm>

namespace longshore {

ServiceLoad Balance::load_of(ServiceId s) const {
    return static_cast<ServiceLoad>(context_.memory.service(s).load.load(std::memory_order_relaxed));
}

void Balance::set_load(ServiceLoad load) {
    Atomic<uint32_t>& word = context_.memory.service(context_.self).load;
    const auto value = static_cast<uint32_t>(load);
    if (word.load(std::memory_order_relaxed) != value) word.store(value, std::memory_order_relaxed);
}

void Balance::pause() {
    run_bytes_ = ring_at_ = 0;
    ask_at_ = context_.limits.help_bytes;
    set_load(ServiceLoad::kIdle);
}

void Balance::ask_for_help(WakeSet* wake) {
    if (run_bytes_ < ask_at_ || context_.limits.help_bytes == 0) {
        if (load_of(context_.self) == ServiceLoad::kIdle) set_load(ServiceLoad::kBusy);
        return;
    }
    ask_at_ = run_bytes_ + context_.limits.help_bytes;
    set_load(ServiceLoad::kLoaded);
    // Whoever found nothing is not rung again at once.
    const bool may_wake = run_bytes_ >= ring_at_;
    for (uint16_t s = 0; s < context_.memory.service_count(); ++s) {
        const ServiceId other{s};
        if (other == context_.self || load_of(other) != ServiceLoad::kIdle) continue;
        lend(other);
        if (!may_wake) continue;
        context_.memory.ring_service(other, wake);
        ring_at_ = 2 * run_bytes_;
    }
}

// Blocks that would not be read soon.
void Balance::lend(ServiceId to) {
    constexpr uint32_t kBlocksMax = 4;
    uint32_t left = std::min(kBlocksMax, context_.limits.reads_max);
    for (uint32_t c = 0; c < Turns::kClasses; ++c)
        for (uint32_t i = turns_.first_of(c); i != kNone && left != 0; i = turns_.after(i))
            left -= queue_.lend(i, to, left, outbox_);
}

void Balance::on_lent(const RemoteBlock& block, WakeSet* wake) {
    const NodeMemory& memory = context_.memory;
    GroupSlot slot;
    const GroupEntry* group = groups_.find(block.operation.group, &slot);
    if (group == nullptr || !peers_.known(block.origin) || block.origin.node == memory.node() ||
        peers_.is_lost(block.origin) || block.source.value >= group->size ||
        memory.members(*group)[block.source.value].node != block.origin.node)
        return;
    const uint64_t sequence = block.operation.sequence;
    uint32_t destination = block.destination;
    if ((destination & kToNode) != 0) {
        if (group->local_count == group->size) return;
        const uint64_t reader = memory.reader_of(*group, sequence, block.source);
        const uint64_t index = (reader & kDone) - 1;
        if (reader >> 20 != sequence || index >= group->local_count) return;
        destination = memory.locals(*group)[index];
    }
    if (destination >= group->size) return;
    const Member& member = memory.members(*group)[destination];
    RecordId record;
    if (member.node != memory.node() || member.service == context_.self ||
        entered(memory, *group, member.local_index, sequence, &record) != Entered::kPublished)
        return;
    const uint32_t w = watches_.watch(member.local, record, wake);
    if (w == kNone || watches_[w].seen.group != slot || watches_[w].seen.sequence != sequence) return;
    queue_.add(w, block, kNone, wake);
    // Until it is read nobody needs to lend us more.
    if (!queue_.idle() && load_of(context_.self) == ServiceLoad::kIdle) set_load(ServiceLoad::kBusy);
}

bool Balance::may_help(uint32_t events) const {
    if (context_.limits.help_bytes == 0 || load_of(context_.self) != ServiceLoad::kIdle) return false;
    // Nothing was found, and nobody has rung since.
    if (help_over_ && events == help_events_) return false;
    ServiceId any;
    return next_loaded(&any);
}

// `s`: the one to begin with.
bool Balance::next_loaded(ServiceId* s) const {
    for (; s->value < context_.memory.service_count(); ++s->value)
        if (*s != context_.self && load_of(*s) == ServiceLoad::kLoaded) return true;
    return false;
}

void Balance::helped(bool found, uint32_t events) {
    help_over_ = !found;
    help_events_ = events;
    context_.counters->taken += found;
}

}  // namespace longshore
