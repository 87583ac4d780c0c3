#include "service/service_loop.h"

#include <sched.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "fabric/shm/sight_times.h"

namespace longshore {
namespace {

constexpr uint64_t kTickNs = 50'000'000;
constexpr uint64_t kIdleWaitNs = 1'000'000'000;
constexpr uint64_t kRefusedWaitNs = 200'000;  // while a peer's ring is full: it does not ring back
constexpr uint64_t kPublishNs = 10'000'000;
constexpr uint64_t kRaisedNs = 100'000;       // about a chunk's time: small ones share a change of class
constexpr uint64_t kYieldedWaitNs = 100'000;  // a rank that stops waiting does not ring
constexpr uint64_t kYieldedWaitMaxNs = 3'200'000;
constexpr uint64_t kCoreWaitNs = 1'000'000;  // between looks at how long this process waits for its core
constexpr int kActionsPerTurn = 32;
constexpr uint64_t kBytesPerTurn = 256 * 1024;  // then messages are looked at: some are of small operations
constexpr uint64_t kCopyBit = uint64_t{1} << 63;

uint64_t cpu_ns(clockid_t whose = CLOCK_PROCESS_CPUTIME_ID) {
    timespec t;
    clock_gettime(whose, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

bool moves_on_node(Action::Kind kind) {
    return kind == Action::Kind::kCopy || kind == Action::Kind::kMove;
}

}  // namespace

void ServiceLoop::trace(uint64_t begin, uint64_t kind, uint64_t value) {
    if (!start_.parameters.trace) return;
    const ServiceId self{start_.service};
    SightSlot& sight = SightLayout::slot(sight_, self);
    const uint64_t at = sight.trace_written.load(std::memory_order_relaxed);
    TraceEntry& entry = SightLayout::trace(sight_, self)[at % kTraceEntries];
    entry.begin_ns.store(begin, std::memory_order_relaxed);
    entry.end_ns.store(now_ns(), std::memory_order_relaxed);
    entry.kind.store(kind, std::memory_order_relaxed);
    entry.value.store(value, std::memory_order_relaxed);
    sight.trace_written.store(at + 1, std::memory_order_release);
}

void ServiceLoop::handle(const FabricEvent& event) {
    switch (event.kind) {
        case FabricEvent::Kind::kMessage:
            engine_.on_frame(event.message, &wake_);
            break;
        case FabricEvent::Kind::kMoved:
            if ((event.id & kCopyBit) != 0) {
                const auto index = static_cast<uint32_t>(event.id & ~kCopyBit);
                engine_.finish_copy(copies_[index], event.result, &wake_);
                free_copies_.push_back(index);
            } else {
                note_read(static_cast<uint32_t>(event.id));
                engine_.finish_read(static_cast<uint32_t>(event.id), event.result, &wake_);
            }
            break;
        case FabricEvent::Kind::kImported:
            engine_.finish_import(static_cast<uint32_t>(event.id), event.region, event.ok, &wake_);
            break;
        case FabricEvent::Kind::kPeerLost:
            note_problem();
            refused_.drop(event.peer);
            engine_.on_peer_lost(event.peer, &wake_);
            break;
    }
}

// Before operations fail because of it: their ranks say why.
void ServiceLoop::note_problem() {
    std::string problem = fabric_.take_problem();
    if (problem.empty()) return;
    SightProblem& seen = SightLayout::problem(sight_, ServiceId{start_.service});
    memset(seen.text, 0, sizeof seen.text);
    problem.copy(seen.text, sizeof seen.text - 1);
    seen.count.fetch_add(1, std::memory_order_release);
    problem_ = std::move(problem);
}

std::string ServiceLoop::take_problem() {
    note_problem();
    return std::exchange(problem_, {});
}

bool ServiceLoop::send(const Action& action) {
    if (!refused_.has(action.peer) && fabric_.send(action.peer, action.data) == Post::kAccepted) return true;
    return refused_.push(action.peer, action.data);
}

bool ServiceLoop::send_refused() {
    return refused_.flush(
        [this](ServiceAddress to, std::span<const std::byte> frame) { return fabric_.send(to, frame); });
}

void ServiceLoop::note_posted(uint32_t read, uint64_t bytes) {
    if (read >= posted_.size()) return;  // of staging: its slots are its window
    const uint64_t now = now_ns();
    window_.on_post(reading_bytes_, now);
    posted_[read] = {now, bytes, reading_bytes_};
    reading_bytes_ += bytes;
}

void ServiceLoop::note_read(uint32_t read) {
    if (read >= posted_.size() || posted_[read].bytes == 0) return;
    const Posted posted = std::exchange(posted_[read], {});
    reading_bytes_ -= posted.bytes;
    window_.on_read(posted.bytes, posted.behind, posted.at_ns, now_ns());
    trace(posted.at_ns, kTraceUnderWay, posted.bytes);
    engine_.set_read_window(window_.bytes());
}

void ServiceLoop::follow_core_wait(uint64_t now) {
    if (reading_bytes_ == 0 || now - core_waited_ns_ < kCoreWaitNs) return;
    core_waited_ns_ = now;
    window_.on_core_wait(core_wait_.take_ns(), now);
}

bool ServiceLoop::carry_out(const Action& action) {
    const bool timed = keeps_times(sight_);
    const uint64_t begin = start_.parameters.trace || timed ? now_ns() : 0;
    switch (action.kind) {
        case Action::Kind::kCopy: {
            if (free_copies_.empty()) {
                free_copies_.push_back(static_cast<uint32_t>(copies_.size()));
                copies_.emplace_back();
            }
            const uint32_t index = free_copies_.back();
            copies_[index] = action.copy;
            if (fabric_.copy(action.copy.from, action.copy.to, action.copy.bytes, kCopyBit | index,
                             action.copy.working_set) == Post::kAgain)
                return false;
            if (timed) note_copy(memory_, sight_, action.copy, begin, now_ns(), false);
            free_copies_.pop_back();
            trace(begin, kTraceCopy, action.copy.bytes);
            return true;
        }
        case Action::Kind::kRead:
            if (fabric_.read(action.region, action.offset, action.to, action.bytes, action.id,
                             action.along ? &action.part : nullptr) == Post::kAgain)
                return false;
            note_posted(action.id, action.bytes);
            trace(begin, kTraceRead, action.bytes);
            return true;
        case Action::Kind::kMove:
            if (fabric_.copy(action.from, action.to, action.bytes, action.id) == Post::kAgain) return false;
            trace(begin, kTraceCopy, action.bytes);
            return true;
        case Action::Kind::kWrite:
            return fabric_.write(action.data, action.to, action.id) == Post::kAccepted;
        case Action::Kind::kSend:
            return send(action);
        case Action::Kind::kSendAlong:
            fabric_.send_along(action.peer, action.part.block, action.name, action.offset, action.bytes);
            return true;
        case Action::Kind::kImport:
            return fabric_.import_region(action.peer, action.name, action.data, action.id) == Post::kAccepted;
        case Action::Kind::kForget:
            fabric_.forget_region(action.region);
            return true;
    }
    return true;
}

void ServiceLoop::publish(uint64_t now) {
    last_publish_ns_ = now;
    unpublished_ = false;
    const auto set = [](Atomic<uint64_t>& word, uint64_t value) {
        word.store(value, std::memory_order_relaxed);
    };
    const ServiceCounters& engine = engine_.counters();
    const FabricCounters fabric = fabric_.counters();
    set(slot_.busy_ns, busy_ns_);
    set(slot_.copy_ns, copy_ns_);
    set(slot_.network_ns, network_ns_);
    set(slot_.idle_ns, idle_ns_);
    set(slot_.cpu_ns, cpu_ns());
    set(slot_.sleeps, sleeps_);
    set(slot_.copies, engine.copies);
    set(slot_.reads, engine.reads);
    set(slot_.messages_sent, fabric.messages_sent);
    set(slot_.messages_refused, fabric.refused + engine.malformed_messages);
    set(slot_.stale_messages, engine.stale_messages);
    set(slot_.notifications_resent, engine.notifications_resent);
    set(slot_.bytes_mapped, fabric.bytes_mapped);
    set(slot_.bytes_peer_copied, fabric.bytes_peer_copied);
    set(slot_.bytes_bounced, fabric.bytes_bounced);
    set(slot_.bytes_between_nodes, engine.bytes_between_nodes);
    set(slot_.bytes_staged, engine.bytes_staged);
    set(slot_.bytes_relayed, engine.bytes_relayed);
    set(slot_.taken, engine.taken);
    for (uint32_t i = 0; i < kCollectives; ++i) {
        const LateCounters& late = engine.late[i];
        LateWords& words = slot_.late[i];
        set(words.received, late.received);
        set(words.late, late.late);
        set(words.handed_on, late.handed_on);
        set(words.rescued, late.rescued);
        set(words.parked, late.parked);
        set(words.parked_ns, late.parked_ns);
        set(words.parked_longest_ns, late.parked_longest_ns);
    }
}

// Without a core of its own a service process takes only time that nobody else wants. But what it has claimed
// may be waited for: while it holds a chunk and some rank of the node waits, it is a process like any other,
// or a preempted one would keep that rank waiting for milliseconds. While all of them compute it would take a
// core from one of them, which the kernel then puts on another's. But with more ranks than cores somebody
// always computes there, also when one that has begun to wait sleeps: what is claimed would not move for long
// (15 s went into copies of 0.3 s in a run of examples/fft with four ranks on two cores). Where that is not
// permitted (no privilege, RLIMIT_NICE) it stays as it is.
void ServiceLoop::raise(bool raised, uint64_t now) {
    if (!only_idle_) return;
    raised = raised && (crowded_ || engine_.somebody_waits());
    if (raised == raised_) return;
    const sched_param none{};
    if (sched_setscheduler(0, raised ? SCHED_OTHER : SCHED_IDLE, &none) == 0) {
        raised_ = raised;
        raised_at_ns_ = now;
    } else {
        only_idle_ = false;
    }
}

// The fabric's events, after a sleep of at most wait_ns. What it does with bytes of other nodes once it is
// awake is work; only the clock of this thread tells that from the sleep.
size_t ServiceLoop::poll(std::span<FabricEvent> events, uint64_t wait_ns, uint64_t* now) {
    polled_ns_ = 0;
    if (wait_ns == 0) {
        const size_t count = fabric_.poll(events, 0);
        polled_ns_ = now_ns() - *now;
        return count;
    }
    const uint64_t on_core = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    const size_t count = fabric_.poll(events, wait_ns);
    const uint64_t worked = cpu_ns(CLOCK_THREAD_CPUTIME_ID) - on_core, woke = now_ns();
    network_ns_ += worked;
    busy_ns_ += worked;
    idle_ns_ += woke - *now - std::min(worked, woke - *now);
    ++sleeps_;
    mark_ns_ = *now = woke;
    return count;
}

bool ServiceLoop::turn() {
    uint64_t now = now_ns();
    if (mark_ns_ == 0) mark_ns_ = last_tick_ns_ = last_work_ns_ = now;
    const bool active = !engine_.idle();
    FabricEvent events[16];
    const bool spin = now - last_work_ns_ < spin_ns_;
    uint64_t wait_ns = 0;
    // Sleep only after a whole turn in which nothing was done. What next() said at its end is still true: the
    // fabric does not sleep if somebody rang since the poll at its beginning.
    if (!worked_ && !spin) {
        wait_ns = kept_ || !refused_.empty() ? kRefusedWaitNs : active ? kTickNs : kIdleWaitNs;
        if (engine_.yielded()) {
            wait_ns = std::min(wait_ns, yielded_wait_ns_);
            yielded_wait_ns_ = std::min(2 * yielded_wait_ns_, kYieldedWaitMaxNs);
        }
        if (unpublished_) publish(now);
    }
    if (!worked_ && spin) cpu_relax();
    const size_t count = poll(events, wait_ns, &now);
    engine_.set_now(now);
    for (size_t i = 0; i < count; ++i) handle(events[i]);
    if (now - raised_at_ns_ >= kRaisedNs) raise(false, now);
    follow_core_wait(now);
    bool worked = count > 0;
    if (!engine_.idle() && now - last_tick_ns_ >= kTickNs) {
        last_tick_ns_ = now;
        engine_.on_tick(&wake_);
    }
    if (!refused_.empty()) worked |= send_refused();
    // Not where it last found nothing but blocks of ranks that wait and move them themselves: each ring of
    // theirs would make it take their core, twice, for a look.
    if (!yielding_) raise(true, now);
    const int actions_max = only_idle_ ? 1 : kActionsPerTurn;
    uint64_t bytes = 0;
    for (int i = 0; i < actions_max && bytes < kBytesPerTurn; ++i) {
        if (!kept_ && !engine_.next(&action_, &wake_)) break;
        raise(true, now);
        const uint64_t began = now_ns();
        kept_ = !carry_out(action_);
        (moves_on_node(action_.kind) ? copy_ns_ : network_ns_) += now_ns() - began;
        if (kept_) break;
        worked = true;
        // Where bytes are asked for, a read takes no time here, and its request should not wait behind data.
        const bool asked_for = action_.kind == Action::Kind::kRead && fabric_.sends_along();
        if (!asked_for) bytes += action_.bytes + action_.copy.bytes;
    }
    if (!worked) raise(false, now);
    yielding_ = !worked && engine_.yielded();
    if (wake_.any()) {
        fabric_.wake(wake_);
        wake_ = {};
    }
    // Before the next turn looks at anything: the supervisor reuses a group's memory by it (group_table.cc).
    // A store and a fence, not an addition: on Arm, what is read after an addition may be read before others
    // see the sum.
    slot_.heartbeat.store(slot_.heartbeat.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const uint64_t end = now_ns();
    (worked ? busy_ns_ : idle_ns_) += end - mark_ns_;
    mark_ns_ = end;
    if (worked || !engine_.yielded()) yielded_wait_ns_ = kYieldedWaitNs;
    if (worked) {
        network_ns_ += polled_ns_;
        last_work_ns_ = end;
        unpublished_ = true;
    }
    if (end - last_publish_ns_ > kPublishNs) publish(end);
    worked_ = worked;
    return wait_ns > 0 && !worked;
}

}  // namespace longshore
