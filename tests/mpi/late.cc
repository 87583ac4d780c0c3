// The last rank enters an allgather late, and an alltoall. What service processes counted meanwhile is in the
// statistics; the caller looks.
#include <vector>

#include "check.h"
#include "services.h"

namespace {

constexpr int kBytes = 20'000;  // read, not sent along with the notification
constexpr int kLateUs = 300'000;

// The last rank, when the others have begun a call that they are to begin before it, and service processes
// have heard of that.
void come_late(int rank, int size, bool begun) {
    if (rank != size - 1 && begun) MPI_Send(nullptr, 0, MPI_BYTE, size - 1, 0, MPI_COMM_WORLD);
    if (rank != size - 1 || begun) return;
    for (int r = 0; r < size - 1; ++r)
        MPI_Recv(nullptr, 0, MPI_BYTE, r, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    wait_until_services_sleep();
    usleep(kLateUs);
}

}  // namespace

PROGRAM(late) {
    MPI_Init(&argc, &argv);
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const auto all = static_cast<size_t>(size) * kBytes;
    std::vector<unsigned char> send(all), recv(all);

    fill(send.data(), kBytes, rank, 0, 1);
    MPI_Request request;
    come_late(rank, size, false);
    MPI_Iallgather(send.data(), kBytes, MPI_BYTE, recv.data(), kBytes, MPI_BYTE, MPI_COMM_WORLD, &request);
    come_late(rank, size, true);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int r = 0; r < size; ++r) CHECK(is_filled(recv.data() + r * kBytes, kBytes, r, 0, 1));

    for (int r = 0; r < size; ++r) fill(send.data() + r * kBytes, kBytes, rank, r, 2);
    come_late(rank, size, false);
    MPI_Ialltoall(send.data(), kBytes, MPI_BYTE, recv.data(), kBytes, MPI_BYTE, MPI_COMM_WORLD, &request);
    come_late(rank, size, true);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int r = 0; r < size; ++r) CHECK(is_filled(recv.data() + r * kBytes, kBytes, r, rank, 2));

    wait_until_services_sleep();
    return finish("late");
}
