// The nonblocking allgather that host/ asks its client for, over a communicator.
#pragma once

#include "mpi/shim.h"

namespace longshore::mpi {

struct CommExchange {
    MPI_Comm comm;  // first: tests/mpi/fake_host.cc finds the communicator by it
    MPI_Request request = MPI_REQUEST_NULL;
    ls_exchange api{};

    explicit CommExchange(MPI_Comm over);
    CommExchange(const CommExchange&) = delete;
    CommExchange& operator=(const CommExchange&) = delete;
};

}  // namespace longshore::mpi
