#include "engine/service/acknowledger.h"

namespace longshore {
namespace {

// A row that is over waits at most so many actions for others of its batch whose blocks are being read.
constexpr uint64_t kWaitSteps = 512;

}  // namespace

void Acknowledger::carve(Carver& c) {
    c.pool(&batches_, 2 * context_.limits.rows_max);  // with rows, and with answers not yet sent
    c.pool(&sources_, context_.limits.rows_max);
    work_ = c.take<Work>(context_.limits.watches_max + context_.limits.rows_max);
    batches_of_ = c.filled<uint32_t>(peers_.count(), kNone);
    owed_ = c.filled<bool>(peers_.count(), false);
}

uint32_t Acknowledger::begin_row(uint32_t number, const OperationId& operation, ServiceAddress teller) {
    uint32_t& head = batches_of_[peers_.index(teller)];
    uint32_t b = head;
    while (b != kNone && batches_[b].operation != operation) b = batches_[b].chain;
    if (b == kNone) {
        b = batches_.take();
        batches_[b].operation = operation;
        batches_[b].teller = teller;
        batches_[b].chain = head;
        head = b;
    }
    ++batches_[b].rows;
    batches_[b].number = number;
    return b;
}

void Acknowledger::give_if_over(uint32_t b) {
    if (batches_[b].rows != 0 || batches_[b].over.count != 0) return;
    uint32_t* link = &batches_of_[peers_.index(batches_[b].teller)];
    while (*link != b) link = &batches_[*link].chain;
    *link = batches_[b].chain;
    batches_.give(b);
}

void Acknowledger::forget_row(uint32_t b) {
    --batches_[b].rows;
    give_if_over(b);
}

void Acknowledger::end_row(uint32_t i, uint16_t local_index, bool failed) {
    Batch& b = batches_[i];
    const uint16_t first = local_index & ~63;
    uint32_t at = b.over.head;
    while (at != kNone && (sources_[at].first != first || sources_[at].failed != failed))
        at = sources_[at].next;
    if (at == kNone) {
        at = sources_.take();
        if (at == kNone) {  // it will be told again, and answered at once
            owe(b.teller);
            ask_soon();
            forget_row(i);
            return;
        }
        sources_[at].failed = failed;
        sources_[at].first = first;
        if (b.over.count == 0) {
            b.since_step = context_.steps;
            push_back(batches_.items, &due_, i);
        }
        push_back(sources_.items, &b.over, at);
    }
    sources_[at].bits |= uint64_t{1} << (local_index - first);
    --b.rows;
}

bool Acknowledger::send(Until until) {
    bool sent = false;
    for (uint32_t n = due_.count; n != 0; --n) {
        const uint32_t i = pop_front(batches_.items, &due_);
        Batch& b = batches_[i];
        const Work work = b.rows != 0 ? work_[b.number] : Work{};
        const uint32_t others = until == Until::kQueued     ? work.queued
                                : until == Until::kInFlight ? work.in_flight
                                                            : 0;
        const bool waits = others != 0 && context_.steps - b.since_step < kWaitSteps;
        if (waits || !acknowledge(b)) {
            push_back(batches_.items, &due_, i);
            continue;
        }
        sent = true;
        give_if_over(i);
    }
    return sent;
}

bool Acknowledger::add(const OperationId& operation, ServiceAddress to, const Sources& sources) {
    Message m;
    m.kind = MessageKind::kAcknowledge;
    m.acknowledgement.operation = operation;
    m.acknowledgement.failed = sources.failed;
    m.acknowledgement.first = sources.first;
    m.acknowledgement.sources = sources.bits;
    return outbox_.add(to, m);
}

// False: no room in the frame; what is left goes with the next.
bool Acknowledger::acknowledge(Batch& b) {
    while (b.over.count != 0) {
        if (!add(b.operation, b.teller, sources_[b.over.head])) return false;
        sources_.give(pop_front(sources_.items, &b.over));
    }
    return true;
}

// Without room in the frame it is asked for again, with all the others.
void Acknowledger::answer(const OperationId& operation, ServiceAddress teller, uint16_t local_index,
                          bool failed) {
    Sources one;
    one.failed = failed;
    one.first = local_index & ~63;
    one.bits = uint64_t{1} << (local_index & 63);
    if (add(operation, teller, one)) return;
    owe(teller);
    ask_soon();
}

void Acknowledger::owe(ServiceAddress teller) {
    ++context_.counters->dropped;
    bool& owed = owed_[peers_.index(teller)];
    owed_count_ += !owed;
    owed = true;
}

void Acknowledger::forgive(ServiceAddress teller) {
    bool& owed = owed_[peers_.index(teller)];
    owed_count_ -= owed;
    owed = false;
}

void Acknowledger::ask_for_dropped() {
    if (!ask_) return;
    ask_ = false;
    for (uint32_t p = 0; owed_count_ != 0 && p < peers_.count(); ++p) {
        if (!owed_[p]) continue;
        Message m;
        m.kind = MessageKind::kAgain;
        owed_[p] = !outbox_.add(peers_.address(p), m);
        owed_count_ -= !owed_[p];
        ask_ |= owed_[p];
    }
}

}  // namespace longshore
