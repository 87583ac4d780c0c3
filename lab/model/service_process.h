// A service process, on a DPU or on a core of its host: its engine, and the turns that
// service/service_loop.cc makes of events and actions, each with the time that the machine file gives it. One
// action of the engine is one event of the simulation, as next() changes the node's memory at once.
#pragma once

#include <deque>

#include "engine/service_engine.h"
#include "model/offload.h"
#include "service/frame_queue.h"
#include "service/pace.h"
#include "service/reads_under_way.h"

namespace longshore::timed {

class ServiceProcess final : public Actor, public Arrivals {
  public:
    ServiceProcess(Offload& world, uint32_t node, ServiceId id, const ServiceLimits& limits);

    // Arrivals carry one of these with a number. kTaken: of a service process of another node, which has
    // looked at so many frames of this one; frames say it, too.
    static constexpr uint64_t kFrame = uint64_t{1} << 40, kMove = uint64_t{2} << 40,
                              kCopy = uint64_t{3} << 40, kRead = uint64_t{4} << 40,
                              kTaken = uint64_t{5} << 40, kOwnCopy = uint64_t{6} << 40,
                              kOwnMove = uint64_t{7} << 40;
    static constexpr uint64_t with_taken(uint8_t taken, uint64_t number) {
        return uint64_t{taken} << 32 | number;
    }
    void on_arrival(uint64_t tag) override;
    void on_event(uint64_t what) override;
    // Its doorbell rang while it slept or looked in vain.
    void ring();

    const ServiceCounters& counters() const { return engine_->counters(); }
    struct Work {
        Time busy = 0;
        uint64_t messages = 0, refused = 0, reads = 0, copies = 0;
    };
    const Work& work() const { return work_; }
    bool idle() const { return engine_->idle(); }
    // Whether it has been told of blocks of this operation, and whether a rank of the node had entered then.
    bool told_of(uint64_t sequence) const { return told_ == sequence; }
    bool was_covered() const { return covered_; }
    void begin_counting() {
        work_ = {};
        counted_from_ = engine_->counters();
    }
    // Of the engine, since counting began.
    LateCounters late() const;

  private:
    enum class Phase : uint8_t { kResting, kBeginTurn, kTakeEvents, kAct, kCopying };
    static constexpr uint64_t kStep = 0, kAlarm = 1;
    uint64_t now_ns() const { return world_.queue().now() / kNanosecond; }
    void step_after(Phase next, Time mean);
    void note_work(Time time);
    // How long it looks in vain before it sleeps: who has no core of its own, not at all.
    Time spin() const { return shares_cores_ ? 0 : world_.machine().service_spin; }
    void step();
    bool take_event();
    void begin_actions();
    void act();
    void end_turn();
    void rest();
    void get_up();
    void set_alarm(Time at);
    void alarm();
    bool copies_itself(const Action& action) const;
    void copy_itself(const Action& action);
    void end_own_copy(uint64_t tag);
    Time carry_out(const Action& action);
    Time send(ServiceAddress to, std::span<const std::byte> frame);
    Post post(ServiceAddress to, std::span<const std::byte> frame, Time delay);
    bool send_refused();
    Time start_copy(const Action& action);
    Time start_read(const Action& action);
    Time start_move(const Action& action);
    Time take_frame(uint64_t tag);
    // As fabric/ucx counts its frames and ours, of which it keeps some under way at most; modulo 256.
    struct Line {
        uint8_t sent = 0, looked_at = 0, taken = 0, told = 0;
    };
    Line* line_of(ServiceAddress peer);
    Time note_taken(ServiceAddress peer, Line* line);

    Offload& world_;
    const uint32_t node_;
    const ServiceId id_;
    const bool shares_cores_;  // with ranks
    scale::Mapped block_;
    std::unique_ptr<ServiceEngine> engine_;
    ServiceSlot& slot_;
    Pace pace_;
    ReadsUnderWay reads_;
    WakeSet wake_;
    std::deque<uint64_t> inbox_;
    std::vector<Line> lines_;  // by node, then by number
    FrameQueue refused_;
    std::vector<Copy> copies_;
    std::vector<uint32_t> free_copies_;
    Phase phase_ = Phase::kResting;
    bool asleep_ = false;
    Time rests_since_ = 0;
    Time alarm_at_ = kNever;
    // Of this turn.
    int events_ = 0, actions_ = 0;
    uint64_t bytes_ = 0;
    bool worked_ = false;
    Copy own_copy_;  // that its core makes
    Time own_copy_began_ = 0;
    Work work_;
    uint64_t told_ = 0;  // the last operation
    bool covered_ = false;
    ServiceCounters counted_from_;
};

}  // namespace longshore::timed
