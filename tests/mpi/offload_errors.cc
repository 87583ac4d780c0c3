// The fake host library fails every operation (LONGSHORE_INTERNAL_FAKE_ERROR): blocking calls and every form
// of wait give the error's class, waits for several requests MPI_ERR_IN_STATUS, an error handler is called,
// and no request is left behind. Arguments: "truncate" or "other", then "fatal" if the handler is.
// MPICH turns a generalized request's error into MPI_ERR_OTHER where several are waited for, and ends its
// MPI_Waitall at the first, the others being MPI_ERR_PENDING: both as MPI allows.
#include <cstring>
#include <vector>

#include "check.h"

namespace {

int rank, size, expected;
int handler_calls = 0;

void on_error(MPI_Comm*, int*, ...) {
    ++handler_calls;
}

int class_of(int code) {
    int result = MPI_SUCCESS;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &result);
    return result;
}

bool is_expected(int code) {
#ifdef MPICH
    if (class_of(code) == MPI_ERR_OTHER) return true;
#endif
    return class_of(code) == expected;
}

MPI_Request start() {
    static std::vector<int> all(static_cast<size_t>(size) * 64);
    static size_t turn = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    int* to = all.data() + static_cast<size_t>(size) * (turn++ % 64);
    CHECK(MPI_Iallgather(&rank, 1, MPI_INT, to, 1, MPI_INT, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
    return request;
}

void check_one(int rc, const MPI_Request& request) {
    CHECK(is_expected(rc));
    CHECK(request == MPI_REQUEST_NULL);
}

// MPI_Waitall, as often as there are requests left.
void check_several(MPI_Request requests[2]) {
    MPI_Status statuses[2];
    for (int turn = 0; requests[0] != MPI_REQUEST_NULL || requests[1] != MPI_REQUEST_NULL; ++turn) {
        CHECK(turn < 2);
        CHECK(class_of(MPI_Waitall(2, requests, statuses)) == MPI_ERR_IN_STATUS);
        for (int i = 0; i < 2; ++i) {
            const int error = statuses[i].MPI_ERROR;
            CHECK(requests[i] == MPI_REQUEST_NULL ? is_expected(error) : class_of(error) == MPI_ERR_PENDING);
        }
        if (turn == 0 && requests[0] == MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL)
            check_one(MPI_Wait(&requests[1], statuses), requests[1]);
    }
}

void every_wait() {
    MPI_Status status, statuses[2];
    int flag = 0, index = 0, count = 0, indices[2];
    std::vector<int> all(static_cast<size_t>(size));
    CHECK(class_of(MPI_Allgather(&rank, 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD)) == expected);

    MPI_Request one = start();
    check_one(MPI_Wait(&one, &status), one);
    one = start();
    check_one(MPI_Wait(&one, MPI_STATUS_IGNORE), one);
    one = start();
    int rc = MPI_SUCCESS;
    while (one != MPI_REQUEST_NULL) rc = MPI_Test(&one, &flag, &status);
    check_one(rc, one);
    one = start();
    check_one(MPI_Waitany(1, &one, &index, &status), one);

    MPI_Request two[2] = {start(), start()};
    check_several(two);
    two[0] = start(), two[1] = start();
    CHECK(MPI_Waitall(2, two, MPI_STATUSES_IGNORE) != MPI_SUCCESS);
    while (two[1] != MPI_REQUEST_NULL) CHECK(MPI_Wait(&two[1], MPI_STATUS_IGNORE) != MPI_SUCCESS);
    CHECK(two[0] == MPI_REQUEST_NULL);
    two[0] = start(), two[1] = start();
    for (int done = 0; done < 2; done += count) {
        CHECK(class_of(MPI_Waitsome(2, two, &count, indices, statuses)) == MPI_ERR_IN_STATUS);
        CHECK(count > 0 && is_expected(statuses[0].MPI_ERROR));
    }
    CHECK(two[0] == MPI_REQUEST_NULL && two[1] == MPI_REQUEST_NULL);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    expected = argc > 1 && strcmp(argv[1], "truncate") == 0 ? MPI_ERR_TRUNCATE : MPI_ERR_OTHER;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    every_wait();

    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    int mine = rank;
    MPI_Bcast(&mine, 1, MPI_INT, 0, MPI_COMM_WORLD);
    CHECK(handler_calls == 1);
    MPI_Request one = start();
    MPI_Wait(&one, MPI_STATUS_IGNORE);
    CHECK(handler_calls == 2);

    // Without a handler of the program's the job ends.
    if (argc > 2) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
        one = start();
        MPI_Wait(&one, MPI_STATUS_IGNORE);
        printf("the error was not fatal\n");
        fflush(stdout);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&handler);
    finish("offload_errors");
}
