// The board of this rank's machine, on which it notes what it does, and the keeper that reads the board when
// ranks end without MPI_Finalize (statistics/keeper.h).
#pragma once

#include "mpi/shim.h"

namespace longshore::mpi {

// Once shim().stats_path and trace_path are set, rank 0's in full, and trace_begin() has been; collective
// over shim().world. Without effect where neither is wanted, or where no keeper can be had.
void begin_keeping();
// What is known of the job after it has attached, or is left to the MPI.
void keep_job();
// This rank has no more to say: rank 0 has written the files.
void end_keeping();

}  // namespace longshore::mpi
