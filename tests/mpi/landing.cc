// Nonblocking allgathers and broadcasts during which the ranks call no MPI, so that service processes do what
// there is to do. How much they wrote is in the statistics; the caller compares algorithms.
//      landing buffers     a call is waited for when all blocks are in the ranks' buffers
//      landing             ... or after a while, if they only come there when a rank waits
#include <dlfcn.h>

#include <vector>

#include "check.h"
#include "longshore.h"
#include "services.h"

namespace {

constexpr int kBytes = 50'000;
constexpr int kCallsPerKind = 4;
constexpr int kStepUs = 2'000;
constexpr int kStepsMin = 20, kStepsMax = 5'000;

int rank, size;
bool into_buffers;
uint64_t payload = 0;   // of all ranks' blocks
uint64_t expected = 0;  // in this rank's buffers

uint64_t moved() {
    static const auto get =
        reinterpret_cast<decltype(&longshore_get_counters)>(dlsym(RTLD_DEFAULT, "longshore_get_counters"));
    longshore_counters counters{};
    CHECK(get != nullptr && get(&counters) == 0);
    return counters.bytes_by_service + counters.bytes_by_rank;
}

void compute() {
    for (int i = 0; i < kStepsMax && (i < kStepsMin || (into_buffers && moved() < expected)); ++i)
        usleep(kStepUs);
}

void allgather(int tag) {
    const auto n = static_cast<size_t>(size);
    std::vector<unsigned char> send(kBytes), recv(n * kBytes);
    fill(send.data(), kBytes, rank, 0, tag);
    payload += n * kBytes;
    expected += (n - 1) * kBytes;
    MPI_Request request;
    MPI_Iallgather(send.data(), kBytes, MPI_BYTE, recv.data(), kBytes, MPI_BYTE, MPI_COMM_WORLD, &request);
    compute();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int r = 0; r < size; ++r) CHECK(is_filled(recv.data() + r * kBytes, kBytes, r, 0, tag));
}

void bcast(int tag) {
    const int root = tag % size;
    std::vector<unsigned char> data(kBytes);
    if (rank == root) fill(data.data(), kBytes, root, 0, tag);
    payload += kBytes;
    expected += rank == root ? 0 : kBytes;
    MPI_Request request;
    MPI_Ibcast(data.data(), kBytes, MPI_BYTE, root, MPI_COMM_WORLD, &request);
    compute();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(is_filled(data.data(), kBytes, root, 0, tag));
}

}  // namespace

PROGRAM(landing) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    into_buffers = argc > 1;
    for (int tag = 0; tag < kCallsPerKind; ++tag) {
        allgather(tag);
        bcast(tag + 3);
    }
    if (rank == 0) printf("payload: %llu bytes\n", static_cast<unsigned long long>(payload));
    wait_until_services_sleep();
    return finish("landing");
}
