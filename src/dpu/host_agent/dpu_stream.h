// A carrier's stream to the DPU of its host: the DPU's standing service takes it, as it takes ranks, and
// starts the task process at its other end.
#pragma once

#include <string>

#include "tasks/control.h"

namespace longshore::tasks {

// As ConnectToDpu of tasks/carrier.h.
Fd connect_to_dpu(const FarNode& far, uint64_t limit_ns, std::string* error);

}  // namespace longshore::tasks
