// Persistent collectives. MPI has no request of ours that it could start again, so the one that the program
// holds is a persistent receive of nothing, from this rank itself, and the message is sent when the operation
// is complete. All that can be done with requests the MPI itself then does right. (A wait in code that we do
// not see ends where the MPI's progress polls us, as Open MPI's does and MPICH's from 4.3 on; an older MPICH
// polls us for generalized requests only.) The operation is planned once; with the host library it is from
// each start until its end.
//
// MPI matches persistent collectives by the order of their initialization calls; starts may come in any
// order, other on each rank, and between other collectives (MPI 4.0, 6.13). The host library matches the
// operations of a group by their order, so each request has a group to itself.
#pragma once

#include "mpi/requests/operation.h"

namespace longshore::mpi {

// Its group, collective over the communicator, as initialization is. Or, on all ranks alike, why the MPI
// serves the request; `operation` is gone then.
Reason give_lane(Operation* operation);

// Takes `operation`. The return value is MPI's, already through the communicator's error handler, here and
// below.
int make_persistent(Operation* operation, MPI_Request* request);

// Of requests of ours, started one after the other in the order of the program's calls.
int start_persistent(Operation* operation);
int free_persistent(Operation* operation, MPI_Request* request);

// When it is complete: lets the MPI know.
void signal_persistent(int tag);

// Whether the program holds any.
bool any_persistent();

}  // namespace longshore::mpi
