// A task as an MPI_Request: a generalized request that is completed when the task is over, by whatever looks
// at open operations (operation.h).
#pragma once

#include "tasks/client.h"

namespace longshore::mpi {

// `request`: an MPI_Request*. A longshore_request_maker.
int make_task_request(longshore_task** task, void* request);

// Completes the requests whose tasks are over. True: there were some.
bool progress_task_requests();

// Those of a pool whose tasks are all over: afterwards they need it no more.
void finish_task_requests(const tasks::Client& pool);

}  // namespace longshore::mpi
