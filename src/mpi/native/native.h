// The MPI's own functions, past the preloaded stub: native_trampolines.S defines PMPI_X for this library or
// program alone.
#pragma once

#include "mpi/core_api.h"

namespace longshore::mpi {

// Before the first PMPI_ call. In the order of entry_points.inc; null for what this MPI does not have.
void set_natives(const void* const* natives);

// Whether this MPI has the function LONGSHORE_INDEX_MPI_X; calling one that it does not have is
// MPI_ERR_OTHER.
bool native_has(int index);

}  // namespace longshore::mpi
