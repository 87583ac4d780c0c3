#include "engine/service/parts.h"

#include <algorithm>
#include <initializer_list>

namespace longshore {

ServiceEngine::Parts::Parts(const ServiceContext& given) : context(given) {
    for (Follower* f : std::initializer_list<Follower*>{&teller, &acknowledger, &rows, &copies, &queue,
                                                        &shared, &arrivals}) {
        operations.follow(f);
        watches.follow(f);
    }
    watches.follow(this);
    queue.follow(&offers);
    queue.follow(&intake);
}

void ServiceEngine::Parts::carve(Carver& c) {
    groups.carve(c);
    peers.carve(c);
    outbox.carve(c);
    operations.carve(c);
    watches.carve(c);
    teller.carve(c);
    small.carve(c);
    acknowledger.carve(c);
    rows.carve(c);
    copies.carve(c);
    queue.carve(c);
    shared.carve(c);
    arrivals.carve(c);
    reads.carve(c);
    staging.carve(c);
    intake.carve(c);
    offers.carve(c);
}

bool ServiceEngine::Parts::next(Action* out, WakeSet* wake) {
    ++context.steps;
    offers.send_passes();
    intake.send_wants();
    // What others wait for goes out although there may be much to copy here.
    if (outbox.is_due()) {
        send_acknowledgements(Acknowledger::Until::kQueued);
        acknowledger.ask_for_dropped();
        if (outbox.next(out)) return true;
    }
    queue.retire_cancelled(wake);
    if (staging.next(out)) return true;
    TakenChunk taken;
    if (intake.next(&taken)) {
        charge(watches[queue[taken.queued].watch].operation, taken.bytes);
        return staging.next(out);
    }

    const uint32_t events = context.memory.service(context.self).events.load(std::memory_order_seq_cst);
    if (events != scan_events || watches.scan_needed()) {
        scan_events = events;
        look_again(wake);
    } else if (shared.is_blocked()) {
        shared.look_at_waiting(wake);
        if (shared.took_some()) offers.answer_waiting();
    }
    if (next_turn(out, events, wake)) {
        balance.ask_for_help(wake);
        return true;
    }
    queue.retire_cancelled(wake);
    // What is told and acknowledged goes out in batches; now that there is nothing better to do, as it is.
    send_acknowledgements(Acknowledger::Until::kInFlight);
    acknowledger.ask_for_dropped();
    offers.send_passes();
    intake.send_wants();
    if (outbox.next(out)) return true;
    // With reads in flight that is no pause: there may only be no room for more.
    if (queue.idle() && staging.in_use() == 0) balance.pause();
    if (help(out, events, wake)) return true;
    watches.tell_completions();
    return false;
}

// The doorbell has rung: ranks have entered, or settled something.
void ServiceEngine::Parts::look_again(WakeSet* wake) {
    watches.note_settled();
    watches.scan(context.self, wake);
    queue.retry_stalled();
    shared.look_at_waiting(wake);
    offers.answer_waiting();
    if (!peers.any_lost()) return;
    // Ranks may have entered and given up meanwhile, and no watch has ever known.
    arrivals.sweep();
    acknowledger.ask_soon();
}

void ServiceEngine::Parts::send_acknowledgements(Acknowledger::Until until) {
    if (acknowledger.send(until) && (rows.is_quarter_free() || queue.idle())) acknowledger.ask_soon();
}

// The next move of the class that has had least and has something to move.
bool ServiceEngine::Parts::next_turn(Action* out, uint32_t events, WakeSet* wake) {
    if (!helping) copies.begin_round();
    uint32_t tried = 0;
    for (uint32_t c = turns.next_class(&tried); c != kNone; c = turns.next_class(&tried)) {
        for (uint32_t i = turns.first_of(c); i != kNone;) {
            operations.begin_serving(i);
            const bool served = serve(i, out, events, wake);
            const uint32_t next = turns.after(i);
            operations.end_serving();
            if (shared.took_some()) offers.answer_waiting();
            if (served) return true;
            i = next;
        }
    }
    return false;
}

bool ServiceEngine::Parts::serve(uint32_t operation, Action* out, uint32_t events, WakeSet* wake) {
    teller.tell(operation);
    if (next_read(operation, out, wake)) return true;
    // Where every copy needs a slot, none is claimed before there is one. Else a fabric may take its time, as
    // by aliases of ranks' memory, and there are no more under way than reads; but as many as a driver makes
    // in a turn.
    constexpr uint32_t kCopiesOfATurn = 32;
    const uint32_t copies_max = std::max(context.limits.reads_max, kCopiesOfATurn);
    const bool may_copy = context.limits.staging_only ? staging.has_room() : copies_out < copies_max;
    if (!copies.next(operation, events, helping, may_copy, out)) return false;
    charge(operation, out->copy.bytes);
    if (!context.limits.staging_only || out->copy.doomed != 0 || out->copy.bytes == 0) {
        ++copies_out;
        return true;
    }
    staging.copy(out->copy);
    return staging.next(out);
}

bool ServiceEngine::Parts::next_read(uint32_t operation, Action* out, WakeSet* wake) {
    arrivals.pull(operation, wake);
    while (queue.ready_count(operation) != 0 && reads.has_room()) {
        TakenChunk taken;
        if (queue.next(operation, staging.has_room(), &taken, wake)) {
            charge(operation, taken.bytes);
            post_read(taken, out);
            return true;
        }
        if (queue.ready_count(operation) != 0) return false;  // there is no slot for the next one
        arrivals.pull(operation, wake);
    }
    return false;
}

void ServiceEngine::Parts::post_read(const TakenChunk& taken, Action* out) {
    const QueuedRead& q = queue[taken.queued];
    if (q.small == kNone && context.is_staged(watches[q.watch].seen.algorithm)) {
        staging.fetch(taken, nullptr);
        staging.next(out);
        return;
    }
    *out = Action{};
    out->id = reads.begin(taken);
    out->to = taken.to;
    out->bytes = taken.bytes;
    if (q.small != kNone) {
        out->kind = Action::Kind::kWrite;
        out->data =
            small.bytes(q.small).subspan(static_cast<size_t>(taken.offset), static_cast<size_t>(taken.bytes));
        return;
    }
    out->kind = Action::Kind::kRead;
    out->peer = q.block.origin;
    out->name = {q.block.owner, q.block.region, q.block.region_generation};
    out->offset = q.block.offset + taken.offset;
    out->along = q.block.along;
    out->part = {q.block.name(), taken.offset};
}

// With nothing to do for our own ranks: a chunk between ranks of a service process that is loaded.
bool ServiceEngine::Parts::help(Action* out, uint32_t events, WakeSet* wake) {
    if (!balance.may_help(events)) return false;
    helping = true;
    bool found = next_turn(out, events, wake);
    for (ServiceId s; !found && balance.next_loaded(&s); ++s.value) {
        watches.scan(s, wake);
        found = next_turn(out, events, wake);
    }
    helping = false;
    balance.helped(found, events);
    return found;
}

void ServiceEngine::Parts::charge(uint32_t operation, uint64_t bytes) {
    turns.charge(operation, bytes);
    if (!helping) balance.moved(bytes);
}

void ServiceEngine::Parts::on_message(const Message& m, const FrameHeader& header, WakeSet* wake) {
    switch (m.kind) {
        case MessageKind::kHello:
            resync(header.sender);
            break;
        case MessageKind::kAgain:
            teller.retell(header.sender);
            break;
        case MessageKind::kTell:
        case MessageKind::kHandOn:
            arrivals.on_told(m.told, header.sender, m.kind == MessageKind::kHandOn, wake);
            if (shared.took_some() || arrivals.dropped_some()) offers.answer_waiting();
            break;
        case MessageKind::kSmallBlock:
            arrivals.on_small(header.sender, m.small);
            break;
        case MessageKind::kLend:
            balance.on_lent(m.lent, wake);
            break;
        case MessageKind::kAcknowledge:
            teller.on_acknowledge(header.sender, m.acknowledgement, wake);
            break;
        case MessageKind::kWant:
            offers.on_want(m.relayed, 0);
            break;
        case MessageKind::kOffer:
            intake.on_offer(header.sender, header.incarnation, m.relayed);
            break;
        case MessageKind::kPass:
            intake.on_pass(m.relayed);
            break;
        case MessageKind::kTaken:
            offers.on_taken(header.sender, m.relayed);
            break;
    }
}

// One fabric operation of a staged move has ended.
void ServiceEngine::Parts::finish_move(uint32_t move, MoveResult result, WakeSet* wake) {
    if (!staging.is_fetching(move)) {
        staging.delivered(move, result, wake);
    } else if (result == MoveResult::kMoved) {
        intake.fetch_ended(move, true);
        staging.fetched(move, wake);
        offers.offer(move);
    } else if (!intake.fetch_ended(move, false)) {
        const uint32_t queued = staging.view(move).queued;
        if (queued != kNone) offers.dismiss_children(queued);
        staging.fail(move, result, wake);
    }
}

void ServiceEngine::Parts::resync(ServiceAddress with) {
    teller.retell(with);
    intake.leave_parents(with.node);
}

void ServiceEngine::Parts::watch_began(uint32_t watch, WakeSet* wake) {
    if (!peers.any_lost() || !watches[watch].is_told()) return;
    for (uint32_t p = 0; p < peers.count(); ++p)
        if (peers.is_lost(peers.address(p))) lose(watch, peers.address(p), wake);
}

void ServiceEngine::Parts::lose(uint32_t watch, ServiceAddress lost, WakeSet* wake) {
    const GroupEntry& group = context.memory.group(watches[watch].seen.group);
    const uint32_t p = find_peer(context.memory, group, lost);
    if (p == group.peer_count) return;
    for (const uint32_t m : context.memory.members_of(group, context.memory.peers(group)[p]))
        watches.fail_block(watch, Rank{m}, OperationError::kServiceLost, wake);
    teller.give_up(watch, p, wake);
}

bool ServiceEngine::Parts::idle() const {
    return watches.idle() && queue.idle() && rows.idle() && acknowledger.idle() && reads.idle() &&
           staging.in_use() == offers.slots_of_lost() && offers.idle() && intake.idle();
}

}  // namespace longshore
