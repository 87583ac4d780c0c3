#include "simulator/far_rank.h"

#include <algorithm>
#include <cstring>

#include "simulator/text.h"

namespace longshore::sim {

FarRank::FarRank(World& world, uint32_t index, std::byte* engine_block)
    : RankActor(world, index, engine_block),
      handed_(world.options.last_pair()),
      said_(uses_.size()),
      given_(last_copy()),
      given_to_agent_(last_copy()),
      copies_lost_(uses_.size()) {
    again_stand_in(world.options.late_ns);
    greet_stand_in();
}

// --- the connections

void FarRank::say(To to, const Message& message) {
    Way& w = way(to);
    const uint64_t now = world_.scheduler.now_ns();
    w.last_ns = std::max(w.last_ns, now + 100 + world_.scheduler.around(world_.options.session_ns));
    w.flying.push_back(message);
    world_.scheduler.post(w.last_ns - now, EventKind::kSession, index_, static_cast<uint64_t>(to));
}

void FarRank::arrive(uint64_t at) {
    const To to{static_cast<uint8_t>(at)};
    Way& w = way(to);
    LONGSHORE_CHECK(!w.flying.empty());
    const bool lives = to == To::kRank ? process_lives_ : to == To::kAgent ? agent_lives_ : stand_in_lives_;
    if (lives) w.arrived.push_back(w.flying.front());
    w.flying.pop_front();
    if (to == To::kAgent) return turn_agent();
    if (to != To::kRank) return woken();
    if (doing_ != Doing::kAsleep || done()) return;
    doing_ = Doing::kWait;
    again(world_.options.wake_ns);
}

// --- the process

void FarRank::step() {
    if (state_ == State::kReap) return reap();
    if (done()) return;
    switch (doing_) {
        case Doing::kProgram:
            return run();
        case Doing::kWait:
            return wait();
        case Doing::kCopy:
            return copy();
        case Doing::kAsleep:
            return;
    }
}

void FarRank::run() {
    if (next_step_ == steps_.size()) {
        state_ = State::kReap;
        return again(0);
    }
    const Step& s = steps_[next_step_];
    if (!delayed_ && s.delay_ns != 0) {
        delayed_ = true;
        world_.scheduler.post(s.delay_ns, EventKind::kRank, index_, sleep_number_);
        // It may look at what it has open before it computes, as programs do that never wait.
        if (attended_ == 0 || !world_.scheduler.random.chance(world_.options.tested)) return;
        hear();
        for (uint32_t i = 0; i < said_.size() && !done(); ++i)
            if (said_[i].copies == Copies::kAttended)
                say(To::kStandIn, {Message::Kind::kTested, i, 0, false, {}});
        return;
    }
    delayed_ = false;
    if (!s.wait) {
        enter_operation(s.use);
        ++next_step_;
        return again(world_.options.step_ns);
    }
    doing_ = Doing::kWait;
    wait();
}

bool FarRank::may_copy() const {
    return mix64(world_.options.seed ^ index_ * 977) % 1000 < world_.options.copying_ranks;
}

// What is copied by ranks is what each of them decides by itself.
FarRank::Copies FarRank::when_to_copy(const Use& u) const {
    const Operation& op = *u.operation;
    const uint64_t blocks = op.receives_one() ? 1 : op.size;
    if (!may_copy() || !op.sends_same() || u.recv.bytes == 0 ||
        u.recv.bytes / blocks < world_.options.handed_bytes)
        return Copies::kNever;
    return op.blocking ? Copies::kInCall : Copies::kAttended;
}

void FarRank::enter_operation(uint32_t use) {
    Use& u = uses_[use];
    prepare(u);
    said_[use].copies = when_to_copy(u);
    u.hands_over = said_[use].copies != Copies::kNever;
    attended_ += said_[use].copies == Copies::kAttended;
    say(To::kStandIn, {Message::Kind::kPost, use, 0, false, {}});
}

// In MPI_Wait: what is to be copied is copied, and when all is over, so is the wait.
void FarRank::wait() {
    hear();
    if (done()) return;
    const bool over = said_[steps_[next_step_].use].over;
    if (!over && attended_ != 0 && handed_.attend())
        say(To::kStandIn, {Message::Kind::kAttend, 0, handed_.serial(), true, {}});
    if (over && handed_.leave()) say(To::kStandIn, {Message::Kind::kAttend, 0, handed_.serial(), false, {}});
    // With nothing open for which others could wait, the answer is not waited for.
    if (over && (!handed_.is_leaving() || attended_ == 0)) {
        doing_ = Doing::kProgram;
        ++next_step_;
        return again(world_.options.step_ns);
    }
    copying_ = {};
    if (!handed_.next(&copying_.copy)) {
        doing_ = Doing::kAsleep;
        return;
    }
    doing_ = Doing::kCopy;
    again(world_.options.move_ns);
}

// Part of a copy out of another rank's memory. Whoever is gone has none that could be read; what has been let
// go may hold anything, and is looked at afterwards (dpu/rank/far_neighbours.h).
bool FarRank::move_part(const HandedCopy& copy, uint64_t to, uint64_t begin, uint64_t end) {
    const auto& giver = static_cast<const FarRank&>(world_.rank(copy.giver));
    if (!giver.process_lives_) return false;
    std::byte* const there = world_.memory.pool(to);
    // With its stand-in, others may have been told that this rank has the block.
    const bool counts = stand_in_lives_ && giver.state_ != State::kGone;
    std::string wrong;
    if (counts && !world_.memory.is_open(copy.from, copy.bytes, &wrong))
        world_.fail("access",
                    name_of_rank(index_) + " copies of rank " + std::to_string(copy.giver) + ": " + wrong);
    memmove(there + begin, world_.memory.pool(copy.from) + begin, end - begin);
    if (giver.state_ == State::kGone)
        for (uint64_t i = begin; i < end; ++i) there[i] = ~there[i];
    return true;
}

// A half of it, or all. False: nothing is left to be copied.
bool FarRank::copy_part(Copying* c, uint64_t to) {
    if (c->half == 2) return false;
    const bool half = c->half == 0 && world_.options.torn && c->copy.bytes > 1;
    const uint64_t middle = c->copy.bytes / 2;
    c->well &= move_part(c->copy, to, c->half == 1 ? middle : 0, half ? middle : c->copy.bytes);
    c->half = half ? 1 : 2;
    return true;
}

// The giver's word is looked at after the bytes.
bool FarRank::is_well(const Copying& c) const {
    return c.well && static_cast<const FarRank&>(world_.rank(c.copy.giver)).state_ != State::kGone;
}

void FarRank::copy() {
    if (copy_part(&copying_, uses_[copying_.copy.operation].recv.at + copying_.copy.to))
        return again(world_.options.move_ns / 4);
    const bool ok = is_well(copying_);
    if (ok) world_.coverage.handed_copies = 1;
    say(To::kStandIn, {Message::Kind::kCopied, 0, copying_.copy.number, ok, {}});
    doing_ = Doing::kWait;
    again(world_.options.step_ns);
}

void FarRank::finish(uint32_t use) {
    for (HandedCopy copy; handed_.drop(use, &copy);)
        say(To::kStandIn, {Message::Kind::kCopied, 0, copy.number, false, {}});
    attended_ -= said_[use].copies == Copies::kAttended;
    said_[use] = {Copies::kNever, true};
}

void FarRank::hear() {
    const auto refuse = [&](const char* what) { world_.fail("session", name_of_rank(index_) + what); };
    for (std::deque<Message>& in = way(To::kRank).arrived; !in.empty() && !done();) {
        const Message m = in.front();
        in.pop_front();
        switch (m.kind) {
            case Message::Kind::kFinished:
                finish(m.use);
                break;
            case Message::Kind::kCopy: {
                const Said& said = said_[m.use];
                const uint64_t bytes = uses_[m.use].recv.bytes;
                if (said.over || said.copies == Copies::kNever || m.copy.to > bytes ||
                    m.copy.bytes > bytes - m.copy.to || !handed_.take(m.copy, said.copies == Copies::kInCall))
                    refuse(" is handed a copy that it has not asked for");
                break;
            }
            case Message::Kind::kLeft:
                if (world_.options.is_wrapped(m.number, UINT32_MAX)) world_.coverage.wrapped_waits = 1;
                if (!handed_.left(m.number)) refuse(" hears an answer to nothing");
                break;
            case Message::Kind::kClosed:
                lose();
                break;
            default:
                refuse(" hears what no stand-in says");
        }
    }
}

// Its stand-in is gone: all that is open ends in an error, here in the end of the program; before that the
// agent is told to write no more, and to let others find what the memory holds now (dpu/rank/agent_client.h).
// The program writes there.
void FarRank::lose() {
    handed_.lose();
    stop_agent();
    held_.withdraw();
    RankActor::die();
}

void FarRank::end(Part part) {
    if (part == Part::kAgent) return doom_agent();
    if (lost() || done()) return;
    if (part == Part::kStandIn) return lose_stand_in();
    if (world_.verbose()) world_.log(name_of_rank(index_) + " is killed");
    world_.coverage.lost_processes = 1;
    process_lives_ = false;
    stop_agent();
    held_.end();
    RankActor::die();
    say(To::kStandIn, {Message::Kind::kClosed, 0, 0, false, {}});
}

// With its node: both at once, and nobody is left there who would notice.
void FarRank::die() {
    process_lives_ = stand_in_lives_ = agent_lives_ = false;
    ++stand_in_number_;
    ++agent_number_;
    RankActor::die();
}

// Others are lost. What all had entered before has to be over by now, and its memory is found as it is.
void FarRank::abandon() {
    if (done()) return;
    for (uint32_t i = 0; i < uses_.size() && stand_in_lives_; ++i) {
        const Use& u = uses_[i];
        const bool stuck = u.posted && !u.complete && world_.entered[u.operation->index] == u.operation->size;
        const bool unsaid = doing_ == Doing::kAsleep && steps_[next_step_].use == i && u.complete;
        if (stuck || unsaid)
            return world_.fail("liveness", "all have entered, and it is not over: " + describe());
    }
    stop_agent();
    held_.withdraw();
    ++stand_in_number_;
    RankActor::die();
}

FabricWorld::HostSight FarRank::sight() const {
    using Sight = FabricWorld::HostSight;
    if (held_.behind() == HostMemory::Behind::kNothing) return Sight::kZeros;
    const bool program_writes = process_lives_ && state_ == State::kGone;
    const bool reached = held_.behind() == HostMemory::Behind::kRank;
    if (held_.behind() == HostMemory::Behind::kCopy || !process_lives_) world_.coverage.outlived_ranks = 1;
    return program_writes && reached ? Sight::kGivenUp : Sight::kMemory;
}

bool FarRank::copied_all(uint32_t operation) const {
    const Use* const u = find(operation);
    return u != nullptr && u->hands_over;
}

bool FarRank::lost_copies(uint32_t operation) const {
    const Use* const u = find(operation);
    return u != nullptr && copies_lost_[static_cast<size_t>(u - uses_.data())];
}

}  // namespace longshore::sim
