// Bad arguments give the MPI's own error class, with and without the shim, and leave the communicator usable.
// The expected classes are asked of the MPI itself (PMPI_, mpi/native/native.h), so the test says: the same as
// without Longshore.
#include <vector>

#include "check.h"

namespace {

int rank, size;

#define SAME(call)                                                                                  \
    do {                                                                                            \
        int ours_ = class_of(MPI_##call), native_ = class_of(PMPI_##call);                          \
        if (ours_ != native_)                                                                       \
            fprintf(stderr, "rank %d: %s: class %d, MPI itself %d\n", rank, #call, ours_, native_); \
        CHECK(ours_ == native_);                                                                    \
    } while (0)

int handler_calls = 0;
void on_error(MPI_Comm*, int*, ...) {
    ++handler_calls;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    const auto n = static_cast<size_t>(size);
    std::vector<int> send(n * 4, rank), recv(n * 4), counts(n, 1), bad(n, 1), places(n);
    for (size_t i = 0; i < n; ++i) places[i] = static_cast<int>(i);
    bad[n - 1] = -1;
    int *s = send.data(), *r = recv.data(), *c = counts.data(), *b = bad.data(), *p = places.data();
    MPI_Comm w = MPI_COMM_WORLD;
    MPI_Request q;

    SAME(Alltoall(s, -1, MPI_INT, r, 1, MPI_INT, w));
    SAME(Alltoall(s, 1, MPI_INT, r, -1, MPI_INT, w));
    SAME(Alltoall(s, 1, MPI_INT, r, 1, MPI_DATATYPE_NULL, w));
    SAME(Alltoall(s, 1, MPI_INT, r, 1, MPI_INT, MPI_COMM_NULL));  // Open MPI 4.1.4 crashes in the allgathers
    SAME(Ialltoall(s, -1, MPI_INT, r, 1, MPI_INT, w, &q));
    SAME(Alltoallv(s, b, p, MPI_INT, r, c, p, MPI_INT, w));
    SAME(Alltoallv(s, c, p, MPI_INT, r, b, p, MPI_INT, w));
    SAME(Ialltoallv(s, c, p, MPI_DATATYPE_NULL, r, c, p, MPI_INT, w, &q));
    std::vector<MPI_Datatype> ints(n, MPI_INT), some_null(n, MPI_INT), null(n, MPI_DATATYPE_NULL);
    some_null[n - 1] = MPI_DATATYPE_NULL;
    std::vector<int> none(n, 0);
    MPI_Datatype *t = ints.data(), *u = some_null.data(), *v = null.data();
    int* z = none.data();
    SAME(Alltoallw(s, b, p, t, r, c, p, t, w));
    SAME(Alltoallw(s, c, p, t, r, b, p, t, w));
    SAME(Alltoallw(s, c, p, u, r, c, p, u, w));
    SAME(Alltoallw(s, z, p, v, r, z, p, v, w));  // no elements of no type: MPICH takes it
    SAME(Ialltoallw(s, c, p, t, r, c, p, u, w, &q));
    SAME(Allgather(s, 1, MPI_INT, r, -1, MPI_INT, w));
    // Not a negative count in recvcounts: Open MPI 4.1.4 does not check it there, and crashes.
    SAME(Iallgatherv(s, -1, MPI_INT, r, c, p, MPI_INT, w, &q));
    SAME(Bcast(s, -1, MPI_INT, 0, w));
    SAME(Bcast(s, 1, MPI_INT, size, w));
    SAME(Bcast(s, 1, MPI_INT, -1, w));
    SAME(Ibcast(s, 1, MPI_DATATYPE_NULL, 0, w, &q));
    // Wrong on every rank, whoever is the root: what only the root says would leave the others waiting.
    for (int root : {-1, size}) {
        SAME(Gather(s, 1, MPI_INT, r, 1, MPI_INT, root, w));
        SAME(Igatherv(s, 1, MPI_INT, r, c, p, MPI_INT, root, w, &q));
        SAME(Scatter(s, 1, MPI_INT, r, 1, MPI_INT, root, w));
        SAME(Iscatterv(s, c, p, MPI_INT, r, 1, MPI_INT, root, w, &q));
    }
    for (int root : {0, size - 1}) {
        SAME(Gather(s, -1, MPI_INT, r, -1, MPI_INT, root, w));
        SAME(Igather(s, 1, MPI_DATATYPE_NULL, r, 1, MPI_INT, root, w, &q));
        SAME(Gatherv(s, -1, MPI_INT, r, c, p, MPI_INT, root, w));
        SAME(Igatherv(s, 1, MPI_DATATYPE_NULL, r, c, p, MPI_INT, root, w, &q));
        SAME(Scatter(s, -1, MPI_INT, r, -1, MPI_INT, root, w));
        SAME(Iscatter(s, 1, MPI_INT, r, 1, MPI_DATATYPE_NULL, root, w, &q));
        SAME(Scatterv(s, c, p, MPI_INT, r, -1, MPI_INT, root, w));
        SAME(Iscatterv(s, c, p, MPI_INT, r, 1, MPI_DATATYPE_NULL, root, w, &q));
    }

    // Through the communicator's own handler, once.
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_set_errhandler(w, handler);
    MPI_Alltoall(s, -1, MPI_INT, r, 1, MPI_INT, w);
    CHECK(handler_calls == 1);
    MPI_Comm_set_errhandler(w, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&handler);

    // A nonblocking collective's request can be neither cancelled nor freed.
    if (size > 1) {
        CHECK(MPI_Iallgather(&rank, 1, MPI_INT, r, 1, MPI_INT, w, &q) == MPI_SUCCESS);
        CHECK(class_of(MPI_Cancel(&q)) == MPI_ERR_REQUEST);
        CHECK(class_of(MPI_Request_free(&q)) == MPI_ERR_REQUEST);
        CHECK(MPI_Wait(&q, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    }
    CHECK(MPI_Allgather(&rank, 1, MPI_INT, r, 1, MPI_INT, w) == MPI_SUCCESS);
    for (int i = 0; i < size; ++i) CHECK(recv[static_cast<size_t>(i)] == i);
    finish("errors");
}
