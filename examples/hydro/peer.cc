// The process beside a rank of hydro: it computes the kernels that the rank hands over.
#include <fmt/format.h>

#include "mpmd.h"
#include "options.h"

int main(int argc, char** argv) {
    int given = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given);
    PeerOptions options;
    try {
        const Roles roles = split_roles(Role::kPeer);
        int me = 0;
        MPI_Comm_rank(roles.mine, &me);
        if (const int end = parse_peer(argc, argv, me == 0, options.slow); end != -1) {
            if (roles.ranks > 0) MPI_Abort(MPI_COMM_WORLD, end);  // ranks wait for their peers
            MPI_Finalize();
            return end;
        }
        if (roles.ranks == 0) {
            if (me == 0)
                fmt::print(
                    stderr,
                    "hydro_peer: no ranks: mpirun -np N hydro --offload mpmd ... : -np N hydro_peer\n");
            MPI_Finalize();
            return 2;
        }
        if (roles.ranks != roles.peers)
            MPI_Barrier(MPI_COMM_WORLD);  // ranks say what is wrong, and end the job
        serve_rank(roles, options);
    } catch (const std::exception& error) {
        fmt::print(stderr, "hydro_peer: {}\n", error.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
