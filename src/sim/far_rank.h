// A rank that a DPU serves: its process on the host, which has the buffers and copies what it is handed (as
// host/far_operations.h does), its stand-in on the DPU, which posts and claims (as dpu/stand_in.cc does), and
// the connection between the two. Records and service processes are on the DPU; those write the host's
// memory.
#pragma once

#include <deque>

#include "engine/hand_over.h"
#include "sim/rank_actor.h"

namespace longshore::sim {

class FarRank final : public RankActor {
  public:
    FarRank(World& world, uint32_t index, std::byte* engine_block);
    void step() override;  // of the process
    void woken() override;
    void step_stand_in(uint64_t number) override;
    void arrive(uint64_t at) override;
    // The stand-in, or else the process, is killed.
    void end(bool stand_in) override;
    void die() override;
    void abandon() override;
    bool lost() const override { return !process_lives_ || !stand_in_lives_; }
    bool copied_all(uint32_t operation) const override;

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
    struct Way {  // from one to the other: in order
        std::deque<Message> flying, arrived;
        uint64_t last_ns = 0;
    };
    struct Open {
        uint32_t use = 0;
        Copies copies = Copies::kNever;
        Patience patience;
        bool posted = false;  // else it waits for room
        bool left = false;    // to service processes
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
    bool move_part(uint64_t begin, uint64_t end);
    Copies when_to_copy(const Use& use) const;

    // The stand-in (far_stand_in.cc).
    bool hear_rank();
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

    void say(bool to_rank, const Message& message);
    Way& way(bool to_rank) { return ways_[to_rank ? 1 : 0]; }

    Way ways_[2];
    bool process_lives_ = true, stand_in_lives_ = true;

    Doing doing_ = Doing::kProgram;
    HandedCopies handed_;
    HandedCopy copying_;
    std::vector<Said> said_;  // by use
    uint32_t attended_ = 0;
    bool copied_well_ = true;

    HandOver given_;
    std::vector<Open> operations_;  // in the order of their posts
    uint64_t stand_in_number_ = 0;  // changes whenever steps that are posted become void
    bool stand_in_asleep_ = false, falling_asleep_ = false;
};

}  // namespace longshore::sim
