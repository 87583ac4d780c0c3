// FarRank's stand-in: a rank like any to its node, which moves nothing itself.
#include <algorithm>

#include "simulator/far_rank.h"
#include "simulator/text.h"

namespace longshore::sim {
namespace {

constexpr uint64_t kRestNs = 20000000;  // where something may have been lost

}  // namespace

void FarRank::again_stand_in(uint64_t mean_ns) {
    world_.scheduler.post(world_.scheduler.around(mean_ns), EventKind::kStandIn, index_, stand_in_number_);
}

void FarRank::woken() {
    if (!stand_in_lives_ || !stand_in_asleep_) return;
    stand_in_asleep_ = false;
    ++stand_in_number_;
    memory_.rank(place_.local).sleeping.store(0);
    again_stand_in(world_.options.step_ns);
}

void FarRank::step_stand_in(uint64_t number) {
    if (!stand_in_lives_ || number != stand_in_number_) return;
    RankSlot& slot = memory_.rank(place_.local);
    if (stand_in_asleep_) return woken();  // by its timer
    if (falling_asleep_) {
        falling_asleep_ = false;
        if (slot.events.load() == seen_events_ && way(To::kStandIn).arrived.empty() &&
            way(To::kStandInOfAgent).arrived.empty())
            return fall_asleep();
        slot.sleeping.store(0);
    }
    seen_events_ = slot.events.load();
    bool moved = hear_agent() | hear_rank();
    if (!stand_in_lives_) return;
    moved |= post_all() | test_operations() | hand_over();
    const bool waits =
        std::any_of(operations_.begin(), operations_.end(), [](const Open& o) { return !o.posted; });
    later_count_ = moved || !waits ? 0 : std::min(later_count_ + 1, 100u);
    if (moved || waits) return again_stand_in(world_.options.step_ns + later_count_ * uint64_t{1000});
    slot.sleeping.store(1);
    falling_asleep_ = true;
    again_stand_in(world_.options.step_ns);
}

void FarRank::fall_asleep() {
    stand_in_asleep_ = true;
    ++stand_in_number_;
    uint64_t until = world_.options.lossless() ? UINT64_MAX : world_.scheduler.now_ns() + kRestNs;
    for (const Open& open : operations_)
        if (open.copies == Copies::kAttended && open.copier == Copier::kRank && !given_.attends())
            until = std::min(until, open.patience.until_ns(given_to_agent_.attends()) + 1);
    if (until == UINT64_MAX) return;
    const uint64_t now = world_.scheduler.now_ns();
    world_.scheduler.post(until > now ? until - now : 0, EventKind::kStandIn, index_, stand_in_number_);
}

bool FarRank::hear_rank() {
    bool heard = false;
    for (std::deque<Message>& in = way(To::kStandIn).arrived; !in.empty() && stand_in_lives_; heard = true) {
        const Message m = in.front();
        in.pop_front();
        switch (m.kind) {
            case Message::Kind::kPost:
                operations_.push_back({m.use, said_[m.use].copies, {}, false, Copier::kRank});
                operations_.back().patience.begin(world_.scheduler.now_ns());
                break;
            case Message::Kind::kAttend:
                given_.attend(m.yes);
                if (!m.yes) say(To::kRank, {Message::Kind::kLeft, 0, m.number, false, {}});
                break;
            case Message::Kind::kTested:
                for (Open& open : operations_)
                    if (open.use == m.use) open.patience.note_looks(world_.scheduler.now_ns());
                break;
            case Message::Kind::kCopied: {
                Copy copy;
                if (!given_.take_back(m.number, &copy)) {
                    world_.fail("session", name_of_rank(index_) + " answers to nothing");
                    break;
                }
                settle(copy, m.yes);
                break;
            }
            case Message::Kind::kClosed:
                lose_stand_in();
                break;
            default:
                world_.fail("session", name_of_rank(index_) + " says what no rank says");
        }
    }
    return heard;
}

bool FarRank::hear_agent() {
    bool heard = false;
    for (std::deque<Message>& in = way(To::kStandInOfAgent).arrived; !in.empty(); heard = true) {
        const Message m = in.front();
        in.pop_front();
        Copy copy;
        if (m.kind == Message::Kind::kAttend) {
            given_to_agent_.attend(true);
        } else if (m.kind == Message::Kind::kClosed) {
            lose_agent();
        } else if (m.kind == Message::Kind::kCopied && given_to_agent_.take_back(m.number, &copy)) {
            settle(copy, m.yes);
        } else {
            world_.fail("session", "the agent of " + name_of_rank(index_) + " answers to nothing");
        }
    }
    return heard;
}

void FarRank::settle(const Copy& copy, bool ok) {
    WakeSet wake;
    engine_->finish(copy, ok ? MoveResult::kMoved : MoveResult::kFailed, &wake);
    world_.last_handed_ns = world_.scheduler.now_ns();
    ring(wake);
}

// What it was to copy has failed, as it has where it is the agent by which service processes reach the host.
void FarRank::lose_agent() {
    for (Copy copy; given_to_agent_.lose(&copy);) {
        for (size_t i = 0; i < uses_.size(); ++i)
            if (uses_[i].posted && !uses_[i].complete && uses_[i].record == copy.record)
                copies_lost_[i] = true;
        world_.coverage.lost_agents = world_.copies_lost = true;
        settle(copy, false);
    }
}

// Those of a group one after the other.
bool FarRank::post_all() {
    bool moved = false;
    uint64_t full_groups = 0;
    for (Open& open : operations_) {
        const uint64_t group = uint64_t{1} << uses_[open.use].operation->group;
        if (open.posted || (full_groups & group) != 0) continue;
        WakeSet wake;
        if (RankActor::post(uses_[open.use], &wake) == PostResult::kLater) {
            world_.coverage.pool_full = 1;
            full_groups |= group;
            continue;
        }
        ring(wake);
        open.posted = moved = true;
    }
    return moved;
}

bool FarRank::test_operations() {
    WakeSet wake;
    engine_->reap(&wake);
    ring(wake);
    look_for_retired();
    const size_t before = operations_.size();
    std::erase_if(operations_, [&](const Open& open) {
        Use& u = uses_[open.use];
        if (!open.posted || engine_->poll(u.record) != Progress::kComplete) return false;
        complete(u);
        say(To::kRank, {Message::Kind::kFinished, open.use, 0, false, {}});
        return true;
    });
    return operations_.size() != before;
}

// --- copies that the rank makes

bool FarRank::hand_over() {
    bool gave = false;
    for (Open& open : operations_)
        if (open.posted && open.copies != Copies::kNever) gave |= hand_over(open);
    return gave;
}

bool FarRank::choose_copier(Open& open) {
    Use& u = uses_[open.use];
    const uint64_t now = world_.scheduler.now_ns();
    if (open.copier == Copier::kRank && !given_.attends() && engine_->is_all_there(u.record))
        open.patience.note_there(now);
    const Copier copier = open.patience.choose(given_.attends(), given_to_agent_.attends(), now);
    if (copier == open.copier) return false;
    const bool left = open.copier == Copier::kServices, leaves = copier == Copier::kServices;
    open.copier = copier;
    if (left == leaves) return true;
    (leaves ? world_.coverage.left_to_services : world_.coverage.taken_back) = 1;
    u.hands_over &= given_to_agent_.attends();  // else not all the time
    WakeSet wake;
    engine_->leave_to_services(u.record, leaves, &wake);
    ring(wake);
    return true;
}

bool FarRank::hand_over(Open& open) {
    const bool in_call = open.copies == Copies::kInCall;
    bool gave = !in_call && choose_copier(open);
    const bool to_agent = open.copier == Copier::kAgent;
    HandOver& end = to_agent ? given_to_agent_ : given_;
    Copy copy;
    for (HandedCopy handed; end.may_give(in_call) && claim(open, &copy, &handed); gave = true) {
        handed.number = end.give(copy);
        if (world_.options.is_wrapped(handed.number, UINT32_MAX)) world_.coverage.wrapped_copies = 1;
        if (to_agent) handed.to += uses_[open.use].recv.at;
        say(to_agent ? To::kAgent : To::kRank, {Message::Kind::kCopy, open.use, 0, false, handed});
    }
    return gave;
}

bool FarRank::claim(const Open& open, Copy* copy, HandedCopy* handed) {
    const Use& u = uses_[open.use];
    while (engine_->claim_for_rank(u.record, copy)) {
        handed->operation = open.use;
        if (copy->doomed == 0 && place_in_rank(u, *copy, handed)) return true;
        WakeSet wake;
        engine_->finish(*copy, MoveResult::kFailed, &wake);
        ring(wake);
    }
    return false;
}

// In terms of the rank; false: of what it cannot read.
bool FarRank::place_in_rank(const Use& u, const Copy& copy, HandedCopy* out) {
    if (copy.from.region == kArenaRegion) {
        world_.fail("session", name_of_rank(index_) + " is handed a copy out of a stand-in's memory");
        return false;
    }
    const Region& from = world_.memory.region(place_.node, copy.from.rank, copy.from.region);
    const Region& to = world_.memory.region(place_.node, copy.to.rank, copy.to.region);
    if (from.generation % 2 == 0 || from.unreadable || to.unreadable) return false;
    out->giver = world_.rank_at(place_.node, copy.from.rank);
    out->from = from.at + copy.from.offset;
    out->to = to.at + copy.to.offset - u.recv.at;
    out->bytes = copy.bytes;
    return true;
}

// Its rank, or itself, is gone: the connection ends, and the supervisor of its node sees it leave.
void FarRank::lose_stand_in() {
    if (!stand_in_lives_) return;
    if (world_.verbose()) world_.log(name_of_rank(index_) + " loses its stand-in");
    world_.coverage.lost_stand_ins = 1;
    stand_in_lives_ = false;
    ++stand_in_number_;
    memory_.rank(place_.local).sleeping.store(0);
    if (process_lives_) say(To::kRank, {Message::Kind::kClosed, 0, 0, false, {}});
    world_.notice_loss(index_);
}

}  // namespace longshore::sim
