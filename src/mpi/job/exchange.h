// The nonblocking allgather that host/ asks its client for, over a communicator. What host/ calls only notes
// what is to be done: the MPI is called by drive(), without the lock, which the MPI's callbacks take too.
#pragma once

#include "mpi/shim.h"

namespace longshore::mpi {

struct CommExchange {
    MPI_Comm comm;  // first: tests/mpi/fake_host.cc finds the communicator by it
    ls_exchange api{};

    explicit CommExchange(MPI_Comm over);
    CommExchange(const CommExchange&) = delete;
    CommExchange& operator=(const CommExchange&) = delete;

    // Between two steps of host/.
    void drive();

  private:
    static int start(void* user, const void* in, void* out, size_t bytes);
    static int test(void* user);

    MPI_Request request_ = MPI_REQUEST_NULL;
    const void* in_ = nullptr;
    void* out_ = nullptr;
    int bytes_ = 0, state_ = LS_OK;
};

}  // namespace longshore::mpi
