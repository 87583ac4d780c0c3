#include "model/rank_process.h"

#include <algorithm>

namespace longshore::timed {
namespace {

constexpr uint64_t kNoteBytes = 64;  // a message that says one thing
// As where a rank's posts are made (dpu/rank/far_operations.cc).
constexpr uint64_t kHandedOverMin = 4096;

}  // namespace

void RankProcess::on_event(uint64_t what) {
    switch (what) {
        case kEnter:
            enter();
            break;
        case kPost:
            post();
            break;
        case kLook:
            look();
            break;
        case kStandIn:
            works_ = false;
            step_of_stand_in();
            break;
        case kPatient:
            hand_over();
            break;
        case kWaits:
            world_.wires().send({node_, Side::kHost}, {node_, Side::kDpu}, kNoteBytes,
                                world_.machine().dpu_session, this, sequence_ * kKinds + kAttends);
            break;
        case kDone:
            wait_begins_ = kNever;
            world_.rank_is_done(rank_, world_.queue().now() - entered_);
            break;
    }
}

void RankProcess::on_arrival(uint64_t tag) {
    const Machine& m = world_.machine();
    switch (tag % kKinds) {
        case kPosted: {
            const Time each = rules_of(world_.job().collective).by_vector ? m.dpu_stand_in_post_each : 0;
            const Time cost = m.dpu_stand_in_wake_up + m.dpu_stand_in_post + world_.job().group_size() * each;
            world_.queue().after(world_.step_time(cost), *this, kPost);
            break;
        }
        case kComplete: {
            const Time seen = std::max(world_.queue().now() + m.rank_wake_up, wait_begins_);
            world_.queue().at(seen + world_.step_time(m.rank_test), *this, kDone);
            break;
        }
        case kHanded:
            to_copy_.push_back(tag / kKinds);
            if (to_copy_.size() == 1) start_copy();
            break;
        case kCopied: {
            const uint64_t number = tag / kKinds;
            to_copy_.pop_front();
            free_handed_.push_back(number);
            const Time way = handed_[number].by == this ? m.dpu_session : m.dpu_message;
            world_.wires().send({node_, Side::kHost}, {node_, Side::kDpu}, kNoteBytes, way,
                                handed_[number].by, handed_[number].tag);
            if (!to_copy_.empty()) start_copy();
            break;
        }
        case kAnswered:
            answered_.push_back(static_cast<uint32_t>(tag / kKinds));
            hand_over();
            break;
        case kAttends:
            if (tag / kKinds != sequence_) break;  // of an operation that is over
            hand_over_.attend(true);
            hand_over();
            break;
    }
}

// On its host: the call that starts the collective. What it says of itself goes to the stand-in.
void RankProcess::enter() {
    const Time cost = post_time();
    entered_ = world_.queue().now();
    wait_begins_ = entered_ + cost + world_.job().compute_of(rank_);
    world_.wires().send({node_, Side::kHost}, {node_, Side::kDpu},
                        kNoteBytes + arrays_given() * world_.job().group_size() * sizeof(BlockSpan),
                        cost + world_.machine().dpu_session, this, kPosted);
    hand_over_.attend(false);
    if (world_.hands_over() && world_.job().compute_of(rank_) != 0)
        world_.queue().at(wait_begins_, *this, kWaits);
}

void RankProcess::post() {
    WakeSet wake;
    OperationArguments a = prepare(&wake);
    a.hands_over = hands_over_ = world_.hands_over() && world_.job().block_bytes >= kHandedOverMin;
    slot_.attached.store(hands_over_);
    left_ = false;
    patience_ = {};
    patience_.begin(now_ns());
    if (hands_over_ && world_.job().compute_of(rank_) != 0) look_when_patience_ends();
    is_open_ = true;
    slot_.sleeping.store(1);
    looks_ = false;
    world_.rank_has_entered(node_, local_);
    const PostResult posted = engine_.post(a, true, &record_, &wake);
    LONGSHORE_CHECK(posted == PostResult::kPosted);
    world_.wake(node_, wake);
    ring();  // there may be nothing to wait for
}

void RankProcess::ring() {
    if (looks_) return;
    looks_ = true;
    slot_.sleeping.store(0);
    const Machine& m = world_.machine();
    world_.queue().after(world_.step_time(m.dpu_stand_in_wake_up + m.dpu_stand_in_test), *this, kLook);
}

void RankProcess::look() {
    looks_ = false;
    slot_.sleeping.store(1);
    if (engine_.poll(record_) != Progress::kComplete) {
        hand_over();
        return;
    }
    is_open_ = false;
    LONGSHORE_CHECK(engine_.error(record_) == OperationError::kNone);
    WakeSet wake;
    looks_ = true;  // nothing more to be looked at until the next operation
    engine_.release(record_, &wake);
    world_.wake(node_, wake);
    world_.wires().send({node_, Side::kDpu}, {node_, Side::kHost}, kNoteBytes, world_.machine().dpu_session,
                        this, kComplete);
}

// Has something to do for the copies that its rank makes, when its core is free.
void RankProcess::hand_over() {
    if (hands_over_ && !works_) step_of_stand_in();
}

// An answer is taken in, or the next copy handed over, one after the other.
void RankProcess::step_of_stand_in() {
    const Machine& m = world_.machine();
    const auto after = [&](Time cost) {
        works_ = true;
        world_.queue().after(world_.step_time(cost), *this, kStandIn);
    };
    WakeSet wake;
    Copy copy;
    if (!answered_.empty()) {
        LONGSHORE_CHECK(hand_over_.take_back(answered_.front(), &copy));
        answered_.pop_front();
        engine_.finish(copy, MoveResult::kMoved, &wake);
        after(m.service_finish);
        world_.wake(node_, wake);
        if (is_open_) ring();
        return;
    }
    if (!is_open_) return;
    const bool in_call = world_.job().compute_of(rank_) == 0;
    if (!in_call) choose_copier();
    if (!hand_over_.may_give(in_call) || !engine_.claim_for_rank(record_, &copy)) return;
    const uint64_t number = keep({copy.bytes, this, hand_over_.give(copy) * kKinds + kAnswered});
    world_.wires().send({node_, Side::kDpu}, {node_, Side::kHost}, kNoteBytes, m.service_copy + m.dpu_session,
                        this, number * kKinds + kHanded);
    after(m.service_copy);
}

void RankProcess::look_when_patience_ends() {
    world_.queue().at(std::max(world_.queue().now(), (patience_.until_ns(false) + 1) * kNanosecond), *this,
                      kPatient);
}

// As dpu/card/stand_in.cc does.
void RankProcess::choose_copier() {
    if (!left_ && !hand_over_.attends() && engine_.is_all_there(record_)) {
        const uint64_t before = patience_.until_ns(false);
        patience_.note_there(now_ns());
        if (patience_.until_ns(false) != before) look_when_patience_ends();
    }
    const bool leaves = patience_.choose(hand_over_.attends(), false, now_ns()) == Copier::kServices;
    if (leaves == left_) return;
    left_ = leaves;
    WakeSet wake;
    engine_.leave_to_services(record_, leaves, &wake);
    world_.wake(node_, wake);
}

bool RankProcess::is_waiting() const {
    return wait_begins_ <= world_.queue().now();
}

uint64_t RankProcess::keep(const HandedCopy& copy) {
    if (free_handed_.empty()) {
        free_handed_.push_back(handed_.size());
        handed_.emplace_back();
    }
    const uint64_t number = free_handed_.back();
    free_handed_.pop_back();
    handed_[number] = copy;
    return number;
}

void RankProcess::hand_copy(uint64_t bytes, Arrivals* by, uint64_t tag) {
    const Machine& m = world_.machine();
    const uint64_t number = keep({bytes, by, tag});
    world_.wires().send({node_, Side::kDpu}, {node_, Side::kHost}, kNoteBytes, m.service_send + m.dpu_message,
                        this, number * kKinds + kHanded);
}

void RankProcess::start_copy() {
    const uint64_t number = to_copy_.front();
    world_.wires().copy(node_, handed_[number].bytes, 0, this, number * kKinds + kCopied);
}

}  // namespace longshore::timed
