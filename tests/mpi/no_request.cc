// One rank gets no request from the MPI for a nonblocking call that has begun: the call ends in an error,
// through the communicator's own error handler, once the rank's buffers are its own again and have what they
// should; the other ranks get all their data, and the next call works.
//      no_request [throw]    the handler throws
#include <dlfcn.h>

#include <cstring>
#include <vector>

#include "check.h"

namespace {

constexpr int kBytes = 20'000, kHole = 8;
bool is_refused = false, throws = false;
int rank, size, refusals = 0, own_calls = 0, told_class = MPI_SUCCESS;
MPI_Comm comm;

bool refuses() {
    refusals += is_refused;
    return is_refused;
}

}  // namespace

// Before the MPI's own, because the program comes first where names are looked up.
extern "C" int PMPI_Grequest_start(MPI_Grequest_query_function* query, MPI_Grequest_free_function* free,
                                   MPI_Grequest_cancel_function* cancel, void* extra, MPI_Request* request) {
    static const auto next =
        reinterpret_cast<decltype(&PMPI_Grequest_start)>(dlsym(RTLD_NEXT, "PMPI_Grequest_start"));
    return refuses() ? MPI_ERR_NO_MEM : next(query, free, cancel, extra, request);
}
#ifdef MPICH_VERSION  // the others have none, and one that is found would be taken
using StartPolled = int(void*, void*, void*, void*, void*, void*, MPI_Request*);
extern "C" StartPolled start_polled __asm__("PMPIX_Grequest_start");
extern "C" int start_polled(void* query, void* free, void* cancel, void* poll, void* wait, void* extra,
                            MPI_Request* request) {
    static const auto next = reinterpret_cast<StartPolled*>(dlsym(RTLD_NEXT, "PMPIX_Grequest_start"));
    return refuses() ? MPI_ERR_NO_MEM : next(query, free, cancel, poll, wait, extra, request);
}
#endif

namespace {

void on_error(MPI_Comm* where, int* code, ...) {
    ++own_calls;
    CHECK(*where == comm);
    told_class = class_of(*code);
    if (throws) throw told_class;
}

// What comes with the gaps of a type is unpacked when the operation is complete.
void exchange(int loser, int tag) {
    const auto n = static_cast<size_t>(size);
    MPI_Datatype type = with_hole(kBytes, kHole);
    std::vector<unsigned char> send(n * kBytes), recv(n * (kBytes + kHole));
    for (int r = 0; r < size; ++r) fill(send.data() + static_cast<size_t>(r) * kBytes, kBytes, rank, r, tag);
    const bool loses = rank == loser;
    if (loser >= 0 && !loses) usleep(20'000);  // so that it has not begun when the loser could have given up
    MPI_Request request = MPI_REQUEST_NULL;
    is_refused = loses;
    const int calls = own_calls;
    int rc = MPI_SUCCESS;
    try {
        rc = MPI_Ialltoall(send.data(), kBytes, MPI_BYTE, recv.data(), 1, type, comm, &request);
    } catch (int thrown) {
        CHECK(throws);
        rc = thrown;
    }
    is_refused = false;
    CHECK(class_of(rc) == (loses ? MPI_ERR_NO_MEM : MPI_SUCCESS));
    CHECK(own_calls == calls + loses && (!loses || told_class == MPI_ERR_NO_MEM));
    CHECK((request == MPI_REQUEST_NULL) == loses);
    if (loses) send.assign(send.size(), 0);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    for (int r = 0; r < size; ++r)
        CHECK(is_filled(recv.data() + static_cast<size_t>(r) * (kBytes + kHole), kBytes, r, rank, tag));
    MPI_Type_free(&type);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    throws = argc > 1 && strcmp(argv[1], "throw") == 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Errhandler_free(&handler);
    for (int i = 0; i < 3 * size; ++i) {
        exchange(i % size, 2 * i);
        exchange(-1, 2 * i + 1);
    }
    CHECK(refusals == 3 && own_calls == 3);
    MPI_Comm_free(&comm);
    finish("no_request");
}
