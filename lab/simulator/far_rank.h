// A rank that a DPU serves: its process on the host, which has the buffers and copies what it is handed (as
// dpu/rank/far_operations.h does), its stand-in on the DPU, which posts and claims (as dpu/card/stand_in.cc
// does), the agent of the host as it copies for this rank (as dpu/host_agent/agent_copier.h does), and the
// connections between the three. Records and service processes are on the DPU; those write the host's memory.
#pragma once

#include <deque>

#include "engine/hand_over.h"
#include "engine/host_memory.h"
#include "simulator/rank_actor.h"

namespace longshore::sim {

class FarRank final : public RankActor {
  public:
    FarRank(World& world, uint32_t index, std::byte* engine_block);
    void step() override;  // of the process
    void woken() override;
    void step_stand_in(uint64_t number) override;
    void arrive(uint64_t at) override;
    void step_agent(uint64_t number) override;
    void end(Part part) override;
    void die() override;
    void abandon() override;
    FabricWorld::HostSight sight() const override;
    bool lost() const override { return !process_lives_ || !stand_in_lives_; }
    bool copied_all(uint32_t operation) const override;
    bool lost_copies(uint32_t operation) const override;

  private:
    enum class Copies : uint8_t { kNever, kInCall, kAttended };
    enum class Doing : uint8_t { kProgram, kWait, kCopy, kAsleep };
    struct Message {
        enum class Kind : uint8_t { kPost, kAttend, kTested, kCopied, kFinished, kCopy, kLeft, kClosed };
        Kind kind = Kind::kPost;
        uint32_t use = 0, number = 0;
        bool yes = false;
        HandedCopy copy;
    };
    enum class To : uint8_t { kStandIn, kRank, kAgent, kStandInOfAgent };
    struct Way {  // from one to the other: in order
        std::deque<Message> flying, arrived;
        uint64_t last_ns = 0;
    };
    struct Open {
        uint32_t use = 0;
        Copies copies = Copies::kNever;
        Patience patience;
        bool posted = false;  // else it waits for room
        Copier copier = Copier::kRank;
    };
    struct Said {  // of each operation, to the process
        Copies copies = Copies::kNever;
        bool over = false;
    };

    // The process.
    void run();
    void wait();
    void copy();
    void hear();
    void enter_operation(uint32_t use);
    void finish(uint32_t use);
    void lose();
    bool may_copy() const;
    uint32_t last_copy() const { return static_cast<uint32_t>(world_.options.last_of(HandOver::kSerialMax)); }
    Copies when_to_copy(const Use& use) const;

    // A copy as its process, or the agent for it, makes it.
    struct Copying {
        HandedCopy copy;
        uint8_t half = 0;
        bool well = true;
    };
    bool copy_part(Copying* copying, uint64_t to);
    bool move_part(const HandedCopy& copy, uint64_t to, uint64_t begin, uint64_t end);
    bool is_well(const Copying& copying) const;

    // The agent (far_agent.cc).
    void greet_stand_in();
    void turn_agent();
    void doom_agent();
    void stop_agent();

    // The stand-in (far_stand_in.cc).
    bool hear_rank();
    bool hear_agent();
    void settle(const Copy& copy, bool ok);
    void lose_agent();
    bool post_all();
    bool test_operations();
    bool hand_over();
    bool choose_copier(Open& open);
    bool hand_over(Open& open);
    bool claim(const Open& open, Copy* copy, HandedCopy* handed);
    bool place_in_rank(const Use& use, const Copy& copy, HandedCopy* out);
    void fall_asleep();
    void again_stand_in(uint64_t mean_ns);
    void lose_stand_in();

    void say(To to, const Message& message);
    Way& way(To to) { return ways_[static_cast<size_t>(to)]; }

    Way ways_[4];
    bool process_lives_ = true, stand_in_lives_ = true;
    HostMemory held_;  // by the agent of its host

    Doing doing_ = Doing::kProgram;
    HandedCopies handed_;
    Copying copying_;
    std::vector<Said> said_;  // by use
    uint32_t attended_ = 0;

    bool agent_lives_ = false, agent_copies_ = false;  // copies_: one is under way
    HandedCopies agent_handed_;
    Copying agent_copying_;
    uint64_t agent_number_ = 0;      // changes whenever its step becomes void
    uint32_t agent_steps_left_ = 0;  // after which it is lost; 0: any number

    HandOver given_, given_to_agent_;
    std::vector<bool> copies_lost_;  // by use: the agent was lost with some
    std::vector<Open> operations_;   // in the order of their posts
    uint64_t stand_in_number_ = 0;   // changes whenever steps that are posted become void
    bool stand_in_asleep_ = false, falling_asleep_ = false;
};

}  // namespace longshore::sim
