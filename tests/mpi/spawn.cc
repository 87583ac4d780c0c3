// Processes that are spawned, and the communicators that they share with those who spawned them: the MPI
// serves these.
//      spawn    on any number of ranks; spawns two more of itself
#include <vector>

#include "check.h"

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm parent, inter, merged, copy;
    MPI_Comm_get_parent(&parent);
    const bool spawned = parent != MPI_COMM_NULL;
    constexpr int kSpawned = 2;
    if (spawned)
        inter = parent;
    else
        CHECK(MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, kSpawned, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
                             MPI_ERRCODES_IGNORE) == MPI_SUCCESS);
    int rank = 0, size = 0, others = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_remote_size(inter, &others);
    const int mine = spawned ? 100 + rank : rank;
    std::vector<int> got(static_cast<size_t>(size + others));
    const auto check = [&](MPI_Comm comm, int count, int first) {
        CHECK(MPI_Allgather(&mine, 1, MPI_INT, got.data(), 1, MPI_INT, comm) == MPI_SUCCESS);
        for (int i = 0; i < count; ++i) CHECK(got[static_cast<size_t>(i)] == first + i);
    };
    check(inter, others, spawned ? 0 : 100);
    check(MPI_COMM_WORLD, size, spawned ? 100 : 0);
    MPI_Intercomm_merge(inter, spawned, &merged);
    MPI_Comm_dup(merged, &copy);
    for (MPI_Comm comm : {merged, copy}) {
        check(comm, spawned ? others : size, 0);
        CHECK(got.back() == 100 + kSpawned - 1);
    }
    MPI_Comm_free(&merged);
    MPI_Comm_free(&copy);
    MPI_Comm_disconnect(&inter);
    if (spawned) return MPI_Finalize();
    finish("spawn");
}
