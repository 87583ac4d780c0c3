// Communicators that come and go, with calls on each, until the file "stop" is there, for tests that meddle
// with the job meanwhile.      regroup FOLDER
// "progress" has every rank's rounds (uint64_t each), of two calls each.
#include <fcntl.h>

#include <string>
#include <vector>

#include "check.h"

PROGRAM(regroup) {
    MPI_Init(&argc, &argv);
    CHECK(argc == 2);
    const std::string folder = argv[1];
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int progress = open((folder + "/progress").c_str(), O_CREAT | O_WRONLY, 0600);
    CHECK(progress >= 0);
    int goes_on = 1;
    for (uint64_t round = 1; goes_on; ++round) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        const auto all = static_cast<size_t>(size);
        std::vector<uint64_t> mine(all, round + static_cast<uint64_t>(rank)), gathered(all), exchanged(all);
        MPI_Request request;
        MPI_Iallgather(mine.data(), 1, MPI_UINT64_T, gathered.data(), 1, MPI_UINT64_T, comm, &request);
        MPI_Alltoall(mine.data(), 1, MPI_UINT64_T, exchanged.data(), 1, MPI_UINT64_T, comm);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (size_t r = 0; r < all; ++r) CHECK(gathered[r] == round + r && exchanged[r] == round + r);
        MPI_Comm_free(&comm);
        CHECK(pwrite(progress, &round, sizeof round, static_cast<off_t>(sizeof round) * rank) ==
              sizeof round);
        const int stops = access((folder + "/stop").c_str(), F_OK) == 0;
        int all_stop = 0;
        MPI_Allreduce(&stops, &all_stop, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        goes_on = !all_stop;
    }
    close(progress);
    return finish("regroup");
}
