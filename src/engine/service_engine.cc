#include "engine/service_engine.h"

#include <new>

#include "engine/service/parts.h"

namespace longshore {

size_t ServiceEngine::bytes_needed(const NodeLimits& node, const ServiceLimits& limits) {
    ServiceContext context;
    context.node = node;
    context.limits = limits;
    Parts parts(context);
    Carver count(nullptr);
    count.take<Parts>(1);
    parts.carve(count);
    return count.used();
}

ServiceEngine::ServiceEngine(void* block, const NodeMemory& memory, ServiceId self, uint16_t incarnation,
                             const ServiceLimits& limits, WakeSet* wake) {
    LONGSHORE_CHECK(incarnation >= 1 && incarnation <= kIncarnationMax &&
                    limits.eager_bytes <= kEagerBytesMax && limits.frame_bytes >= kFrameBytesMin &&
                    limits.frame_bytes <= kFrameBytesMax &&
                    (!limits.staging_only || limits.staging_slots != 0) &&
                    (limits.staging_slots == 0 || limits.staging_slot_bytes != 0));
    ServiceContext context;
    context.memory = memory;
    context.node = memory.limits();
    context.limits = limits;
    context.self = self;
    context.incarnation = incarnation;
    context.worker = service_worker(self, incarnation);
    context.counters = &counters_;
    Carver carver(static_cast<std::byte*>(block));
    parts_ = new (carver.take<Parts>(1)) Parts(context);
    parts_->carve(carver);
    parts_->balance.set_load(ServiceLoad::kIdle);
    // What an earlier incarnation held is free again: the kernel has said that it is gone.
    for (uint16_t i = 1; i < incarnation; ++i) free_lost_claims(memory, service_worker(self, i), wake);
}

void ServiceEngine::set_peers(std::span<const uint16_t> services_of_node) {
    Parts& s = *parts_;
    s.peers.set_counts(services_of_node);
    // The first says nothing to nobody in particular: connections are made when they are needed.
    for (uint32_t p = 0; s.context.incarnation != 1 && p < s.peers.count(); ++p)
        if (s.peers.address(p).node.value < services_of_node.size() && s.peers.is_other(s.peers.address(p)))
            s.outbox.greet(s.peers.address(p));
}

void ServiceEngine::set_now(uint64_t ns) {
    parts_->context.now_ns = ns;
}

bool ServiceEngine::next(Action* out, WakeSet* wake) {
    return parts_->next(out, wake);
}

void ServiceEngine::on_frame(std::span<const std::byte> frame, WakeSet* wake) {
    Parts& s = *parts_;
    FrameReader reader;
    FrameHeader header;
    if (!reader.start(frame, &header) || !s.peers.is_other(header.sender)) {
        ++counters_.malformed_messages;
        return;
    }
    const Peers::Heard heard = s.peers.hear(header.sender, header.incarnation);
    if (heard == Peers::Heard::kStale) {
        ++counters_.stale_messages;
        return;
    }
    // We may have heard of an earlier one through others only.
    if (heard != Peers::Heard::kSame) s.offers.drop_before(header.sender, header.incarnation);
    if (heard == Peers::Heard::kRestarted) {
        s.rows.drop_parts(header.sender);
        s.small.drop_of(header.sender);
        s.resync(header.sender);
    }
    Message m;
    for (;;) {
        const FrameReader::Result result = reader.next(&m);
        counters_.malformed_messages += result == FrameReader::Result::kMalformed;
        if (result != FrameReader::Result::kMessage) return;
        s.on_message(m, header, wake);
    }
}

void ServiceEngine::finish_copy(const Copy& copy, MoveResult result, WakeSet* wake) {
    LONGSHORE_CHECK(parts_->copies_out != 0);
    --parts_->copies_out;
    parts_->copies.finish(copy, result, wake);
}

void ServiceEngine::finish_read(uint32_t id, MoveResult result, WakeSet* wake) {
    if ((id & kMoveId) != 0) {
        parts_->finish_move(id & ~kMoveId, result, wake);
        return;
    }
    const TakenChunk taken = parts_->reads.end(id);
    if (result == MoveResult::kMoved) counters_.bytes_between_nodes += taken.bytes;
    parts_->queue.settle(taken, result, wake);
    parts_->queue.chunk_over(taken.queued, wake);
}

void ServiceEngine::set_read_window(uint64_t bytes) {
    parts_->reads.set_window(bytes);
}

void ServiceEngine::on_tick(WakeSet* wake) {
    Parts& s = *parts_;
    const bool has_nets = s.context.limits.repeat_ticks != 0;
    if (has_nets) s.teller.tick();
    s.queue.retry_stalled();
    s.intake.tick();
    s.offers.tick();
    s.send_acknowledgements(Acknowledger::Until::kNothing);
    if (!has_nets) return;
    s.arrivals.sweep();
    s.shared.look_at_waiting(wake);
    s.acknowledger.ask_soon();
}

void ServiceEngine::on_peer_lost(ServiceAddress lost, WakeSet* wake) {
    Parts& s = *parts_;
    if (!s.peers.known(lost) || lost == s.context.here()) return;
    s.peers.lose(lost);
    s.outbox.drop(lost);
    s.rows.drop_parts(lost);
    s.small.drop_of(lost);
    s.acknowledger.forgive(lost);
    s.intake.leave_parents(lost.node);
    for (uint32_t i = 0; i < s.watches.end(); ++i)
        if (s.watches[i].used && s.watches[i].is_told() && s.watches.still(s.watches[i]))
            s.lose(i, lost, wake);
}

void ServiceEngine::yield_to_waiting_ranks(bool on) {
    parts_->copies.yield_to_waiting_ranks(on);
}

bool ServiceEngine::yielded() const {
    return parts_->copies.yielded();
}

bool ServiceEngine::somebody_waits() const {
    const NodeMemory& memory = parts_->context.memory;
    for (uint16_t r = 0; r < memory.rank_count(); ++r) {
        if (memory.rank(LocalRank{r}).waiting.load(std::memory_order_relaxed) != 0) return true;
    }
    return false;
}

bool ServiceEngine::idle() const {
    return parts_->idle();
}

}  // namespace longshore
