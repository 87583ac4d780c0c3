// Kernels as tasks of Longshore (longshore_task.h), in task processes beside the ranks; without Longshore
// they run inline.
#pragma once

#include <memory>

#include "side.h"

// `slow`: kernels take so many times as long, as on a slower core. `keeps`: constant buffers are given once,
// for processes that cannot map them. `threads`: of a kernel, as of the
// rank. Throws where there is no plug-in.
std::unique_ptr<Side> make_tasks_side(double slow, bool keeps, int threads);
