// The process beside a rank of hydro: it computes the kernels that the rank hands over.
#include <fmt/format.h>

#include "../abort_job.h"
#include "../threads.h"
#include "mpmd.h"
#include "options.h"

int main(int argc, char** argv) {
    abort_job_on_exceptions("hydro_peer");
    int given = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given);
    const Roles roles = split_roles(Role::kPeer);
    int me = 0;
    MPI_Comm_rank(roles.mine, &me);
    PeerOptions options;
    int status = parse_peer(argc, argv, me == 0, options.slow);
    if (status == -1 && roles.ranks == 0) {
        if (me == 0)
            fmt::print(stderr,
                       "hydro_peer: no ranks: mpirun -np N hydro --offload mpmd ... : -np N hydro_peer\n");
        status = 2;
    }
    status = agree_to_end(status);
    if (status == -1) {
        choose_threads();
        serve_rank(roles, options);
        status = 0;
    }
    MPI_Finalize();
    return status;
}
