// A job that starts another one: what runs between them and what runs in the new one is the MPI's, and right.
//      spawn [count]
#include <dlfcn.h>

#include <vector>

#include "check.h"
#include "longshore.h"

namespace {

void check_allgather(MPI_Comm comm, int members, int first) {
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    std::vector<int> all(static_cast<size_t>(members), -1), more = all;
    const int mine = first + rank;
    MPI_Request request;
    MPI_Iallgather(&mine, 1, MPI_INT, more.data(), 1, MPI_INT, comm, &request);
    MPI_Allgather(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    int inter = 0;
    MPI_Comm_test_inter(comm, &inter);
    // Of an intercommunicator one hears the others, who count from somewhere else.
    const int base = inter ? (first == 0 ? 1000 : 0) : first;
    for (int r = 0; r < members; ++r)
        CHECK(all[static_cast<size_t>(r)] == base + r && more[static_cast<size_t>(r)] == base + r);
}

void between(MPI_Comm others, bool child) {
    int remote = 0, world = 0;
    MPI_Comm_remote_size(others, &remote);
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    check_allgather(others, remote, child ? 1000 : 0);
    MPI_Comm together, twice;
    MPI_Intercomm_merge(others, child, &together);
    check_allgather(together, world + remote, 0);
    MPI_Comm_dup(together, &twice);
    check_allgather(twice, world + remote, 0);
    MPI_Comm_free(&twice);
    MPI_Comm_free(&together);
    MPI_Comm_disconnect(&others);
}

// Whether anything of this process's job is offloaded; under Longshore only.
void check_offload(bool expected) {
    const auto get =
        reinterpret_cast<decltype(&longshore_get_counters)>(dlsym(RTLD_DEFAULT, "longshore_get_counters"));
    if (!get) return;
    longshore_counters counters;
    const bool on = get(&counters) == 0;
    CHECK(on == expected && (counters.offloaded > 0) == expected);
}

}  // namespace

PROGRAM(spawn) {
    MPI_Init(&argc, &argv);
    MPI_Comm parent, children;
    MPI_Comm_get_parent(&parent);
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check_allgather(MPI_COMM_WORLD, size, 0);
    if (parent == MPI_COMM_NULL) {
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, argc > 1 ? atoi(argv[1]) : 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                       &children, MPI_ERRCODES_IGNORE);
        between(children, false);
    } else {
        between(parent, true);
    }
    check_allgather(MPI_COMM_WORLD, size, 0);
    check_offload(parent == MPI_COMM_NULL && size > 1);
    return finish(parent == MPI_COMM_NULL ? "spawn" : "spawned");
}
