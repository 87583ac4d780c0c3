// Under an MPI that goes on when ranks die (User-Level Failure Mitigation) one does: calls
// on its communicator fail on the others, none of them hangs, and they go on without it.
//      mpirun --with-ft ulfm ... dead_member
#include <mpi.h>
// Needs the other.
#include <mpi-ext.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#include "check.h"

namespace {

// Those that are left of `comm`, after one of its calls has failed.
MPI_Comm without_the_dead(MPI_Comm comm) {
    MPI_Comm left = MPI_COMM_NULL;
    MPIX_Comm_revoke(comm);
    CHECK(MPIX_Comm_shrink(comm, &left) == MPI_SUCCESS);
    MPI_Comm_set_errhandler(left, MPI_ERRORS_RETURN);
    return left;
}

int gather(MPI_Comm comm, int mine, std::vector<int>* all) {
    int size = 0;
    MPI_Comm_size(comm, &size);
    all->assign(static_cast<size_t>(size), -1);
    return MPI_Allgather(&mine, 1, MPI_INT, all->data(), 1, MPI_INT, comm);
}

// Open MPI 5 at times waits in MPI_Finalize for the dead one: without Longshore in 6 of 25 runs on a busy
// machine.
void leave(int) {
    _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    std::vector<int> all;
    CHECK(gather(comm, rank, &all) == MPI_SUCCESS);
    for (int r = 0; r < size; ++r) CHECK(all[static_cast<size_t>(r)] == r);

    // It dies once the others have all that it has given.
    if (rank == size - 1) {
        for (int r = 0; r < size - 1; ++r) MPI_Recv(nullptr, 0, MPI_INT, r, 0, comm, MPI_STATUS_IGNORE);
        raise(SIGKILL);
    }
    MPI_Send(nullptr, 0, MPI_INT, size - 1, 0, comm);
    std::vector<char> send(100'000 * static_cast<size_t>(size), 'x'), recv(send.size());
    MPI_Request request;
    int error = MPI_Ialltoall(send.data(), 100'000, MPI_BYTE, recv.data(), 100'000, MPI_BYTE, comm, &request);
    if (error == MPI_SUCCESS) error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(class_of(error) == MPIX_ERR_PROC_FAILED || class_of(error) == MPIX_ERR_REVOKED);
    MPI_Comm left = without_the_dead(comm);
    CHECK(gather(left, rank, &all) == MPI_SUCCESS);
    CHECK(all.size() == static_cast<size_t>(size) - 1);
    for (int r = 0; r < size - 1; ++r) CHECK(all[static_cast<size_t>(r)] == r);
    MPI_Comm_free(&left);
    MPI_Comm_free(&comm);
    if (rank == 0) printf("dead_member: ok\n");
    fflush(stdout);
    signal(SIGALRM, leave);
    alarm(5);
    MPI_Finalize();
}
