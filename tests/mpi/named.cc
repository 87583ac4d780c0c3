// Collectives on communicators with names and without, for test_stats.py: 4 ranks as 2 rows and 2 columns.
//      named [MORE]     MORE: so many communicators with names of their own beside these
#include <string>
#include <vector>

#include "check.h"

namespace {

constexpr int kBytes = 4096;
std::vector<char> from, to;

void alltoall(MPI_Comm comm, int times) {
    for (int i = 0; i < times; ++i)
        CHECK(MPI_Alltoall(from.data(), kBytes, MPI_CHAR, to.data(), kBytes, MPI_CHAR, comm) == MPI_SUCCESS);
}

}  // namespace

PROGRAM(named) {
    MPI_Init(&argc, &argv);
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    from.resize(static_cast<size_t>(kBytes) * static_cast<size_t>(size));
    to.resize(from.size());
    MPI_Comm row, column, other;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &row);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &column);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_set_name(row, "row");
    MPI_Comm_set_name(column, "a \"column\" of the grid, which has a long name");
    alltoall(MPI_COMM_WORLD, 1);
    alltoall(row, 2);
    alltoall(column, 3);
    alltoall(other, 4);
    MPI_Comm_set_name(other, "copy");
    alltoall(other, 5);
    MPI_Request request;
    MPI_Ibcast(to.data(), kBytes, MPI_CHAR, 0, row, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    const int more = argc > 1 ? atoi(argv[1]) : 0;
    for (int i = 0; i < more; ++i) {
        MPI_Comm_set_name(other, ("number " + std::to_string(i)).c_str());
        alltoall(other, 1);
    }
    for (MPI_Comm* comm : {&row, &column, &other}) MPI_Comm_free(comm);
    return finish("named");
}
