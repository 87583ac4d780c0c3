#include "mpi/exchange.h"

#include <climits>

namespace longshore::mpi {
namespace {

int start(void* user, const void* in, void* out, size_t bytes) {
    auto* exchange = static_cast<CommExchange*>(user);
    if (bytes > INT_MAX) return LS_ERR_LIMIT;
    int rc = PMPI_Iallgather(in, static_cast<int>(bytes), MPI_BYTE, out, static_cast<int>(bytes), MPI_BYTE,
                             exchange->comm, &exchange->request);
    return rc == MPI_SUCCESS ? LS_OK : LS_ERR_UNAVAILABLE;
}

int test(void* user) {
    auto* exchange = static_cast<CommExchange*>(user);
    int done = 0;
    if (PMPI_Test(&exchange->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return LS_ERR_UNAVAILABLE;
    return done ? LS_OK : LS_IN_PROGRESS;
}

}  // namespace

CommExchange::CommExchange(MPI_Comm over) : comm(over) {
    int rank = 0, size = 0;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &size);
    api.user = this;
    api.rank = static_cast<uint32_t>(rank);
    api.size = static_cast<uint32_t>(size);
    api.start = start;
    api.test = test;
}

}  // namespace longshore::mpi
