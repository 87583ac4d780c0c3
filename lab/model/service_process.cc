#include "model/service_process.h"

#include "fabric/ucx/packet.h"
#include "model/rank_process.h"

namespace longshore::timed {
namespace {

// As in service/service_loop.cc.
constexpr int kEventsPerTurn = 16, kActionsPerTurn = 32;
constexpr uint64_t kBytesPerTurn = 256 * 1024;
constexpr uint64_t kNumber = (uint64_t{1} << 40) - 1;
constexpr uint8_t kFramesUnderWay = 16;  // as in fabric/ucx/ucx_fabric.h

uint8_t taken_in(uint64_t tag) {
    return static_cast<uint8_t>(tag >> 32);
}

}  // namespace

ServiceProcess::ServiceProcess(Offload& world, uint32_t node, ServiceId id, const ServiceLimits& limits)
    : world_(world),
      node_(node),
      id_(id),
      shares_cores_(world.job().shares_cores(id.value)),
      block_(ServiceEngine::bytes_needed(world.memory(node).limits(), limits)),
      slot_(world.memory(node).service(id)),
      reads_(limits.reads_max, world.memory(node).limits().chunk_bytes) {
    WakeSet wake;
    engine_ =
        std::make_unique<ServiceEngine>(block_.data(), world.memory(node), id, uint16_t{1}, limits, &wake);
    const std::vector<uint16_t> counts(world.job().nodes, static_cast<uint16_t>(world.job().services));
    engine_->set_peers(counts);
    engine_->set_read_window(reads_.window_bytes());
    pace_.set_spin(spin() / kNanosecond);
    pace_.begin_turn(0);
    lines_.resize(size_t{world.job().nodes} * world.job().services);
    slot_.sleeping.store(1);
    asleep_ = true;
}

void ServiceProcess::on_arrival(uint64_t tag) {
    if (Receivers* others = world_.receivers_of(node_); others != nullptr && (tag & ~kNumber) == kRead)
        others->piece_came();
    if (phase_ == Phase::kCopying && (tag & ~kNumber) >= kOwnCopy) {
        end_own_copy(tag);
        return;
    }
    inbox_.push_back(tag);
    ring();
}

void ServiceProcess::ring() {
    if (phase_ == Phase::kResting) get_up();
}

void ServiceProcess::on_event(uint64_t what) {
    if (what == kAlarm) {
        alarm();
    } else {
        step();
    }
}

void ServiceProcess::step_after(Phase next, Time mean) {
    phase_ = next;
    const Time time = world_.step_time(mean);
    note_work(time);
    world_.queue().after(time, *this, kStep);
}

void ServiceProcess::note_work(Time time) {
    work_.busy += time;
    if (shares_cores_ && time != 0) world_.take_core(node_, time);
}

void ServiceProcess::step() {
    switch (phase_) {
        case Phase::kBeginTurn:
            pace_.begin_turn(now_ns());
            events_ = actions_ = 0;
            bytes_ = 0;
            worked_ = false;
            step_after(Phase::kTakeEvents, world_.machine().service_turn);
            break;
        case Phase::kTakeEvents:
            if (!take_event()) begin_actions();
            break;
        case Phase::kAct:
            act();
            break;
        case Phase::kResting:
        case Phase::kCopying:
            LONGSHORE_CHECK(false);
    }
}

bool ServiceProcess::take_event() {
    if (inbox_.empty() || events_ == kEventsPerTurn) return false;
    ++events_;
    worked_ = true;
    const uint64_t tag = inbox_.front();
    inbox_.pop_front();
    const auto number = static_cast<uint32_t>(tag & kNumber);
    engine_->set_now(now_ns());
    if ((tag & ~kNumber) == kFrame) {
        step_after(Phase::kTakeEvents, world_.machine().service_message + take_frame(tag));
        return true;
    }
    if ((tag & ~kNumber) == kTaken) {
        lines_[number].looked_at = taken_in(tag);
        step_after(Phase::kTakeEvents, world_.machine().service_message);
        return true;
    }
    if ((tag & ~kNumber) == kCopy) {
        engine_->finish_copy(copies_[number], MoveResult::kMoved, &wake_);
        free_copies_.push_back(number);
    } else {
        if (reads_.finish(number, now_ns()).bytes != 0) engine_->set_read_window(reads_.window_bytes());
        engine_->finish_read(number, MoveResult::kMoved, &wake_);
    }
    step_after(Phase::kTakeEvents, world_.machine().service_finish);
    return true;
}

// Null: frames to and from it are never too many. The nodes of a mirrored job do not tell each other how far
// they are.
ServiceProcess::Line* ServiceProcess::line_of(ServiceAddress peer) {
    const Job& job = world_.job();
    const bool is_counted = peer.node.value != node_ && !job.mirrored;
    return is_counted ? &lines_[peer.node.value * job.services + peer.service.value] : nullptr;
}

// What it takes to say so.
Time ServiceProcess::note_taken(ServiceAddress peer, Line* line) {
    if (static_cast<uint8_t>(++line->taken - line->told) < kFramesUnderWay / 2) return 0;
    line->told = line->taken;
    const Job& job = world_.job();
    const Time cost = world_.machine().service_send;
    const Side side = world_.service_side();
    world_.wires().send({node_, side}, {peer.node.value, side}, kPacketHeaderBytesMax, cost,
                        &world_.service_at(peer),
                        kTaken | with_taken(line->taken, uint64_t{node_} * job.services + id_.value));
    return cost;
}

Time ServiceProcess::take_frame(uint64_t tag) {
    const auto number = static_cast<uint32_t>(tag);
    const ServiceAddress from = world_.kept_frame(number).from;
    Time cost = 0;
    if (Line* line = line_of(from)) {
        line->looked_at = taken_in(tag);
        cost = note_taken(from, line);
    }
    const LateCounters& late = engine_->counters().late_of(world_.job().collective);
    const uint64_t before = late.received;
    engine_->on_frame(world_.kept_frame(number).content(), &wake_);
    world_.drop_frame(number);
    if (late.received == before || told_of(world_.sequence())) return cost;
    told_ = world_.sequence();
    covered_ = world_.entered(node_) != 0;
    return cost;
}

LateCounters ServiceProcess::late() const {
    const Collective collective = world_.job().collective;
    LateCounters late = engine_->counters().late_of(collective);
    const LateCounters& before = counted_from_.late_of(collective);
    late.received -= before.received;
    late.late -= before.late;
    late.handed_on -= before.handed_on;
    late.rescued -= before.rescued;
    late.parked -= before.parked;
    return late;
}

void ServiceProcess::begin_actions() {
    engine_->set_now(now_ns());
    if (pace_.take_tick(now_ns(), !engine_->idle())) engine_->on_tick(&wake_);
    if (!send_refused()) act();
}

void ServiceProcess::act() {
    Action action;
    if (actions_ == kActionsPerTurn || bytes_ >= kBytesPerTurn || !engine_->next(&action, &wake_)) {
        end_turn();
        return;
    }
    ++actions_;
    worked_ = true;
    bytes_ += action.bytes + action.copy.bytes;
    if (copies_itself(action)) {
        copy_itself(action);
        return;
    }
    step_after(Phase::kAct, carry_out(action));
}

void ServiceProcess::end_turn() {
    // Who was rung runs from now on; that this process is a little later for each of them is in its next
    // turn.
    Time woken = 0;
    if (wake_.any()) {
        woken = world_.sleepers(node_, wake_) * world_.machine().service_wake;
        world_.wake(node_, std::exchange(wake_, {}));
    }
    pace_.end_turn(worked_, engine_->yielded(), now_ns());
    if (worked_ || woken != 0 || !inbox_.empty()) {
        step_after(Phase::kBeginTurn, woken);
    } else {
        rest();
    }
}

// Turns without work cost nothing but the time until something comes: they are left out.
void ServiceProcess::rest() {
    phase_ = Phase::kResting;
    rests_since_ = world_.queue().now();
    slot_.sleeping.store(1);
    set_alarm(rests_since_ + spin() + kNanosecond);
}

void ServiceProcess::get_up() {
    slot_.sleeping.store(0);
    if (Receivers* others = world_.receivers_of(node_)) others->gets_up(id_, asleep_, rests_since_);
    const Time late = asleep_ ? world_.machine().service_wake_up : 0;
    asleep_ = false;
    phase_ = Phase::kBeginTurn;
    world_.queue().after(late, *this, kStep);
}

void ServiceProcess::set_alarm(Time at) {
    // One that comes too early sets itself again, and one that has been overtaken does nothing.
    if (alarm_at_ <= at) return;
    alarm_at_ = at;
    world_.queue().at(at, *this, kAlarm);
}

// It has looked in vain long enough and sleeps, or has slept long enough for a tick.
void ServiceProcess::alarm() {
    if (world_.queue().now() != alarm_at_) return;
    alarm_at_ = kNever;
    if (phase_ != Phase::kResting) return;
    if (pace_.spins(now_ns())) {
        set_alarm(rests_since_ + spin() + kNanosecond);
        return;
    }
    if (asleep_) {
        get_up();
        return;
    }
    asleep_ = true;
    const uint64_t wait_ns =
        pace_.take_wait_ns(now_ns(), {!refused_.empty(), !engine_->idle(), engine_->yielded()});
    // An idle one that looks again finds nothing.
    if (!engine_->idle() || !refused_.empty()) set_alarm(world_.queue().now() + wait_ns * kNanosecond);
}

// On a host its core moves what does not leave the node, and does nothing else meanwhile.
bool ServiceProcess::copies_itself(const Action& a) const {
    return !world_.job().is_on_dpu() && (a.kind == Action::Kind::kCopy || a.kind == Action::Kind::kWrite);
}

void ServiceProcess::copy_itself(const Action& a) {
    const bool is_copy = a.kind == Action::Kind::kCopy;
    phase_ = Phase::kCopying;
    own_copy_ = a.copy;
    own_copy_began_ = world_.queue().now();
    work_.copies += is_copy;
    world_.wires().copy(node_, is_copy ? a.copy.bytes : a.bytes,
                        world_.step_time(world_.machine().service_copy), this,
                        is_copy ? kOwnCopy : kOwnMove | a.id);
}

void ServiceProcess::end_own_copy(uint64_t tag) {
    note_work(world_.queue().now() - own_copy_began_);
    engine_->set_now(now_ns());
    if ((tag & ~kNumber) == kOwnCopy) {
        engine_->finish_copy(own_copy_, MoveResult::kMoved, &wake_);
    } else {
        engine_->finish_read(static_cast<uint32_t>(tag & kNumber), MoveResult::kMoved, &wake_);
    }
    step_after(Phase::kAct, world_.machine().service_finish);
}

Time ServiceProcess::carry_out(const Action& a) {
    const Place here{node_, Side::kDpu}, host{node_, Side::kHost};
    switch (a.kind) {
        case Action::Kind::kRead:
            return start_read(a);
        case Action::Kind::kCopy:
            return start_copy(a);
        case Action::Kind::kWrite: {
            const Time cost = world_.machine().service_copy;
            world_.wires().send(here, host, a.bytes, cost, this, kMove | a.id);
            return cost;
        }
        case Action::Kind::kSend:
            return send(a.peer, a.data);
        case Action::Kind::kMove:
            return start_move(a);
        case Action::Kind::kSendAlong:
            break;
    }
    LONGSHORE_CHECK(!"nothing goes along here");
    return 0;
}

// Frames that a peer has no room for are sent when it has looked at others (service/fabric_driver.cc).
Time ServiceProcess::send(ServiceAddress to, std::span<const std::byte> frame) {
    const Time cost = world_.machine().service_send;
    if (!refused_.has(to) && post(to, frame, cost) == Post::kAccepted) return cost;
    ++work_.refused;
    LONGSHORE_CHECK(refused_.push(to, frame));
    return 0;
}

Post ServiceProcess::post(ServiceAddress to, std::span<const std::byte> frame, Time delay) {
    uint8_t taken = 0;
    if (Line* line = line_of(to)) {
        if (static_cast<uint8_t>(line->sent - line->looked_at) >= kFramesUnderWay) return Post::kAgain;
        ++line->sent;
        taken = line->told = line->taken;
    }
    ++work_.messages;
    world_.send_frame({NodeId{static_cast<uint16_t>(node_)}, id_}, to, frame, delay, taken);
    return Post::kAccepted;
}

// Whether there was room for any of them; the turn's actions then follow.
bool ServiceProcess::send_refused() {
    Time cost = 0;
    const bool sent = refused_.flush([&](ServiceAddress to, std::span<const std::byte> frame) {
        const Time next = cost + world_.machine().service_send;
        const Post result = post(to, frame, next);
        if (result == Post::kAccepted) cost = next;
        return result;
    });
    if (!sent) return false;
    worked_ = true;
    step_after(Phase::kAct, cost);
    return true;
}

Time ServiceProcess::start_read(const Action& a) {
    const Time cost = world_.machine().service_read;
    ++work_.reads;
    reads_.post(a.id, a.bytes, now_ns());
    if (Receivers* others = world_.receivers_of(node_)) others->asks_for(a.bytes);
    // What a rank gives in its arena lies with its stand-in, and staged blocks with the service process.
    const bool is_of_service = a.name.rank == kStaging || a.name.region == kArenaRegion;
    const Side own = world_.service_side();
    const Side from = is_of_service ? own : Side::kHost;
    const Side to = a.to.rank == kStaging ? own : Side::kHost;
    world_.wires().read({node_, own}, {a.peer.node.value, from}, {node_, to}, a.bytes, cost, this,
                        kRead | a.id);
    return cost;
}

// Between the service process's memory and a rank's, by the card.
Time ServiceProcess::start_move(const Action& a) {
    const Time cost = world_.machine().service_copy;
    ++work_.copies;
    const Place here{node_, Side::kDpu}, host{node_, Side::kHost};
    if (a.from.rank == kStaging) {
        world_.wires().send(here, host, a.bytes, cost, this, kMove | a.id);
    } else {
        const Place from = a.from.region == kArenaRegion ? here : host;
        world_.wires().read(here, from, here, a.bytes, cost, this, kMove | a.id);
    }
    return cost;
}

Time ServiceProcess::start_copy(const Action& a) {
    ++work_.copies;
    if (free_copies_.empty()) {
        free_copies_.push_back(static_cast<uint32_t>(copies_.size()));
        copies_.emplace_back();
    }
    const uint32_t index = free_copies_.back();
    free_copies_.pop_back();
    copies_[index] = a.copy;
    auto& taker = static_cast<RankProcess&>(world_.rank_at(node_, a.copy.destination.value));
    if (world_.job().handover == Handover::kOnce && taker.is_waiting()) {
        taker.hand_copy(a.copy.bytes, this, kCopy | index);
        return world_.machine().service_send;
    }
    const Time cost = world_.machine().service_copy;
    const Side from = a.copy.from.region == kArenaRegion ? Side::kDpu : Side::kHost;
    world_.wires().read({node_, Side::kDpu}, {node_, from}, {node_, Side::kHost}, a.copy.bytes, cost, this,
                        kCopy | index);
    return cost;
}

}  // namespace longshore::timed
