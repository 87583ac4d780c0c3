// Whether every rank of the job runs under the shim, and under the same build of it: each says so in the
// launcher's key space, rank 0 looks and tells the others.
#pragma once

#include "mpi/job/agreement.h"

namespace longshore::mpi {

// Before PMPI_Init. False: it cannot be said.
bool put_presence(KeySpace& space);
// After it: whether all can see what this rank has said.
bool is_presence_published(KeySpace& space);
// Then. Collective over the ranks with the shim; the same on all of them.
bool all_are_present(KeySpace& space);

}  // namespace longshore::mpi
