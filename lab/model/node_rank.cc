#include "model/node_rank.h"

#include <utility>

namespace longshore::timed {
namespace {

// As in mpi/requests/waiter.cc: without anything moved, before the first sleep.
constexpr Time kLooksFor = 50 * kMicrosecond;

}  // namespace

void NodeRank::on_event(uint64_t what) {
    switch (what) {
        case kEnter:
            enter();
            break;
        case kPost:
            post();
            break;
        case kWait:
            if (lost_now_ != 0) {
                world_.queue().after(std::exchange(lost_now_, 0), *this, kWait);
                break;
            }
            worked_ = world_.queue().now();
            engine_.begin_wait();
            look_after(0);
            break;
        case kLook:
            look();
            break;
    }
}

// The call that starts the collective ends with the post.
void NodeRank::enter() {
    entered_ = world_.queue().now();
    runs_ = true;
    lost_now_ = 0;
    const Time copied = time_of(copied_bytes(), world_.machine().memory_core_rate);
    world_.queue().after(post_time() + copied, *this, kPost);
}

void NodeRank::post() {
    WakeSet woken;
    OperationArguments a = prepare(&woken);
    a.copies_itself = true;
    world_.rank_has_entered(node_, local_);
    LONGSHORE_CHECK(engine_.post(a, true, &record_, &woken) == PostResult::kPosted);
    world_.queue().after(wake(woken) + world_.job().compute_of(rank_), *this, kWait);
}

// Those that were rung run from now on; returns how long it took to wake those that slept.
Time NodeRank::wake(const WakeSet& woken) {
    const Time cost = world_.sleepers(node_, woken) * world_.machine().service_wake;
    world_.wake(node_, woken);
    return cost;
}

bool NodeRank::has_to_be_woken() const {
    return world_.queue().now() > worked_ + kLooksFor;
}

void NodeRank::ring() {
    if (!rests_) return;
    rests_ = false;
    runs_ = true;
    slot_.sleeping.store(0);
    const Machine& m = world_.machine();
    look_after(has_to_be_woken() ? m.service_wake_up : m.rank_wake_up);
}

void NodeRank::look_after(Time time) {
    time += world_.step_time(world_.machine().rank_test) + std::exchange(lost_now_, 0);
    world_.queue().after(time, *this, kLook);
}

void NodeRank::lose_core(Time time) {
    lost_ += time;
    lost_now_ += time;
}

void NodeRank::look() {
    if (engine_.poll(record_) == Progress::kComplete) {
        LONGSHORE_CHECK(engine_.error(record_) == OperationError::kNone);
        WakeSet woken;
        engine_.end_wait();
        engine_.release(record_, &woken);
        wake(woken);
        runs_ = false;
        world_.rank_is_done(rank_, world_.queue().now() - entered_);
        return;
    }
    if (engine_.claim(record_, &copy_)) {
        world_.wires().copy(node_, copy_.bytes, world_.step_time(world_.machine().service_copy), this, 0);
        return;
    }
    rests_ = true;
    runs_ = false;
    slot_.sleeping.store(1);
}

// It has copied a piece.
void NodeRank::on_arrival(uint64_t) {
    WakeSet woken;
    engine_.finish(copy_, MoveResult::kMoved, &woken);
    worked_ = world_.queue().now();
    look_after(world_.step_time(world_.machine().service_finish) + wake(woken));
}

}  // namespace longshore::timed
