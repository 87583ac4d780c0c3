// A carrier's stream to the DPU of its host: the DPU's standing service takes it, as it takes ranks, and
// starts the task process at its other end.
#pragma once

#include <string>

#include "tasks/control.h"

namespace longshore::tasks {

// Waits for at most limit_ns. Empty: `error` says why, as what follows the DPU's name.
Fd connect_to_dpu(const FarNode& far, uint64_t limit_ns, std::string* error);

}  // namespace longshore::tasks
