// When blocks moved, as longshore_get_times says, beside the program's own clock: for ranks that move their
// blocks themselves, and for service processes alone. Switched off, nothing is told.
#include <dlfcn.h>
#include <time.h>

#include <vector>

#include "check.h"
#include "longshore.h"

namespace {

constexpr int kBytes = 600'000;  // three chunks
constexpr int kCalls = 20;

int rank, size;

template <class Function>
Function* find(const char* name) {
    auto* function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
    CHECK(function != nullptr);
    return function;
}

uint64_t now_ns() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

void set(const char* name, const char* value) {
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(find<decltype(longshore_set)>("longshore_set")(name, value) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

longshore_times times() {
    longshore_times result{};
    result.read_ns = 1;
    CHECK(find<decltype(longshore_get_times)>("longshore_get_times")(&result) == 0);
    return result;
}

bool is_nothing(const longshore_times& t) {
    return (t.published_ns | t.first_copy_ns | t.landed_ns | t.read_ns | t.copies_by_ranks_ns |
            t.copies_by_services_ns) == 0;
}

void alltoall() {
    static std::vector<char> send(static_cast<size_t>(size) * kBytes), recv(send.size());
    MPI_Request request;
    MPI_Ialltoall(send.data(), kBytes, MPI_BYTE, recv.data(), kBytes, MPI_BYTE, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void check_alltoall(bool cooperative) {
    const uint64_t begin = now_ns();
    alltoall();
    const uint64_t end = now_ns();
    const longshore_times t = times();
    CHECK(t.published_ns >= begin && t.published_ns <= end);
    CHECK(t.first_copy_ns >= begin && t.first_copy_ns < t.landed_ns && t.first_copy_ns < t.read_ns);
    CHECK(t.landed_ns <= end && t.read_ns <= end);
    CHECK(t.copies_by_ranks_ns + t.copies_by_services_ns > 0);
    CHECK(cooperative ||
          (t.copies_by_ranks_ns == 0 && t.copies_by_services_ns <= t.landed_ns - t.first_copy_ns));
}

void check_bcast() {
    static std::vector<char> data(kBytes);
    const uint64_t begin = now_ns();
    MPI_Bcast(data.data(), kBytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    const uint64_t end = now_ns();
    const longshore_times t = times();
    CHECK((t.landed_ns != 0) == (rank != 0) && (t.read_ns != 0) == (rank == 0));
    CHECK(t.first_copy_ns >= begin && t.landed_ns + t.read_ns <= end);
}

}  // namespace

PROGRAM(times) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    alltoall();
    CHECK(is_nothing(times()));
    if (const char* nodes = getenv("LONGSHORE_NODES_COUNT"); nodes && atoi(nodes) > 1 && size > 1) {
        // What crosses leaves no times, and a part of them would mislead.
        CHECK(find<decltype(longshore_set)>("longshore_set")("breakdown", "on") == -1);
        return finish("times");
    }
    set("breakdown", "on");
    for (int i = 0; i < kCalls; ++i) check_alltoall(true);
    for (int i = 0; i < kCalls; ++i) check_bcast();
    set("cooperative", "off");
    for (int i = 0; i < kCalls; ++i) check_alltoall(false);
    set("breakdown", "off");
    CHECK(is_nothing(times()));
    alltoall();
    CHECK(is_nothing(times()));
    CHECK(find<decltype(longshore_set)>("longshore_set")("breakdown", "perhaps") == -1);
    return finish("times");
}
