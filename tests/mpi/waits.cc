// Every form of waiting and testing, on offloaded requests mixed with point-to-point and null ones.
#include <cstring>
#include <vector>

#include "check.h"

#if MPI_VERSION < 4 || (MPI_VERSION == 4 && MPI_SUBVERSION < 1)
extern "C" {
int MPI_Request_get_status_all(int count, const MPI_Request requests[], int* flag, MPI_Status statuses[])
    __attribute__((weak));
int MPI_Request_get_status_any(int count, const MPI_Request requests[], int* index, int* flag,
                               MPI_Status* status) __attribute__((weak));
int MPI_Request_get_status_some(int incount, const MPI_Request requests[], int* outcount, int indices[],
                                MPI_Status statuses[]) __attribute__((weak));
}
const bool there_for_several = MPI_Request_get_status_all != nullptr;
#else
const bool there_for_several = true;
#endif

namespace {

int rank, size, tag = 0;

constexpr int kBytes = 3000;
constexpr int kCollectives = 3;

// Requests: 0 null, 1..3 collectives, 4 a receive from the left, 5 a send to the right.
struct Mix {
    std::vector<unsigned char> send[kCollectives], recv[kCollectives];
    unsigned char from_left[kBytes], to_right[kBytes];
    MPI_Request requests[6];
    int tag0;

    Mix() {
        tag0 = tag;
        tag += kCollectives + 1;
        const int left = (rank + size - 1) % size, right = (rank + 1) % size;
        for (MPI_Request& request : requests) request = MPI_REQUEST_NULL;
        for (int c = 0; c < kCollectives; ++c) {
            send[c].resize(kBytes);
            recv[c].assign(static_cast<size_t>(size) * kBytes, 0xEE);
            fill(send[c].data(), kBytes, rank, 0, tag0 + c);
            MPI_Iallgather(send[c].data(), kBytes, MPI_BYTE, recv[c].data(), kBytes, MPI_BYTE, MPI_COMM_WORLD,
                           &requests[1 + c]);
        }
        fill(to_right, kBytes, rank, right, tag0 + 3);
        MPI_Irecv(from_left, kBytes, MPI_BYTE, left, 5, MPI_COMM_WORLD, &requests[4]);
        MPI_Isend(to_right, kBytes, MPI_BYTE, right, 5, MPI_COMM_WORLD, &requests[5]);
    }

    void check_all() {
        for (int i = 0; i < 6; ++i) check(i);
    }

    void check(int i) {
        CHECK(requests[i] == MPI_REQUEST_NULL);
        if (i >= 1 && i <= kCollectives)
            for (int r = 0; r < size; ++r)
                CHECK(is_filled(recv[i - 1].data() + static_cast<size_t>(r) * kBytes, kBytes, r, 0,
                                tag0 + i - 1));
        if (i == 4) CHECK(is_filled(from_left, kBytes, (rank + size - 1) % size, rank, tag0 + 3));
    }

    void check_status(int i, const MPI_Status& status) {
        int count = -1, cancelled = -1;
        MPI_Test_cancelled(&status, &cancelled);
        CHECK(cancelled == 0);
        MPI_Get_count(&status, MPI_BYTE, &count);
        if (i <= kCollectives && size > 1) CHECK(count == 0);  // MPICH itself: undefined
        if (i == 4)
            CHECK(count == kBytes && status.MPI_SOURCE == (rank + size - 1) % size && status.MPI_TAG == 5);
    }
};

void by_wait() {
    Mix mix;
    for (int i = 5; i >= 0; --i) {
        MPI_Status status;
        CHECK(MPI_Wait(&mix.requests[i], &status) == MPI_SUCCESS);
        if (i > 0 && i < 5) mix.check_status(i, status);
        mix.check(i);
    }
}

void by_waitall(bool ignore) {
    Mix mix;
    MPI_Status statuses[6];
    CHECK(MPI_Waitall(6, mix.requests, ignore ? MPI_STATUSES_IGNORE : statuses) == MPI_SUCCESS);
    for (int i = 1; !ignore && i < 5; ++i) mix.check_status(i, statuses[i]);
    mix.check_all();
}

void by_waitall_with_others_open() {
    Mix first, second;
    CHECK(MPI_Waitall(2, &second.requests[4], MPI_STATUSES_IGNORE) == MPI_SUCCESS);  // natives only
    CHECK(MPI_Waitall(6, first.requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    first.check_all();
    CHECK(MPI_Waitall(6, second.requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    second.check_all();
}

void by_waitany(bool test) {
    Mix mix;
    for (int done = 0; done < 5; ++done) {
        int index = -7, flag = !test;
        MPI_Status status;
        do {
            int rc = test ? MPI_Testany(6, mix.requests, &index, &flag, &status)
                          : MPI_Waitany(6, mix.requests, &index, &status);
            CHECK(rc == MPI_SUCCESS);
        } while (!flag);
        CHECK(index >= 1 && index < 6);
        if (index < 5) mix.check_status(index, status);
        mix.check(index);
    }
    int index = 0, flag = 0;
    MPI_Waitany(6, mix.requests, &index, MPI_STATUS_IGNORE);
    CHECK(index == MPI_UNDEFINED);
    MPI_Testany(6, mix.requests, &index, &flag, MPI_STATUS_IGNORE);
    CHECK(flag && index == MPI_UNDEFINED);
}

void by_waitsome(bool test, bool ignore) {
    Mix mix;
    for (int done = 0; done < 5;) {
        int count = 0, indices[6];
        MPI_Status statuses[6];
        MPI_Status* where = ignore ? MPI_STATUSES_IGNORE : statuses;
        int rc = test ? MPI_Testsome(6, mix.requests, &count, indices, where)
                      : MPI_Waitsome(6, mix.requests, &count, indices, where);
        CHECK(rc == MPI_SUCCESS && count != MPI_UNDEFINED && (test || count > 0));
        for (int i = 0; i < count; ++i) {
            mix.check(indices[i]);
            if (!ignore && indices[i] < 5) mix.check_status(indices[i], statuses[i]);
        }
        done += count;
    }
    int count = 0, indices[6];
    MPI_Waitsome(6, mix.requests, &count, indices, MPI_STATUSES_IGNORE);
    CHECK(count == MPI_UNDEFINED);
}

void by_test() {
    Mix mix;
    for (int i = 1; i < 6; ++i)
        for (int flag = 0; !flag;) CHECK(MPI_Test(&mix.requests[i], &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    mix.check_all();
    Mix second;
    for (int flag = 0; !flag;)
        CHECK(MPI_Testall(6, second.requests, &flag, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    second.check_all();
    Mix third;
    MPI_Status statuses[6];
    for (int flag = 0; !flag;) CHECK(MPI_Testall(6, third.requests, &flag, statuses) == MPI_SUCCESS);
    for (int i = 1; i < 5; ++i) third.check_status(i, statuses[i]);
    third.check_all();
}

void by_get_status() {
    Mix mix;
    for (int i = 1; i < 6; ++i) {
        MPI_Status status;
        for (int flag = 0; !flag;)
            CHECK(MPI_Request_get_status(mix.requests[i], &flag, &status) == MPI_SUCCESS);
        CHECK(mix.requests[i] != MPI_REQUEST_NULL);
        if (i < 5) mix.check_status(i, status);
        CHECK(MPI_Wait(&mix.requests[i], MPI_STATUS_IGNORE) == MPI_SUCCESS);
    }
    mix.check_all();
}

// MPI 4.1; of older MPIs the shim answers.
void by_get_status_of_several() {
    Mix mix;
    MPI_Status status, statuses[6];
    int index = -1, flag = 0, count = 0, indices[6];
    for (flag = 0; !flag;) CHECK(MPI_Request_get_status_all(6, mix.requests, &flag, statuses) == MPI_SUCCESS);
    for (int i = 1; i < 5; ++i) mix.check_status(i, statuses[i]);
    CHECK(MPI_Request_get_status_any(6, mix.requests, &index, &flag, &status) == MPI_SUCCESS && flag);
    CHECK(index >= 1 && index < 6);
    if (index < 5) mix.check_status(index, status);
    CHECK(MPI_Request_get_status_some(6, mix.requests, &count, indices, statuses) == MPI_SUCCESS &&
          count == 5);
    for (int i = 0; i < count; ++i)
        if (indices[i] < 5) mix.check_status(indices[i], statuses[i]);
    CHECK(MPI_Waitall(6, mix.requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    mix.check_all();
    Mix second;
    for (int done = 0; done < 3;) {
        // Each until it is complete, in whatever order.
        CHECK(MPI_Request_get_status_any(6, second.requests, &index, &flag, MPI_STATUS_IGNORE) ==
              MPI_SUCCESS);
        if (!flag) continue;
        CHECK(MPI_Wait(&second.requests[index], MPI_STATUS_IGNORE) == MPI_SUCCESS);
        ++done;
    }
    for (count = 0; count == 0;)
        CHECK(MPI_Request_get_status_some(6, second.requests, &count, indices, MPI_STATUSES_IGNORE) ==
              MPI_SUCCESS);
    CHECK(MPI_Waitall(6, second.requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    second.check_all();
}

void check_empty(const MPI_Status& status) {
    int count = -1, cancelled = -1;
    MPI_Get_count(&status, MPI_BYTE, &count);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(count == 0 && cancelled == 0 && status.MPI_SOURCE == MPI_ANY_SOURCE &&
          status.MPI_TAG == MPI_ANY_TAG);
}

// Nothing to wait for, while collectives are open.
void nothing() {
    Mix mix;
    MPI_Request none[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    for (int count : {0, 2}) {
        MPI_Status status, statuses[2];
        int index = 0, flag = 0, done = 0, indices[2];
        CHECK(MPI_Waitall(count, none, statuses) == MPI_SUCCESS);
        for (int i = 0; i < count; ++i) check_empty(statuses[i]);
        CHECK(MPI_Testall(count, none, &flag, statuses) == MPI_SUCCESS && flag);
        for (int i = 0; i < count; ++i) check_empty(statuses[i]);
        CHECK(MPI_Waitany(count, none, &index, &status) == MPI_SUCCESS && index == MPI_UNDEFINED);
        check_empty(status);
        flag = 0;
        CHECK(MPI_Testany(count, none, &index, &flag, &status) == MPI_SUCCESS && flag &&
              index == MPI_UNDEFINED);
        check_empty(status);
        CHECK(MPI_Waitsome(count, none, &done, indices, statuses) == MPI_SUCCESS && done == MPI_UNDEFINED);
        CHECK(MPI_Testsome(count, none, &done, indices, statuses) == MPI_SUCCESS && done == MPI_UNDEFINED);
    }
    MPI_Status status;
    int flag = 0;
    CHECK(MPI_Wait(&none[0], &status) == MPI_SUCCESS);
    check_empty(status);
    CHECK(MPI_Test(&none[0], &flag, &status) == MPI_SUCCESS && flag);
    check_empty(status);
    flag = 0;
    CHECK(MPI_Request_get_status(none[0], &flag, &status) == MPI_SUCCESS && flag);
    check_empty(status);
    MPI_Status statuses[6];
    CHECK(MPI_Waitall(6, mix.requests, statuses) == MPI_SUCCESS);
    check_empty(statuses[0]);
    mix.check_all();
}

// More requests than the shim's table starts with.
void many_open() {
    constexpr int kMany = 300;
    std::vector<MPI_Request> requests(kMany);
    std::vector<int> sent(kMany), got(static_cast<size_t>(kMany * size));
    for (int i = 0; i < kMany; ++i) {
        const auto k = static_cast<size_t>(i);
        sent[k] = rank * 1000 + i;
        MPI_Iallgather(&sent[k], 1, MPI_INT, &got[k * static_cast<size_t>(size)], 1, MPI_INT, MPI_COMM_WORLD,
                       &requests[k]);
    }
    for (int done = 0; done < kMany / 2; ++done) {
        int index = -1;
        MPI_Waitany(kMany, requests.data(), &index, MPI_STATUS_IGNORE);
        CHECK(index >= 0 && requests[static_cast<size_t>(index)] == MPI_REQUEST_NULL);
    }
    MPI_Waitall(kMany, requests.data(), MPI_STATUSES_IGNORE);
    for (int i = 0; i < kMany; ++i)
        for (int r = 0; r < size; ++r) CHECK(got[static_cast<size_t>(i * size + r)] == r * 1000 + i);
}

// A long list, all messages at its end, with statuses ignored, while another call is open.
void long_list(bool test) {
    constexpr int kCalls = 64, kMessages = 4;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    std::vector<int> got(static_cast<size_t>(kCalls * size)), early(static_cast<size_t>(size));
    int sent[kMessages], received[kMessages];
    MPI_Request other = MPI_REQUEST_NULL;
    if (rank == 0) MPI_Iallgather(&rank, 1, MPI_INT, early.data(), 1, MPI_INT, MPI_COMM_WORLD, &other);
    std::vector<MPI_Request> requests(kCalls + 2 * kMessages);
    MPI_Request* next = requests.data();
    for (int i = 0; i < kCalls; ++i)
        MPI_Iallgather(&rank, 1, MPI_INT, &got[static_cast<size_t>(i * size)], 1, MPI_INT, comm, next++);
    for (int i = 0; i < kMessages; ++i) {
        sent[i] = rank + i;
        MPI_Irecv(&received[i], 1, MPI_INT, (rank + 1) % size, i, comm, next++);
        MPI_Isend(&sent[i], 1, MPI_INT, (rank + size - 1) % size, i, comm, next++);
    }
    const auto count = static_cast<int>(requests.size());
    int done = 0;
    while (test && !done) MPI_Testall(count, requests.data(), &done, MPI_STATUSES_IGNORE);
    if (!test) MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE);
    for (int i = 0; i < kCalls * size; ++i) CHECK(got[static_cast<size_t>(i)] == i % size);
    for (int i = 0; i < kMessages; ++i) CHECK(received[i] == (rank + 1) % size + i);
    if (rank != 0) MPI_Iallgather(&rank, 1, MPI_INT, early.data(), 1, MPI_INT, MPI_COMM_WORLD, &other);
    MPI_Wait(&other, MPI_STATUS_IGNORE);
    MPI_Comm_free(&comm);
}

// Many calls ahead in a receive of the MPI's own: who sends wants all of them first.
void ahead_of_a_message() {
    constexpr int kAhead = 40;
    std::vector<MPI_Request> requests(kAhead);
    std::vector<int> sent(kAhead), got(static_cast<size_t>(kAhead * size));
    for (int i = 0; i < kAhead; ++i) {
        const auto k = static_cast<size_t>(i);
        sent[k] = rank * 1000 + i;
        MPI_Iallgather(&sent[k], 1, MPI_INT, &got[k * static_cast<size_t>(size)], 1, MPI_INT, MPI_COMM_WORLD,
                       &requests[k]);
    }
    int message = -1;
    if (rank == 0 && size > 1) MPI_Recv(&message, 1, MPI_INT, 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank > 1) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Waitall(kAhead, requests.data(), MPI_STATUSES_IGNORE);
    if (rank == 1) MPI_Send(&rank, 1, MPI_INT, 0, 6, MPI_COMM_WORLD);
    if (rank < 2) MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < kAhead; ++i)
        for (int r = 0; r < size; ++r) CHECK(got[static_cast<size_t>(i * size + r)] == r * 1000 + i);
}

}  // namespace

PROGRAM(waits) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    by_wait();
    by_waitall(false);
    by_waitall(true);
    by_waitall_with_others_open();
    by_waitany(false);
    by_waitany(true);
    by_waitsome(false, false);
    by_waitsome(false, true);
    by_waitsome(true, false);
    by_waitsome(true, true);
    by_test();
    by_get_status();
    if (there_for_several) by_get_status_of_several();
    nothing();
    many_open();
    ahead_of_a_message();
    for (bool test : {false, true})
        if (size > 1) long_list(test);
    return finish("waits");
}
