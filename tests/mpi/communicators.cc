// Every way of making a communicator: an allgather on each, and on children of children; intercommunicators
// and MPI_Comm_idup go to MPI; pending calls outlive MPI_Comm_free.
#include <algorithm>
#include <vector>

#include "check.h"
#include "persistent.h"

namespace {

int world_rank, world_size;

void use(MPI_Comm comm) {
    if (comm == MPI_COMM_NULL) return;
    int rank = 0, size = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    std::vector<int> blocking(static_cast<size_t>(size), -1), nonblocking = blocking;
    MPI_Request request;
    int mine = rank + 100;
    MPI_Iallgather(&mine, 1, MPI_INT, nonblocking.data(), 1, MPI_INT, comm, &request);
    MPI_Allgather(&mine, 1, MPI_INT, blocking.data(), 1, MPI_INT, comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < size; ++i)
        CHECK(blocking[static_cast<size_t>(i)] == i + 100 && nonblocking[static_cast<size_t>(i)] == i + 100);
}

void use_and_free(MPI_Comm comm) {
    use(comm);
    if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
}

// Made in ways that the shim does not see: MPI serves these, their children and their persistent requests.
void unseen() {
    MPI_Comm comm, child;
    MPI_Request request;
    MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
    int mine = -1;
    std::vector<int> got(static_cast<size_t>(world_size));
    use(MPI_COMM_WORLD);  // while it is made
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_dup(comm, &child);
    use_and_free(child);
    if (world_size > 1) {
        CHECK(INIT(Allgather)(&mine, 1, MPI_INT, got.data(), 1, MPI_INT, comm, MPI_INFO_NULL, &request) ==
              MPI_SUCCESS);
        // Once: MPICH 4.0.2's own is wrong the second time.
        mine = world_rank;
        CHECK(MPI_Start(&request) == MPI_SUCCESS && MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        for (int i = 0; i < world_size; ++i) CHECK(got[static_cast<size_t>(i)] == i);
        CHECK(MPI_Request_free(&request) == MPI_SUCCESS);
    }
    use_and_free(comm);
#if MPI_VERSION >= 4
    MPI_Comm_idup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    use_and_free(comm);
    MPI_Session session;
    MPI_Group group;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "longshore", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    use_and_free(comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
#endif
}

void topologies() {
    MPI_Comm cart, row, comm;
    int dims[2] = {0, 0}, periods[2] = {1, 0}, remain[2] = {0, 1};
    MPI_Dims_create(world_size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &cart);
    MPI_Cart_sub(cart, remain, &row);
    use_and_free(row);
    use_and_free(cart);
    // Everyone's neighbour is the next one.
    std::vector<int> index, edges;
    for (int r = 0; r < world_size; ++r) {
        index.push_back(r + 1);
        edges.push_back((r + 1) % world_size);
    }
    MPI_Graph_create(MPI_COMM_WORLD, world_size, index.data(), edges.data(), 0, &comm);
    use_and_free(comm);
    int left = (world_rank + world_size - 1) % world_size, right = (world_rank + 1) % world_size, one = 1;
    MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &world_rank, &one, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                          &comm);
    use_and_free(comm);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &comm);
    use_and_free(comm);
}

void groups() {
    MPI_Group world, some;
    MPI_Comm comm;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    std::vector<int> members;
    for (int r = world_size - 1; r >= 0; r -= 2) members.push_back(r);
    MPI_Group_incl(world, static_cast<int>(members.size()), members.data(), &some);
    MPI_Comm_create(MPI_COMM_WORLD, some, &comm);
    use_and_free(comm);
    int mine = MPI_UNDEFINED;
    MPI_Group_rank(some, &mine);
    if (mine != MPI_UNDEFINED) {
        MPI_Comm_create_group(MPI_COMM_WORLD, some, 3, &comm);
        use_and_free(comm);
    }
    MPI_Group_free(&world);
    MPI_Group_free(&some);
}

void intercommunicator() {
    if (world_size < 2) return;
    MPI_Comm half, inter, merged;
    const int color = world_rank % 2;
    MPI_Comm_split(MPI_COMM_WORLD, color, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - color, 9, &inter);
    int others = 0;
    MPI_Comm_remote_size(inter, &others);
    std::vector<int> got(static_cast<size_t>(others), -1);
    MPI_Allgather(&world_rank, 1, MPI_INT, got.data(), 1, MPI_INT, inter);
    for (int i = 0; i < others; ++i) CHECK(got[static_cast<size_t>(i)] == 2 * i + 1 - color);
    // The first rank of the one group is the root, the others give it something, or get it.
    const int root = color == 1 ? 0 : world_rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    std::fill(got.begin(), got.end(), -1);
    MPI_Gather(&world_rank, 1, MPI_INT, got.data(), 1, MPI_INT, root, inter);
    for (int i = 0; i < others && world_rank == 0; ++i) CHECK(got[static_cast<size_t>(i)] == 2 * i + 1);
    int back = -1;
    MPI_Request request;
    MPI_Iscatter(got.data(), 1, MPI_INT, &back, 1, MPI_INT, root, inter, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (color == 1) CHECK(back == world_rank);
    MPI_Intercomm_merge(inter, color, &merged);
    use_and_free(merged);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

}  // namespace

PROGRAM(communicators) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    MPI_Comm comm, child;
    MPI_Request request;
    use(MPI_COMM_WORLD);
    use(MPI_COMM_SELF);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_dup(comm, &child);
    use_and_free(comm);
    use_and_free(child);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &comm);
    use_and_free(comm);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank == 0 ? MPI_UNDEFINED : 1, -world_rank, &comm);
    use_and_free(comm);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm);
    use_and_free(comm);
    unseen();
    groups();
    topologies();
    intercommunicator();

    // The call outlives the handle; groups made after it are not mixed up with it.
    std::vector<int> got(static_cast<size_t>(world_size), -1);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Iallgather(&world_rank, 1, MPI_INT, got.data(), 1, MPI_INT, comm, &request);
    MPI_Comm_free(&comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    use(comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < world_size; ++i) CHECK(got[static_cast<size_t>(i)] == i);
    // Not freed: MPI_Finalize has to cope.
    return finish("communicators");
}
