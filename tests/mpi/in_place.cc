// alltoall and alltoallv in place, where the outgoing blocks are copied first: into memory that the node
// shares while there is room, else outside, where peers must read this process. "forbidden": the ranks may
// not read each other; every call gives the right data or an error, and nobody waits for ever.      in_place
// [forbidden]
#include <cstring>
#include <vector>

#include "check.h"
#include "forbid_peer_copy.h"

namespace {

constexpr int kOutside = 40 << 20;  // alltoallv: takes all that the shared memory has; alltoall: more

int rank, size;

int one(bool v, bool blocking, int bytes, MPI_Comm comm) {
    static int tag = 0;
    ++tag;
    const auto n = static_cast<size_t>(size), b = static_cast<size_t>(bytes);
    std::vector<unsigned char> data(n * b);
    std::vector<int> counts(n, bytes), places(n);
    for (size_t r = 0; r < n; ++r) {
        places[r] = static_cast<int>(r) * bytes;
        fill(data.data() + r * b, b, rank, static_cast<int>(r), tag);
    }
    MPI_Request request = MPI_REQUEST_NULL;
    int error = MPI_SUCCESS;
    const int *c = counts.data(), *p = places.data();
    void* to = data.data();
    if (v)
        error = blocking ? MPI_Alltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_BYTE, to, c, p, MPI_BYTE, comm)
                         : MPI_Ialltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_BYTE, to, c, p, MPI_BYTE, comm,
                                          &request);
    else
        error = blocking ? MPI_Alltoall(MPI_IN_PLACE, 0, MPI_BYTE, to, bytes, MPI_BYTE, comm)
                         : MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_BYTE, to, bytes, MPI_BYTE, comm, &request);
    if (error == MPI_SUCCESS && !blocking) error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(request == MPI_REQUEST_NULL);
    for (size_t r = 0; r < n && error == MPI_SUCCESS; ++r)
        CHECK(is_filled(data.data() + r * b, b, static_cast<int>(r), rank, tag));
    return class_of(error);
}

}  // namespace

PROGRAM(in_place) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    const bool forbidden = argc > 1 && strcmp(argv[1], "forbidden") == 0;
    if (forbidden && forbid_peer_copy() != 0)
        printf("in_place: no seccomp filters here, nothing is forbidden\n");
    for (int bytes : {1, 1000, 100'000, kOutside})
        for (bool v : {false, true})
            for (bool blocking : {true, false}) {
                if (bytes == kOutside && blocking) continue;  // takes its time
                const int error = one(v, blocking, bytes, comm);
                CHECK(error == MPI_SUCCESS || (forbidden && error == MPI_ERR_OTHER));
            }
    MPI_Comm_free(&comm);
    return finish("in_place");
}
