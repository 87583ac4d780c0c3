// Waits that the shim does not see (PMPI_ is the MPI's own here, mpi/native/native.h, as where a library looks it up
// in the MPI itself): the MPI's own progress engine polls us.
#include <vector>

#include "check.h"

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    constexpr int kN = 5000;
    std::vector<int> mine(kN, rank), all(static_cast<size_t>(size * kN));
    for (int form = 0; form < 4; ++form) {
        MPI_Request requests[2];
        std::vector<int> more(all.size());
        MPI_Iallgather(mine.data(), kN, MPI_INT, all.data(), kN, MPI_INT, MPI_COMM_WORLD, &requests[0]);
        MPI_Iallgather(mine.data(), kN, MPI_INT, more.data(), kN, MPI_INT, MPI_COMM_WORLD, &requests[1]);
        if (form == 0) {
            PMPI_Wait(&requests[0], MPI_STATUS_IGNORE);
            PMPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        } else if (form == 1) {
            PMPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        } else if (form == 2) {
            for (int i = 0, index; i < 2; ++i) PMPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
        } else {
            for (int flag = 0; !flag;) PMPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
        }
        for (int r = 0; r < size; ++r)
            for (int i = 0; i < kN; i += 99)
                CHECK(all[static_cast<size_t>(r * kN + i)] == r &&
                      more[static_cast<size_t>(r * kN + i)] == r);
    }
    finish("unseen");
}
