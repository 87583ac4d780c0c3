// Operations that fail, on a communicator of their own: blocking calls and every form of wait give the
// error's class, waits for several requests MPI_ERR_IN_STATUS with the class in the status of those that
// failed; that communicator's error handler is called, once, and MPI_COMM_WORLD's never; no request is left
// behind.
//      offload_errors other|truncate [fatal]    the fake host library fails every operation
//                                               (LONGSHORE_INTERNAL_FAKE_ERROR)
//      offload_errors unreadable [fatal]        rank 0's memory cannot be read by its peers
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "check.h"
#include "persistent.h"

namespace {

constexpr int kBytes = 1 << 16;  // a whole number of pages, and more than travels in a notification

int rank, size, expected = MPI_ERR_OTHER;
bool unreadable = false;
MPI_Comm failing;  // everything on it fails
int world_calls = 0, own_calls = 0, told_class = MPI_SUCCESS;

void on_world_error(MPI_Comm*, int*, ...) {
    ++world_calls;
}

void on_own_error(MPI_Comm* comm, int* code, ...) {
    ++own_calls;
    CHECK(*comm == failing);
    told_class = class_of(*code);
}

// In place, so that no rank has to read its own block; each call has a buffer of its own.
unsigned char* next_buffer() {
    static size_t turn = 0;
    constexpr size_t kBuffers = 64;
    const size_t whole = static_cast<size_t>(size) * kBytes;
    static auto* all = static_cast<unsigned char*>(
        mmap(nullptr, kBuffers * whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    CHECK(all != MAP_FAILED);
    unsigned char* buffer = all + whole * (turn++ % kBuffers);
    if (unreadable && rank == 0) CHECK(mprotect(buffer, kBytes, PROT_NONE) == 0);
    return buffer;
}

MPI_Request start() {
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, next_buffer(), kBytes, MPI_BYTE, failing,
                         &request) == MPI_SUCCESS);
    return request;
}

void check_one(int rc, const MPI_Request& request) {
    CHECK(class_of(rc) == expected);
    CHECK(request == MPI_REQUEST_NULL);
}

void check_several(int rc, const MPI_Request requests[2], const MPI_Status* statuses) {
    CHECK(class_of(rc) == MPI_ERR_IN_STATUS);
    for (int i = 0; i < 2; ++i) {
        CHECK(requests[i] == MPI_REQUEST_NULL);
        if (statuses) CHECK(class_of(statuses[i].MPI_ERROR) == expected);
        if (statuses) CHECK(statuses[i].MPI_SOURCE == MPI_UNDEFINED && statuses[i].MPI_TAG == MPI_UNDEFINED);
    }
}

void each_wait_for_one() {
    MPI_Status status;
    int flag = 0, index = 0;
    CHECK(class_of(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, next_buffer(), kBytes, MPI_BYTE,
                                 failing)) == expected);
    MPI_Request one = start();
    check_one(MPI_Wait(&one, &status), one);
    CHECK(status.MPI_SOURCE == MPI_UNDEFINED && status.MPI_TAG == MPI_UNDEFINED);
    one = start();
    check_one(MPI_Wait(&one, MPI_STATUS_IGNORE), one);
    one = start();
    int rc = MPI_SUCCESS;
    for (flag = 0; !flag;) rc = MPI_Test(&one, &flag, &status);
    check_one(rc, one);
    one = start();
    check_one(MPI_Waitany(1, &one, &index, &status), one);
    CHECK(index == 0);
    one = start();
    for (flag = 0; !flag;) rc = MPI_Testany(1, &one, &index, &flag, MPI_STATUS_IGNORE);
    check_one(rc, one);
    // Looking does not complete it: only the status says so.
    one = start();
    for (flag = 0; !flag;) CHECK(MPI_Request_get_status(one, &flag, &status) == MPI_SUCCESS);
    CHECK(class_of(status.MPI_ERROR) == expected && status.MPI_SOURCE == MPI_UNDEFINED);
    check_one(MPI_Wait(&one, &status), one);
}

MPI_Request persistent() {
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(INIT(Allgather)(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, next_buffer(), kBytes, MPI_BYTE, failing,
                          MPI_INFO_NULL, &request) == MPI_SUCCESS);
    return request;
}

// A persistent request stays, and can be started again; it is told of once each time.
void each_wait_for_persistent() {
    MPI_Request both[2] = {persistent(), persistent()};
    MPI_Request& one = both[0];
    const MPI_Request before = one;
    const auto check = [&](int rc, int error) {
        CHECK(class_of(rc) == error);
        CHECK(one == before);
        CHECK(MPI_Wait(&one, MPI_STATUS_IGNORE) == MPI_SUCCESS);  // inactive
    };
    MPI_Status statuses[2];
    int flag = 0, index = -1, count = 0, indices[2], rc = MPI_SUCCESS;
    CHECK(MPI_Start(&one) == MPI_SUCCESS);
    check(MPI_Wait(&one, statuses), expected);
    CHECK(statuses[0].MPI_SOURCE == MPI_UNDEFINED && statuses[0].MPI_TAG == MPI_UNDEFINED);
    CHECK(MPI_Start(&one) == MPI_SUCCESS);
    for (flag = 0; !flag;) rc = MPI_Test(&one, &flag, MPI_STATUS_IGNORE);
    check(rc, expected);
    CHECK(MPI_Start(&one) == MPI_SUCCESS);
    for (flag = 0; !flag;) CHECK(MPI_Request_get_status(one, &flag, statuses) == MPI_SUCCESS);
    CHECK(class_of(statuses[0].MPI_ERROR) == expected);
    check(MPI_Waitany(1, &one, &index, statuses), expected);
    CHECK(index == 0);
    CHECK(MPI_Start(&one) == MPI_SUCCESS);
    for (flag = 0; !flag;) rc = MPI_Testany(1, &one, &index, &flag, MPI_STATUS_IGNORE);
    check(rc, expected);
    for (bool ignore : {false, true}) {
        CHECK(MPI_Startall(2, both) == MPI_SUCCESS);
        check(MPI_Waitall(2, both, ignore ? MPI_STATUSES_IGNORE : statuses), MPI_ERR_IN_STATUS);
        for (int i = 0; i < 2 && !ignore; ++i) CHECK(class_of(statuses[i].MPI_ERROR) == expected);
    }
    CHECK(MPI_Startall(2, both) == MPI_SUCCESS);
    for (flag = 0; !flag;) rc = MPI_Testall(2, both, &flag, statuses);
    check(rc, MPI_ERR_IN_STATUS);
    CHECK(MPI_Startall(2, both) == MPI_SUCCESS);
    for (int done = 0; done < 2; done += count) {
        rc = MPI_Waitsome(2, both, &count, indices, statuses);
        CHECK(class_of(rc) == MPI_ERR_IN_STATUS && count > 0);
        for (int i = 0; i < count; ++i) CHECK(class_of(statuses[i].MPI_ERROR) == expected);
    }
    for (MPI_Request& request : both) CHECK(MPI_Request_free(&request) == MPI_SUCCESS);
}

void each_wait_for_several() {
    MPI_Status statuses[3];
    int flag = 0, count = 0, indices[2], rc = MPI_SUCCESS;
    MPI_Request two[2] = {start(), start()};
    check_several(MPI_Waitall(2, two, statuses), two, statuses);
    two[0] = start(), two[1] = start();
    check_several(MPI_Waitall(2, two, MPI_STATUSES_IGNORE), two, nullptr);
    two[0] = start(), two[1] = start();
    for (flag = 0; !flag;) rc = MPI_Testall(2, two, &flag, statuses);
    check_several(rc, two, statuses);
    for (bool test : {false, true}) {
        two[0] = start(), two[1] = start();
        for (int done = 0; done < 2; done += count) {
            do {
                rc = test ? MPI_Testsome(2, two, &count, indices, statuses)
                          : MPI_Waitsome(2, two, &count, indices, statuses);
            } while (test && count == 0);
            CHECK(class_of(rc) == MPI_ERR_IN_STATUS && count > 0);
            for (int i = 0; i < count; ++i) CHECK(class_of(statuses[i].MPI_ERROR) == expected);
        }
        CHECK(two[0] == MPI_REQUEST_NULL && two[1] == MPI_REQUEST_NULL);
    }
    // Only the one that failed is said to have failed.
    int sent = rank, got = -1;
    MPI_Request mixed[3] = {MPI_REQUEST_NULL, start(), MPI_REQUEST_NULL};
    MPI_Irecv(&got, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &mixed[0]);
    MPI_Isend(&sent, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &mixed[2]);
    CHECK(class_of(MPI_Waitall(3, mixed, statuses)) == MPI_ERR_IN_STATUS);
    CHECK(statuses[0].MPI_ERROR == MPI_SUCCESS && statuses[2].MPI_ERROR == MPI_SUCCESS && got == rank);
    CHECK(statuses[0].MPI_SOURCE == rank && statuses[0].MPI_TAG == 3);
    CHECK(class_of(statuses[1].MPI_ERROR) == expected);
    for (MPI_Request request : mixed) CHECK(request == MPI_REQUEST_NULL);
}

// The program's own handler: once per call.
void own_handler() {
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(on_own_error, &handler);
    MPI_Comm_set_errhandler(failing, handler);
    MPI_Errhandler_free(&handler);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, next_buffer(), kBytes, MPI_BYTE, failing);
    CHECK(own_calls == 1 && told_class == expected);
    MPI_Request one = start();
    MPI_Wait(&one, MPI_STATUS_IGNORE);
    CHECK(own_calls == 2 && told_class == expected);
    MPI_Request two[2] = {start(), start()};
    MPI_Waitall(2, two, MPI_STATUSES_IGNORE);
    CHECK(own_calls == 3 && told_class == expected);
    MPI_Comm_set_errhandler(failing, MPI_ERRORS_RETURN);
}

int on_failing_query(void*, MPI_Status* status) {
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
    return expected;
}

// In a wait that Longshore does not see (mpi/native/native.h) the MPI itself tells, as it does for any generalized
// request: MPICH 5 returns no error where a handler has been called and came back, the others do.
void unseen_wait() {
    MPI_Request any;
    MPI_Grequest_start(
        on_failing_query, [](void*) -> int { return MPI_SUCCESS; },
        [](void*, int) -> int { return MPI_SUCCESS; }, nullptr, &any);
    MPI_Grequest_complete(any);
    const int told = class_of(PMPI_Wait(&any, MPI_STATUS_IGNORE));
    CHECK(world_calls == 1 && any == MPI_REQUEST_NULL);
    MPI_Request one = start();
    CHECK(class_of(PMPI_Wait(&one, MPI_STATUS_IGNORE)) == told);
    CHECK(world_calls == 2 && one == MPI_REQUEST_NULL);
}

// What the others do, for a rank whose own calls succeed.
void take_part(int calls, bool blocking) {
    for (int i = 0; i < calls; ++i) {
        if (blocking && i == 0) {
            MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, next_buffer(), kBytes, MPI_BYTE, failing);
            continue;
        }
        MPI_Request one = start();
        MPI_Wait(&one, MPI_STATUS_IGNORE);
    }
}

void take_part_persistently() {
    MPI_Request both[2] = {persistent(), persistent()};
    for (int i = 0; i < 4; ++i) {
        CHECK(MPI_Start(&both[0]) == MPI_SUCCESS);
        MPI_Wait(&both[0], MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < 4; ++i) {
        CHECK(MPI_Startall(2, both) == MPI_SUCCESS);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    }
    for (MPI_Request& request : both) CHECK(MPI_Request_free(&request) == MPI_SUCCESS);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    unreadable = argc > 1 && strcmp(argv[1], "unreadable") == 0;
    if (argc > 1 && strcmp(argv[1], "truncate") == 0) expected = MPI_ERR_TRUNCATE;
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &failing);
    MPI_Comm_set_errhandler(failing, MPI_ERRORS_RETURN);
    MPI_Errhandler world;
    MPI_Comm_create_errhandler(on_world_error, &world);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, world);
    MPI_Errhandler_free(&world);
    const bool fails = !unreadable || rank != 0;
    if (fails) {
        each_wait_for_one();
        each_wait_for_several();
        each_wait_for_persistent();
        own_handler();
        CHECK(world_calls == 0);
        unseen_wait();
    } else {
        take_part(7, true);
        take_part(11, false);
        take_part_persistently();
        take_part(4, true);
        take_part(1, false);
    }
    if (argc > 2) {
        MPI_Comm_set_errhandler(failing, MPI_ERRORS_ARE_FATAL);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Request one = start();
        MPI_Wait(&one, MPI_STATUS_IGNORE);
        if (fails) printf("the error was not fatal\n");
        fflush(stdout);
    }
    MPI_Comm_free(&failing);
    finish("offload_errors");
}
