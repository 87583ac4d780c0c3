// Who carries a call: the algorithm that is forced, else what rank 0's table of rules says. Decided by what
// is equal on all ranks of the call only, so all decide alike.
#pragma once

#include "mpi/job/group.h"

namespace longshore::mpi {

// kNone and the algorithm, or why MPI serves the call. `bytes`: of alltoall, gather and scatter the block
// times the size of the communicator, of allgather(v) all blocks together, of bcast the message; of the
// others, which have no size that all ranks know, anything.
Reason select(GroupRecord& group, Call call, uint64_t bytes, ls_algorithm* algorithm);

// From now on: `name` is "bcast_algorithm" or alike, an empty value takes back what was forced so. False for
// an unknown one.
bool force_algorithm(std::string_view name, std::string_view value);

}  // namespace longshore::mpi
