// What the Wait and Test family tells the program of offloaded operations that failed. Both MPIs take the
// error of a generalized request to MPI_COMM_WORLD's error handler, and MPICH changes it on the way. So a
// failed operation's request is a good one to an MPI that is asked from an interposed call, which then has
// the last word: the operation's own communicator's handler, and the error where the program looks for it.
#pragma once

#include <mpi.h>

#include "mpi/requests/operation.h"

namespace longshore::mpi {

// From the request's query function. True: the call that this thread is in will tell the program, and finds
// the request again by its status. False: it is not one of ours, and the MPI must be told.
bool tell_later(const Operation& operation, MPI_Status* status);

}  // namespace longshore::mpi
