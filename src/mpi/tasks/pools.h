// The pools of task processes that this rank has open (longshore_task.h), on top of tasks::Client.
#pragma once

#include "tasks/task_api.h"

namespace longshore::mpi {

// Null, with the reason in *why, where tasks have to run inline.
const longshore_task_functions* get_task_functions(uint32_t version, const char** why);

// At MPI_Finalize: pools that the program has not closed are, after at most `limit_s`.
void close_pools(uint32_t limit_s);

}  // namespace longshore::mpi
