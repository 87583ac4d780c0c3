// A rank's stand-in: a process on the DPU that posts in the node's memory here what its rank on the host asks
// for, and tells it when that is complete. It is what host/host.h calls a rank: the exchanges it needs are
// made by the rank.
#pragma once

#include <string>

#include "dpu/session/session.h"
#include "dpu/session/stream.h"

namespace longshore {

struct StandInOptions {
    std::string service_path;  // of longshored
};

// Serves one rank until it goes. `hello` was checked by the caller; nothing was answered yet. `door`: by
// which connections of the agent of the rank's host come (dpu/card/gate.h). Returns the exit status.
int run_stand_in(SessionStream stream, const SessionHello& hello, Fd door, const StandInOptions& options);

}  // namespace longshore
