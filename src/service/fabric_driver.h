// Carries the engine's actions to the fabric, and what comes of them back to the engine: copies and reads
// under way, frames that a peer has no room for, what went wrong. Says nothing of when; that is the loop's.
#pragma once

#include <string>
#include <vector>

#include "engine/service_engine.h"
#include "fabric/shm/control.h"
#include "service/core_wait.h"
#include "service/frame_queue.h"
#include "service/reads_under_way.h"

namespace longshore {

class FabricDriver {
  public:
    FabricDriver(const StartService& start, const NodeMemory& memory, std::byte* sight, Fabric& fabric,
                 ServiceEngine& engine);

    void handle(const FabricEvent& event, WakeSet* wake);
    // False: there is no room for it now; it is to be tried again before any other.
    bool carry_out(const Action& action);
    bool has_refused() const { return !refused_.empty(); }
    // Frames that there was no room for; returns whether there was for one now.
    bool send_refused();
    // Tells the window of reads how long this process waits for its core, now and then.
    void follow_core_wait(uint64_t now_ns);
    // What went wrong since the last call, for the user.
    std::string take_problem();

  private:
    bool copy(const Action& action);
    bool send(const Action& action);
    void finish_read(uint32_t id);
    void note_problem();
    void trace(uint64_t begin_ns, uint64_t kind, uint64_t value);

    const StartService& start_;
    const NodeMemory memory_;
    std::byte* sight_;
    Fabric& fabric_;
    ServiceEngine& engine_;
    // Copies under way. The fabric knows one by its index with the top bit, which the engine's ids have not.
    std::vector<Copy> copies_;
    std::vector<uint32_t> free_copies_;
    ReadsUnderWay reads_;
    CoreWait core_wait_;
    FrameQueue refused_;
    std::string problem_;
};

}  // namespace longshore
