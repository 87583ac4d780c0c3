// FarRank's part of its host's agent: copies from rank to rank while the rank computes, one at a time.
#include "simulator/far_rank.h"
#include "simulator/text.h"

namespace longshore::sim {

// On hosts where a core has nothing else to do.
void FarRank::greet_stand_in() {
    const uint64_t host = mix64(world_.options.seed ^ 0xa9e27ull ^ place_.node.value * 131);
    agent_lives_ = may_copy() && host % 1000 < world_.options.agents;
    if (agent_lives_) say(To::kStandInOfAgent, {Message::Kind::kAttend, 0, 0, true, {}});
}

void FarRank::turn_agent() {
    if (!agent_lives_) return;
    for (std::deque<Message>& in = way(To::kAgent).arrived; !in.empty(); in.pop_front())
        if (in.front().kind != Message::Kind::kCopy || !agent_handed_.take(in.front().copy, true))
            world_.fail("session", "the agent of " + name_of_rank(index_) + " is told what it is not for");
    if (agent_copies_) return;
    agent_copying_ = {};
    if (!agent_handed_.next(&agent_copying_.copy)) return;
    agent_copies_ = true;
    world_.scheduler.post(world_.scheduler.around(world_.options.move_ns), EventKind::kAgent, index_,
                          agent_number_);
}

void FarRank::step_agent(uint64_t number) {
    if (!agent_lives_ || number != agent_number_) return;
    if (done())
        return world_.fail("access",
                           "the agent writes into memory that " + name_of_rank(index_) + " has given up");
    if (agent_steps_left_ != 0 && --agent_steps_left_ == 0) return stop_agent();
    if (copy_part(&agent_copying_, agent_copying_.copy.to)) {
        world_.scheduler.post(world_.scheduler.around(world_.options.move_ns / 4), EventKind::kAgent, index_,
                              agent_number_);
        return;
    }
    const bool ok = is_well(agent_copying_);
    if (ok) world_.coverage.agent_copies = 1;
    say(To::kStandInOfAgent, {Message::Kind::kCopied, 0, agent_copying_.copy.number, ok, {}});
    agent_copies_ = false;
    turn_agent();
}

// At once, or in the middle of what it does next.
void FarRank::doom_agent() {
    agent_steps_left_ = static_cast<uint32_t>(world_.scheduler.random.below(6));
    if (agent_steps_left_ == 0) stop_agent();
}

// It is gone, or its rank is, or wants it to write no more: it writes no more.
void FarRank::stop_agent() {
    if (!agent_lives_) return;
    agent_lives_ = agent_copies_ = false;
    ++agent_number_;
    agent_handed_.lose();
    say(To::kStandInOfAgent, {Message::Kind::kClosed, 0, 0, false, {}});
}

}  // namespace longshore::sim
