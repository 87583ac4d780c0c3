// Which communicator a call counts for, by its name.
#pragma once

#include "mpi/shim.h"
#include "statistics/communicators.h"

namespace longshore::mpi {

// Where the calls on `comm` count in this rank's figures; kNone without statistics. Looks up its name when it
// is first asked for, and again after MPI_Comm_set_name.
CommIndex comm_index(MPI_Comm comm);
// The program has given it another name.
void forget_comm_name(MPI_Comm comm);

}  // namespace longshore::mpi
