// The process that stands in for a task process of another node: to the ranks and the supervisor here it is
// one (task_process.h), but it sends each task with the bytes of its buffers over there, in order, and writes
// back what comes (frames.h). While a task is computed there the next ones are on their way.
#pragma once

#include "tasks/control.h"

namespace longshore::tasks {

// A stream to tasks on a DPU. Waits for at most limit_ns. Empty: `error` says why, as what follows the DPU's
// name.
using ConnectToDpu = Fd (*)(const FarNode& far, uint64_t limit_ns, std::string* error);

// Until the supervisor goes, or the stream to the other node ends. Returns the exit status. `to_dpu`: null
// where this program has no part for DPUs.
int run_carrier(ConnectToDpu to_dpu);

}  // namespace longshore::tasks
