// More nonblocking calls open on a communicator than anybody who serves a rank has room for: rank 0 starts
// them while the others enter a call on another communicator first, for which it must not make them wait.
//      many_open [calls]
#include <vector>

#include "check.h"

PROGRAM(many_open) {
    MPI_Init(&argc, &argv);
    const int calls = argc > 1 ? atoi(argv[1]) : 2000;
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm first, second;
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    const auto count = static_cast<size_t>(calls), all = static_cast<size_t>(size);
    std::vector<int> mine(count), got(count * all, -1), others(all, -1);
    std::vector<MPI_Request> requests(count, MPI_REQUEST_NULL);
    const auto start_all = [&] {
        for (size_t i = 0; i < count; ++i) {
            mine[i] = rank * calls + static_cast<int>(i);
            MPI_Iallgather(&mine[i], 1, MPI_INT, &got[i * all], 1, MPI_INT, first, &requests[i]);
        }
    };
    if (rank == 0) start_all();
    MPI_Allgather(&rank, 1, MPI_INT, others.data(), 1, MPI_INT, second);
    for (size_t r = 0; r < all; ++r) CHECK(others[r] == static_cast<int>(r));
    if (rank != 0) start_all();
    for (MPI_Request& request : requests) MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (size_t i = 0; i < got.size(); ++i)
        CHECK(got[i] == static_cast<int>(i % all) * calls + static_cast<int>(i / all));
    MPI_Comm_free(&first);
    MPI_Comm_free(&second);
    return finish("many_open");
}
