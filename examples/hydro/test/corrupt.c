// Preloaded before hydro: changes one number in one message about forces by very little, as a broken network
// would; or by HYDRO_CORRUPT_BY, which may be nan.
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>

enum { kForceTag = 2, kAtMessage = 10 };

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
    static int messages;
    const char* by = getenv("HYDRO_CORRUPT_BY");
    if (type == MPI_DOUBLE && tag == kForceTag && ++messages == kAtMessage)
        ((double*)(uintptr_t)data)[count / 2 | 1] += by ? strtod(by, NULL) : 1e-6;
    return PMPI_Isend(data, count, type, to, tag, comm, request);
}
