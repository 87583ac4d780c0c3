#include "service/service_loop.h"

#include <time.h>

#include <atomic>

namespace longshore {
namespace {

constexpr int kActionsPerTurn = 32;
constexpr uint64_t kBytesPerTurn = 256 * 1024;  // then messages are looked at: some are of small operations

uint64_t thread_cpu_ns() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

bool moves_on_node(Action::Kind kind) {
    return kind == Action::Kind::kCopy || kind == Action::Kind::kMove;
}

}  // namespace

void ServiceLoop::set_place(const PlaceService& place) {
    spin_ns_ = place.may_spin ? start_.parameters.spin_us * 1000ull : 0;
    class_.set_place(place.only_idle != 0, place.crowded != 0);
    engine_.yield_to_waiting_ranks(class_.only_idle());
}

void ServiceLoop::hold_core(uint64_t now) {
    class_.hold([this] { return engine_.somebody_waits(); }, now);
}

void ServiceLoop::publish(uint64_t now) {
    board_.publish(times_.times(), engine_.counters(), fabric_.counters(), now);
}

// The fabric's events, after a sleep of at most wait_ns. What it does with bytes of other nodes once it is
// awake is work; only the clock of this thread tells that from the sleep.
size_t ServiceLoop::poll(std::span<FabricEvent> events, uint64_t wait_ns, uint64_t* now) {
    if (wait_ns == 0) {
        const size_t count = fabric_.poll(events, 0);
        times_.add_poll(now_ns() - *now);
        return count;
    }
    const uint64_t on_core = thread_cpu_ns();
    const size_t count = fabric_.poll(events, wait_ns);
    const uint64_t worked = thread_cpu_ns() - on_core, woke = now_ns();
    times_.add_sleep(*now, woke, worked);
    *now = woke;
    return count;
}

// Returns whether there were any.
bool ServiceLoop::take_events(uint64_t wait_ns, uint64_t* now) {
    FabricEvent events[16];
    const size_t count = poll(events, wait_ns, now);
    engine_.set_now(*now);
    if (count > 0) board_.note_work();
    for (size_t i = 0; i < count; ++i) driver_.handle(events[i], &wake_);
    return count > 0;
}

// Returns whether any action was carried out.
bool ServiceLoop::act(uint64_t now) {
    // Not where it last found nothing but blocks of ranks that wait and move them themselves: each ring of
    // theirs would make it take their core, twice, for a look.
    if (!pace_.leaves_all_to_ranks()) hold_core(now);
    const int actions_max = class_.only_idle() ? 1 : kActionsPerTurn;
    bool acted = false;
    uint64_t bytes = 0;
    for (int i = 0; i < actions_max && bytes < kBytesPerTurn; ++i) {
        if (!kept_ && !engine_.next(&action_, &wake_)) break;
        hold_core(now);
        board_.note_work();
        const uint64_t began = now_ns();
        kept_ = !driver_.carry_out(action_);
        times_.add_action(moves_on_node(action_.kind), now_ns() - began);
        if (kept_) break;
        acted = true;
        // Where bytes are asked for, a read takes no time here, and its request should not wait behind data.
        const bool asked_for = action_.kind == Action::Kind::kRead && fabric_.sends_along();
        if (!asked_for) bytes += action_.bytes + action_.copy.bytes;
    }
    return acted;
}

// Before the next turn looks at anything: the supervisor reuses a group's memory by it (group_table.cc).
void ServiceLoop::say_that_a_turn_is_over() {
    // A store and a fence, not an addition: on Arm, what is read after an addition may be read before others
    // see the sum.
    slot_.heartbeat.store(slot_.heartbeat.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool ServiceLoop::turn() {
    uint64_t now = now_ns();
    times_.begin_turn(now);
    pace_.begin_turn(now);
    pace_.set_spin(core_.may_poll(now) ? spin_ns_ : 0);
    const uint64_t wait_ns =
        pace_.take_wait_ns(now, {kept_ || driver_.has_refused(), !engine_.idle(), engine_.yielded()});
    if (wait_ns != 0 && board_.has_news()) publish(now);
    if (pace_.spins(now)) now = core_.offer(now);
    bool worked = take_events(wait_ns, &now);
    class_.let_go_in_time(now);
    driver_.follow_core_wait(now);
    if (pace_.take_tick(now, !engine_.idle())) {
        engine_.on_tick(&wake_);
        fabric_.on_tick();
    }
    if (driver_.has_refused()) {
        board_.note_work();
        worked |= driver_.send_refused();
    }
    worked |= act(now);
    if (!worked) class_.let_go(now);
    if (wake_.any()) {
        fabric_.wake(wake_);
        wake_ = {};
    }
    say_that_a_turn_is_over();
    const uint64_t end = now_ns();
    times_.end_turn(worked, end);
    pace_.end_turn(worked, engine_.yielded(), end);
    if (board_.is_due(end)) publish(end);
    return wait_ns > 0 && !worked;
}

}  // namespace longshore
