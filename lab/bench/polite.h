// Waiting that leaves the rank's core to others.
#pragma once

#include <mpi.h>

#include <algorithm>

#include "bench/clock.h"

namespace longshore::bench {

// Looks first after `first_us`, then seldom, since under a hypervisor each timer that ends a sleep takes
// about 20 us of the core: what has ended is seen a quarter of its time late at most, or 1 ms. `test`:
// MPI_Test or its like.
template <typename Test>
void finish_politely(Test test, MPI_Request& request, double first_us) {
    const double start = now_us();
    sleep_us(first_us);
    for (int done = 0; test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done;)
        sleep_us(std::clamp((now_us() - start) / 4, 20.0, 1000.0));
}

// Collective over `comm`, past the preloaded library.
inline void polite_barrier(MPI_Comm comm) {
    MPI_Request everybody = MPI_REQUEST_NULL;
    PMPI_Ibarrier(comm, &everybody);
    finish_politely(PMPI_Test, everybody, 0);
}

}  // namespace longshore::bench
