// Calls that Longshore does not carry, timed for the statistics and the trace (statistics/other_calls.inc).
#pragma once

#include "mpi/core_api.h"

namespace longshore::mpi {

// In the place of the MPI's own functions, which the stub uses where an entry is null, and of the shim's.
// Where the environment of this process asks for neither statistics nor a trace, nothing is changed.
void fill_other_calls(const void* entries[LONGSHORE_ENTRY_COUNT]);

}  // namespace longshore::mpi
