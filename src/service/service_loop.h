// The loop of a service process, apart from how it was started. One thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/read_window.h"
#include "engine/service_engine.h"
#include "fabric/shm/control.h"
#include "service/core_wait.h"
#include "service/frame_queue.h"

namespace longshore {

class ServiceLoop {
  public:
    ServiceLoop(const StartService& start, const NodeMemory& memory, std::byte* sight, Fabric& fabric,
                ServiceEngine& engine)
        : start_(start),
          memory_(memory),
          sight_(sight),
          fabric_(fabric),
          engine_(engine),
          slot_(memory.service(ServiceId{start.service})),
          posted_(start.parameters.service_limits.reads_max),
          window_({.bytes_max = uint64_t{start.parameters.service_limits.reads_max} *
                                start.parameters.node_limits.chunk_bytes}) {
        engine_.set_read_window(window_.bytes());
    }

    void set_place(const PlaceService& place) {
        spin_ns_ = place.may_spin ? start_.parameters.spin_us * 1000ull : 0;
        only_idle_ = place.only_idle != 0;
        crowded_ = place.crowded != 0;
        raised_ = false;
        engine_.yield_to_waiting_ranks(only_idle_);
    }
    // One turn: perhaps a sleep, events, then actions. Returns whether it slept and found nothing to do then.
    bool turn();
    // What went wrong since the last call, for the user.
    std::string take_problem();

  private:
    void handle(const FabricEvent& event);
    size_t poll(std::span<FabricEvent> events, uint64_t wait_ns, uint64_t* now);
    bool carry_out(const Action& action);
    bool send(const Action& action);
    bool send_refused();
    void publish(uint64_t now);
    void note_problem();
    void raise(bool raised, uint64_t now_ns);
    void trace(uint64_t begin, uint64_t kind, uint64_t value);
    void note_posted(uint32_t read, uint64_t bytes);
    void note_read(uint32_t read);
    void follow_core_wait(uint64_t now_ns);

    const StartService& start_;
    const NodeMemory memory_;
    std::byte* sight_;
    Fabric& fabric_;
    ServiceEngine& engine_;
    ServiceSlot& slot_;
    WakeSet wake_;
    // Copies and reads that are posted; the id is the index + 1, engine ids have the top bit.
    std::vector<Copy> copies_;
    std::vector<uint32_t> free_copies_;
    // Reads from other nodes, by the engine's id.
    struct Posted {
        uint64_t at_ns = 0, bytes = 0, behind = 0;  // behind: bytes that were in flight already
    };
    std::vector<Posted> posted_;
    uint64_t reading_bytes_ = 0;
    ReadWindow window_;
    CoreWait core_wait_;
    uint64_t core_waited_ns_ = 0;  // when that was last looked at
    FrameQueue refused_;           // frames a peer's ring had no room for
    Action action_;
    bool only_idle_ = false;  // in the idle scheduling class, but for chunks it has claimed
    bool crowded_ = false;    // there is always somebody who takes the core
    bool yielding_ = false;   // the last turn left what there was to ranks that wait
    bool raised_ = false;
    uint64_t raised_at_ns_ = 0;
    uint64_t yielded_wait_ns_ = 0;
    bool kept_ = false;    // action_ was refused and is tried first
    bool worked_ = false;  // in the last turn
    uint64_t spin_ns_ = 0, last_work_ns_ = 0, last_tick_ns_ = 0, last_publish_ns_ = 0, mark_ns_ = 0;
    bool unpublished_ = true;  // something was done since counters were published
    uint64_t polled_ns_ = 0;   // by this turn's look at the fabric, unless it slept in it
    uint64_t busy_ns_ = 0, copy_ns_ = 0, network_ns_ = 0, idle_ns_ = 0, sleeps_ = 0;
    std::string problem_;
};

}  // namespace longshore
