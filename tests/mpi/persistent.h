// The persistent collectives by the names that this MPI has for them: INIT(Alltoall) and so on.
#pragma once

#include <mpi.h>

#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define INIT(Name) MPIX_##Name##_init
#define NATIVE_INIT(Name) PMPIX_##Name##_init
#else
#define INIT(Name) MPI_##Name##_init
#define NATIVE_INIT(Name) PMPI_##Name##_init
#endif
