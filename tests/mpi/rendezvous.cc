// A waiting rank drives the MPI's own progress: rank 1 sends 4 MiB to rank 0, which has posted the receive
// but sits in an offloaded collective that rank 1 enters only after its MPI_Send has returned. Also while a
// message that rank 0 receives only later is there already.
#include <vector>

#include "check.h"

PROGRAM(rendezvous) {
    MPI_Init(&argc, &argv);
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    constexpr int kBytes = 4 << 20;
    for (int i = 0; i < 6 && size > 1; ++i) {
        const int nonblocking = i % 3;
        const bool unexpected = i >= 3;
        std::vector<unsigned char> big(rank < 2 ? kBytes : 0);
        std::vector<int> all(static_cast<size_t>(size), -1);
        MPI_Request receive = MPI_REQUEST_NULL, request = MPI_REQUEST_NULL;
        int early = 0;
        if (rank == 1 && unexpected) MPI_Send(&rank, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        if (rank == 0) MPI_Irecv(big.data(), kBytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &receive);
        if (rank == 1) {
            fill(big.data(), kBytes, 1, 0, nonblocking);
            MPI_Send(big.data(), kBytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
        if (nonblocking == 0) {
            MPI_Allgather(&rank, 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD);
        } else {
            MPI_Iallgather(&rank, 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD, &request);
            if (nonblocking == 1) MPI_Wait(&request, MPI_STATUS_IGNORE);
            if (nonblocking == 2) MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
        }
        for (int r = 0; r < size; ++r) CHECK(all[static_cast<size_t>(r)] == r);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
        if (rank == 0 && unexpected) {
            MPI_Recv(&early, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(early == 1);
        }
        if (rank == 0) CHECK(is_filled(big.data(), kBytes, 1, 0, nonblocking));
    }
    return finish("rendezvous");
}
