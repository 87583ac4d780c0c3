// Error handlers that throw, in every kind of call: the exception comes to the program through whatever lies
// between, what has failed is over then, and the communicator goes on. And exceptions out of code that the
// MPI runs while a rank waits in an offloaded call: a blocking call is finished before its buffers are the
// program's again, a request stays.
#include <dlfcn.h>

#include <cstring>
#include <vector>

#include "check.h"
#include "persistent.h"

namespace {

struct Thrown {
    int error_class;
};
struct FromWithin {};

constexpr int kBytes = 100'000;
int rank, size, tag_of_data = 0;
MPI_Comm failing;
bool within_armed = false;

void on_error(MPI_Comm*, int* code, ...) {
    throw Thrown{class_of(*code)};
}

// Has a destructor, as whatever stands between in a program.
struct Witness {
    explicit Witness(int* count_of_all) : count(count_of_all) {}
    ~Witness() { ++*count; }
    int* count;
};

// The class of the error that came as an exception; MPI_SUCCESS: none came.
template <class Call>
int thrown(Call call) {
    int left = 0, result = MPI_SUCCESS;
    try {
        const Witness witness(&left);
        call();
    } catch (const Thrown& error) {
        result = error.error_class;
    }
    CHECK(left == 1);
    return result;
}

// The communicator and the rank's offloaded calls are as good as before.
void go_on() {
    const int tag = ++tag_of_data;
    const auto n = static_cast<size_t>(size);
    std::vector<unsigned char> send(n * kBytes), recv(n * kBytes), again(n * kBytes);
    for (int r = 0; r < size; ++r) fill(send.data() + static_cast<size_t>(r) * kBytes, kBytes, rank, r, tag);
    MPI_Request request;
    CHECK(MPI_Ialltoall(send.data(), kBytes, MPI_BYTE, again.data(), kBytes, MPI_BYTE, failing, &request) ==
          MPI_SUCCESS);
    CHECK(MPI_Alltoall(send.data(), kBytes, MPI_BYTE, recv.data(), kBytes, MPI_BYTE, failing) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    for (const auto& got : {recv, again})
        for (int r = 0; r < size; ++r)
            CHECK(is_filled(got.data() + static_cast<size_t>(r) * kBytes, kBytes, r, rank, tag));
}

// Rank 0 sends more than the others take, which is an error of theirs; whether it is one of rank 0, too,
// depends on how blocks go.
unsigned char much[2 * kBytes];
int count_of_bcast() {
    return rank == 0 ? 2 * kBytes : kBytes;
}
MPI_Request start() {
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(MPI_Ibcast(much, count_of_bcast(), MPI_BYTE, 0, failing, &request) == MPI_SUCCESS);
    return request;
}
bool is_expected(int error) {
    return rank == 0 || error == MPI_ERR_TRUNCATE;
}

void blocking() {
    for (int i = 0; i < 100; ++i)  // more than are kept for further calls
        CHECK(is_expected(thrown([] { MPI_Bcast(much, count_of_bcast(), MPI_BYTE, 0, failing); })));
    go_on();
}

void each_wait() {
    MPI_Status statuses[2];
    int flag = 0, index = 0, count = 0, indices[2];
    const auto one = [&](auto wait) {
        MPI_Request request = start();
        CHECK(is_expected(thrown([&] { wait(&request); })));
        CHECK(request == MPI_REQUEST_NULL);
        go_on();
    };
    one([&](MPI_Request* request) { MPI_Wait(request, statuses); });
    one([&](MPI_Request* request) { MPI_Waitall(1, request, statuses); });
    one([&](MPI_Request* request) { MPI_Waitany(1, request, &index, MPI_STATUS_IGNORE); });
    one([&](MPI_Request* request) { MPI_Waitsome(1, request, &count, indices, statuses); });
    one([&](MPI_Request* request) {
        for (flag = 0; !flag;) MPI_Test(request, &flag, MPI_STATUS_IGNORE);
    });
    one([&](MPI_Request* request) {
        for (flag = 0; !flag;) MPI_Testall(1, request, &flag, MPI_STATUSES_IGNORE);
    });
    one([&](MPI_Request* request) {
        for (flag = 0; !flag;) MPI_Testany(1, request, &index, &flag, statuses);
    });
    one([&](MPI_Request* request) {
        for (count = 0; !count;) MPI_Testsome(1, request, &count, indices, statuses);
    });
    MPI_Request two[2] = {start(), start()};
    CHECK(is_expected(thrown([&] { MPI_Waitall(2, two, statuses); })));
    CHECK(two[0] == MPI_REQUEST_NULL && two[1] == MPI_REQUEST_NULL);
    for (const MPI_Status& status : statuses)
        CHECK(rank == 0 || class_of(status.MPI_ERROR) == MPI_ERR_TRUNCATE);
    go_on();
}

void persistent() {
    MPI_Request request;
    CHECK(INIT(Bcast)(much, count_of_bcast(), MPI_BYTE, 0, failing, MPI_INFO_NULL, &request) == MPI_SUCCESS);
    for (int i = 0; i < 3; ++i) {
        CHECK(MPI_Start(&request) == MPI_SUCCESS);
        CHECK(is_expected(thrown([&] { MPI_Wait(&request, MPI_STATUS_IGNORE); })));
        CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);  // inactive
    }
    CHECK(MPI_Request_free(&request) == MPI_SUCCESS);
    go_on();
    // Started twice, and freed while it is active: errors that change nothing.
    std::vector<unsigned char> whole(static_cast<size_t>(size) * kBytes);
    CHECK(INIT(Allgather)(MPI_IN_PLACE, 0, MPI_BYTE, whole.data(), kBytes, MPI_BYTE, failing, MPI_INFO_NULL,
                          &request) == MPI_SUCCESS);
    fill(whole.data() + static_cast<size_t>(rank) * kBytes, kBytes, rank, rank, 7);
    if (rank == 0) MPI_Barrier(failing);  // so that it stays active
    CHECK(MPI_Start(&request) == MPI_SUCCESS);
    if (rank != 0) {
        CHECK(thrown([&] { MPI_Start(&request); }) == MPI_ERR_REQUEST);
        CHECK(thrown([&] { MPI_Request_free(&request); }) == MPI_ERR_REQUEST);
        MPI_Barrier(failing);
    }
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    for (int r = 0; r < size; ++r)
        CHECK(is_filled(whole.data() + static_cast<size_t>(r) * kBytes, kBytes, r, r, 7));
    CHECK(MPI_Request_free(&request) == MPI_SUCCESS);
}

// What the MPI itself says, called by the shim.
void of_the_mpi() {
    std::vector<int> numbers(static_cast<size_t>(size));
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm made = MPI_COMM_NULL;
    int *n = numbers.data(), *one = &rank;
    CHECK(thrown([&] { MPI_Allgather(one, -1, MPI_INT, n, -1, MPI_INT, failing); }) != MPI_SUCCESS);
    CHECK(thrown([&] { MPI_Iallgather(one, -1, MPI_INT, n, -1, MPI_INT, failing, &request); }) !=
          MPI_SUCCESS);
    CHECK(thrown([&] { INIT(Bcast)(n, -1, MPI_INT, 0, failing, MPI_INFO_NULL, &request); }) != MPI_SUCCESS);
    CHECK(thrown([&] { MPI_Comm_split(MPI_COMM_NULL, 0, rank, &made); }) != MPI_SUCCESS);
    CHECK(thrown([&] { MPI_Comm_dup(MPI_COMM_NULL, &made); }) != MPI_SUCCESS);
    CHECK(thrown([&] { MPI_Comm_split_type(MPI_COMM_NULL, 0, 0, MPI_INFO_NULL, &made); }) != MPI_SUCCESS);
    CHECK(thrown([&] { MPI_Barrier(MPI_COMM_NULL); }) != MPI_SUCCESS);  // timed, with statistics
    go_on();
    MPI_Comm own;
    MPI_Comm_dup(failing, &own);
    CHECK(MPI_Allgather(&rank, 1, MPI_INT, n, 1, MPI_INT, own) == MPI_SUCCESS);
    for (int r = 0; r < size; ++r) CHECK(numbers[static_cast<size_t>(r)] == r);
    MPI_Comm_free(&own);
    // A message that is too long, waited for beside an operation that cannot end before.
    int few = 0, many[2] = {rank, rank};
    MPI_Request sent, both[2];
    CHECK(MPI_Isend(many, 2, MPI_INT, rank, 5, failing, &sent) == MPI_SUCCESS);
    CHECK(MPI_Irecv(&few, 1, MPI_INT, rank, 5, failing, &both[0]) == MPI_SUCCESS);
    if (rank == 0) MPI_Barrier(failing);
    std::vector<unsigned char> whole(static_cast<size_t>(size) * kBytes);
    fill(whole.data() + static_cast<size_t>(rank) * kBytes, kBytes, rank, rank, 9);
    CHECK(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_BYTE, whole.data(), kBytes, MPI_BYTE, failing, &both[1]) ==
          MPI_SUCCESS);
    int index = 0;
    if (rank != 0) {
        CHECK(thrown([&] { MPI_Waitany(2, both, &index, MPI_STATUS_IGNORE); }) == MPI_ERR_TRUNCATE);
        MPI_Barrier(failing);
    } else {
        CHECK(thrown([&] { MPI_Wait(&both[0], MPI_STATUS_IGNORE); }) == MPI_ERR_TRUNCATE);
    }
    CHECK(MPI_Wait(&both[1], MPI_STATUS_IGNORE) == MPI_SUCCESS);
    for (int r = 0; r < size; ++r)
        CHECK(is_filled(whole.data() + static_cast<size_t>(r) * kBytes, kBytes, r, r, 9));
    CHECK(MPI_Wait(&sent, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    // Both fail: the statuses say so, though the call does not come back.
    MPI_Status statuses[2];
    CHECK(MPI_Isend(many, 2, MPI_INT, rank, 5, failing, &sent) == MPI_SUCCESS);
    CHECK(MPI_Irecv(&few, 1, MPI_INT, rank, 5, failing, &both[1]) == MPI_SUCCESS);
    both[0] = start();
    CHECK(thrown([&] { MPI_Waitall(2, both, statuses); }) != MPI_SUCCESS);
    CHECK(is_expected(class_of(statuses[0].MPI_ERROR)) && statuses[0].MPI_SOURCE == MPI_UNDEFINED);
    CHECK(class_of(statuses[1].MPI_ERROR) == MPI_ERR_TRUNCATE);
    CHECK(MPI_Wait(&sent, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    go_on();
}

// As a callback of the program's that the MPI runs in its progress: a reduction, a handler of a message.
void from_within() {
    const auto n = static_cast<size_t>(size);
    for (bool is_blocking : {true, false}) {
        const int tag = 100 + is_blocking;
        std::vector<unsigned char> send(n * kBytes), recv(n * kBytes);
        for (int r = 0; r < size; ++r)
            fill(send.data() + static_cast<size_t>(r) * kBytes, kBytes, rank, r, tag);
        const auto is_right = [&] {
            for (int r = 0; r < size; ++r)
                if (!is_filled(recv.data() + static_cast<size_t>(r) * kBytes, kBytes, r, rank, tag))
                    return false;
            return true;
        };
        int token = 0;
        // The last rank throws before rank 0 has come.
        if (rank == 0) MPI_Recv(&token, 1, MPI_INT, size - 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        bool has_left = false;
        MPI_Request request = MPI_REQUEST_NULL;
        within_armed = rank == size - 1;
        try {
            if (is_blocking) {
                MPI_Alltoall(send.data(), kBytes, MPI_BYTE, recv.data(), kBytes, MPI_BYTE, failing);
            } else {
                MPI_Ialltoall(send.data(), kBytes, MPI_BYTE, recv.data(), kBytes, MPI_BYTE, failing,
                              &request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            }
        } catch (const FromWithin&) {
            has_left = true;
            CHECK((request == MPI_REQUEST_NULL) == is_blocking);
            // Its buffers are the program's again.
            CHECK(!is_blocking || is_right());
            if (is_blocking) send.assign(send.size(), 0);
        }
        CHECK(has_left == (rank == size - 1) && !within_armed);
        CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        CHECK(is_right());
        go_on();
    }
}

}  // namespace

// The shim lets the MPI make progress by it. Before the MPI's own, because the program comes first where
// names are looked up.
extern "C" int PMPI_Iprobe(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
    static const auto next = reinterpret_cast<decltype(&PMPI_Iprobe)>(dlsym(RTLD_NEXT, "PMPI_Iprobe"));
    if (!within_armed) return next(source, tag, comm, flag, status);
    within_armed = false;
    const int token = 1;
    PMPI_Send(&token, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
    throw FromWithin{};
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &failing);
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(on_error, &handler);
    for (MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_SELF, failing}) MPI_Comm_set_errhandler(comm, handler);
    MPI_Errhandler_free(&handler);
    go_on();
    blocking();
    each_wait();
    persistent();
    of_the_mpi();
    from_within();
    MPI_Comm_free(&failing);
    finish("leaving");
}
