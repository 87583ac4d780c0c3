// The process beside a rank of hydro: it computes the kernels that the rank hands over.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "mpmd.h"

int main(int argc, char** argv) {
    int given = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given);
    PeerOptions options;
    int status = 0;
    try {
        const Roles roles = split_roles(Role::kPeer);
        int me = 0;
        MPI_Comm_rank(roles.mine, &me);
        CLI::App app(
            "A peer of a rank of hydro: it computes the kernels that the rank hands over. Started beside "
            "it:\n\n"
            "  mpirun -np N hydro --offload mpmd ... : -np N hydro_peer\n");
        app.add_option("--slow", options.slow, "let kernels take so many times as long, as on a slower core")
            ->check(CLI::Range(1.0, 1000.0))
            ->capture_default_str();
        try {
            app.parse(argc, argv);
        } catch (const CLI::ParseError& error) {
            status = me == 0 ? app.exit(error) : int(error.get_exit_code());
            if (status != 0) status = 2;
            if (roles.ranks > 0) MPI_Abort(MPI_COMM_WORLD, status);  // ranks wait for their peers
            MPI_Finalize();
            return status;
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
    return status;
}
