// A rank: enters its operations in order, some of them late, waits for them in any order, works while it
// waits if it is cooperative, sleeps when there is nothing to do, and checks what it got.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine/giving_up.h"
#include "engine/rank_engine.h"
#include "simulator/world.h"

namespace longshore::sim {

class RankActor {
  public:
    RankActor(World& world, uint32_t index, std::byte* engine_block);
    virtual ~RankActor() = default;
    virtual void step();
    // Events posted before it last fell asleep or woke are void.
    bool expects(uint64_t number) const { return number == sleep_number_; }
    virtual void woken();
    // Whether a wake-up that is posted now is the only one under way.
    bool expect_wake() { return !std::exchange(wake_under_way_, true); }
    // All that it took is back, and nothing was written after completion.
    void judge_end();
    bool done() const { return state_ >= State::kDone; }
    std::string describe() const;
    RankEngine& engine() { return *engine_; }
    const Place& place() const { return place_; }
    void work_alone() { cooperative_ = true; }
    // Its node is gone, and it with it.
    virtual void die();
    // Of a rank that a DPU serves (far_rank.h): the next step of its stand-in, or of the host's agent for it;
    // a message has come to one of the three; one of them is gone; it is not waited for any longer, as others
    // are lost.
    enum class Part : uint8_t { kProcess, kStandIn, kAgent };
    virtual void step_stand_in(uint64_t) { LONGSHORE_CHECK(!"it has none"); }
    virtual void step_agent(uint64_t) { LONGSHORE_CHECK(!"it has none"); }
    virtual void arrive(uint64_t) { LONGSHORE_CHECK(!"it has no stand-in"); }
    virtual void end(Part) { LONGSHORE_CHECK(!"it has no stand-in"); }
    virtual void abandon() { LONGSHORE_CHECK(!"it has no stand-in"); }
    // What service processes find of its memory.
    virtual FabricWorld::HostSight sight() const { return FabricWorld::HostSight::kMemory; }
    // Whether it, or its stand-in, is gone, or it has withdrawn buffers.
    virtual bool lost() const { return has_withdrawn_; }
    // Of an operation: whether it was left all shared blocks, for itself or the host's agent to copy; whether
    // what it gave lay in its arena; how many bytes service processes have written into its receive buffer.
    virtual bool copied_all(uint32_t) const { return false; }
    // Whether some of its copies were lost with the host's agent.
    virtual bool lost_copies(uint32_t) const { return false; }
    bool gave_by_arena(uint32_t operation) const;
    uint64_t written(uint32_t operation) const;

  protected:
    enum class State : uint8_t { kRun, kLater, kLook, kMove, kFallAsleep, kAsleep, kReap, kDone, kGone };
    struct Use {  // of one operation
        const Operation* operation = nullptr;
        uint32_t rank = 0;  // in the group
        bool prepared = false, posted = false, complete = false, retired = false;
        bool stable = false;
        Buffer send, recv;
        uint64_t arena_at = 0, arena_bytes = 0;  // of stable send blocks
        RegionId send_region, recv_region;
        bool own_send_region = false, own_recv_region = false;
        MemoryRef send_ref, recv_ref;
        std::vector<BlockSpan> send_blocks, recv_blocks;  // until the engine has them; then drawn again
        RecordId record;
        uint64_t recv_key = 0, send_key = 0;  // what the buffers must hold at the end
        bool hands_over = false;              // its stand-in leaves shared blocks to the rank
        GivingUp giving_up;
        bool waits = false;     // started, and there is no room for it yet
        bool given_up = false;  // its record stays a while, and its memory is the program's again
    };
    struct Step {
        bool wait = false;
        uint32_t use = 0;
        uint64_t delay_ns = 0;
    };

    uint32_t descriptor_bytes() const;
    void renew_heap();
    void plan();
    const Use* find(uint32_t operation) const;
    void prepare(Use& u);
    bool add_regions(Use& u);
    PostResult post(Use& u, WakeSet* wake);
    void enter(Use& u);
    bool waits() const;
    bool waits_in(uint32_t group) const;
    void post_waiting();
    void look();
    void move();
    void complete(Use& u);
    void end(Use& u, OperationError error);
    bool spans_nodes(const Operation& op) const;
    bool may_give_up(Use& u);
    void withdraw(const Use& u);
    bool is_perhaps_read(const Use& u) const;
    void give_up(Use& u);
    void pass();
    void check(Use& u, OperationError error);
    void cover(const Operation& op, uint32_t source);
    bool may_fail(const Operation& op, OperationError error) const;
    bool landed(const Use& u, uint32_t source) const;
    void poison(const Buffer& b, uint64_t key);
    void retire(Use& u);
    void reap();
    void look_for_retired();
    void let_go_of_given_up(WakeSet* wake);
    void progress();
    bool claim_any();
    void watch_contention(const Use& u);
    void again(uint64_t mean_ns);
    void ring(const WakeSet& wake);
    MoveResult transfer(uint64_t begin, uint64_t end);
    bool find_ends();

    World& world_;
    uint32_t index_;
    Place place_;
    NodeMemory memory_;
    std::unique_ptr<RankEngine> engine_;
    bool cooperative_;
    bool has_withdrawn_ = false;
    uint64_t idle_since_ns_ = 0;  // waits, and has moved nothing
    bool waiting_ = false;        // service processes know that it moves its blocks itself
    State state_ = State::kRun, before_ = State::kRun;
    std::vector<Use> uses_;
    std::vector<Step> steps_;
    size_t next_step_ = 0;
    bool delayed_ = false;
    uint32_t seen_events_ = 0;
    uint32_t later_count_ = 0;
    uint64_t sleep_number_ = 0;
    uint32_t open_ = 0;
    bool wake_under_way_ = false;
    // A claimed chunk on its way, from where to where, and the use of the region that it is read from.
    Copy copy_;
    const std::byte* from_ = nullptr;
    std::byte* to_ = nullptr;
    RegionUse from_use_;
    uint8_t half_ = 0;
    MoveResult result_ = MoveResult::kMoved;
    RegionId heap_;
};

}  // namespace longshore::sim
