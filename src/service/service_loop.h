// The loop of a service process, apart from how it was started: turns of events and actions, with its rests.
// One thread. What a turn is made of has its own parts:
//   fabric_driver      actions to the fabric, events to the engine
//   pace               when to sleep and for how long, the engine's tick
//   core_share         that it does not poll on a core that somebody else needs
//   scheduling_class   that it does not keep a core from ranks, nor a claim from those that wait for it
//   time_book, counter_board   what it does with its time, and the counters that others see
#pragma once

#include <string>

#include "fabric/shm/core_share.h"
#include "service/counter_board.h"
#include "service/fabric_driver.h"
#include "service/pace.h"
#include "service/scheduling_class.h"

namespace longshore {

class ServiceLoop {
  public:
    ServiceLoop(const StartService& start, const NodeMemory& memory, std::byte* sight, Fabric& fabric,
                ServiceEngine& engine)
        : start_(start),
          fabric_(fabric),
          engine_(engine),
          slot_(memory.service(ServiceId{start.service})),
          driver_(start, memory, sight, fabric, engine),
          board_(slot_) {}

    void set_place(const PlaceService& place);
    // One turn: perhaps a sleep, events, then actions. Returns whether it slept and found nothing to do then.
    bool turn();
    // What went wrong since the last call, for the user.
    std::string take_problem() { return driver_.take_problem(); }

  private:
    bool take_events(uint64_t wait_ns, uint64_t* now);
    size_t poll(std::span<FabricEvent> events, uint64_t wait_ns, uint64_t* now);
    bool act(uint64_t now);
    void hold_core(uint64_t now);
    void say_that_a_turn_is_over();
    void publish(uint64_t now);

    const StartService& start_;
    Fabric& fabric_;
    ServiceEngine& engine_;
    ServiceSlot& slot_;
    FabricDriver driver_;
    Pace pace_;
    uint64_t spin_ns_ = 0;
    CoreShare core_;
    SchedulingClass class_;
    TimeBook times_;
    CounterBoard board_;
    WakeSet wake_;
    Action action_;
    bool kept_ = false;  // the fabric had no room for action_, which is tried first
};

}  // namespace longshore
