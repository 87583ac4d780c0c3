// Where processes are bound to, as the kernel tells.
#pragma once

#include <sys/types.h>

#include "base/locality.h"

namespace longshore {

Seat seat_of_cpu(int cpu);
// 0: the calling process. The core or package that its affinity mask lies in; what it spans is left open.
Seat seat_of_process(pid_t pid);

}  // namespace longshore
