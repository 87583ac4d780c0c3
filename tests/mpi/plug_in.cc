// A part of a program that uses MPI, loaded at run time: only it is linked to an MPI.
#include <vector>

#include "check.h"

extern "C" __attribute__((visibility("default"))) int use_mpi() {
    MPI_Init(nullptr, nullptr);
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 0; round < 20; ++round) {
        const int mine = rank * 100 + round;
        std::vector<int> all(static_cast<size_t>(size), -1);
        MPI_Request request;
        MPI_Iallgather(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int r = 0; r < size; ++r) CHECK(all[static_cast<size_t>(r)] == r * 100 + round);
    }
    MPI_Finalize();
    if (rank == 0) puts("plug_in: ok");
    return 0;
}
