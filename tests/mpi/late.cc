// The last rank enters an allgather late, and an alltoall. What service processes counted meanwhile is in the
// statistics; the caller looks.
#include <vector>

#include "check.h"

namespace {

constexpr int kBytes = 20'000;        // read, not sent along with the notification
constexpr int kLateUs = 120'000;      // less than after which a notification is repeated
constexpr int kPublishedUs = 50'000;  // service processes publish their figures when they go to sleep

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const auto all = static_cast<size_t>(size) * kBytes;
    std::vector<unsigned char> send(all), recv(all);

    fill(send.data(), kBytes, rank, 0, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) usleep(kLateUs);
    MPI_Allgather(send.data(), kBytes, MPI_BYTE, recv.data(), kBytes, MPI_BYTE, MPI_COMM_WORLD);
    for (int r = 0; r < size; ++r) CHECK(is_filled(recv.data() + r * kBytes, kBytes, r, 0, 1));

    for (int r = 0; r < size; ++r) fill(send.data() + r * kBytes, kBytes, rank, r, 2);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) usleep(kLateUs);
    MPI_Alltoall(send.data(), kBytes, MPI_BYTE, recv.data(), kBytes, MPI_BYTE, MPI_COMM_WORLD);
    for (int r = 0; r < size; ++r) CHECK(is_filled(recv.data() + r * kBytes, kBytes, r, rank, 2));

    usleep(kPublishedUs);
    finish("late");
}
