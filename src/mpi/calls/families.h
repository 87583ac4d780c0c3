// The entries of all forms of the collectives: one list of families, and the forms as templates over the
// types of MPI's own functions.
#pragma once

#include "mpi/core_api.h"

namespace longshore::mpi {

void fill_families(const void* entries[LONGSHORE_ENTRY_COUNT]);

}  // namespace longshore::mpi
