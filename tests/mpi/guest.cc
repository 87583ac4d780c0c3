// The program's own children are the only ones it ever sees, and its signals stay its own.
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <vector>

#include "check.h"

namespace {

volatile sig_atomic_t children_ended = 0;

void on_child(int) {
    children_ended = children_ended + 1;
}

void check_no_child() {
    errno = 0;
    CHECK(waitpid(-1, nullptr, 0) == -1 && errno == ECHILD);
}

}  // namespace

PROGRAM(guest) {
    signal(SIGCHLD, on_child);
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check_no_child();
    CHECK(children_ended == 0);

    std::vector<int> all(static_cast<size_t>(size));
    for (int round = 0; round < 50; ++round) {
        int mine = rank * 100 + round;
        MPI_Allgather(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD);
        for (int i = 0; i < size; ++i) CHECK(all[static_cast<size_t>(i)] == i * 100 + round);
    }
    check_no_child();

    const pid_t child = fork();
    if (child == 0) _exit(7);
    int status = 0;
    CHECK(waitpid(-1, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    check_no_child();
    CHECK(children_ended == 1);
    return finish("guest");
}
