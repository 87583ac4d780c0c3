// Nonblocking calls that are waited for in different ways, kCalls of each: the statistics tell which were
// waited for at once (test_select.py). With still_clock.c the clock says nothing of who else wanted the
// cores.
#include <dlfcn.h>
#include <unistd.h>

#include <vector>

#include "check.h"

namespace {

constexpr int kCalls = 20;
constexpr int kBlock = 65536;

// A function of still_clock.c, if that is there.
template <class... Arguments>
void tell_clock(const char* name, Arguments... arguments) {
    if (auto* function = reinterpret_cast<void (*)(Arguments...)>(dlsym(RTLD_DEFAULT, name)))
        function(arguments...);
}

void compute() {
    constexpr int kUs = 20'000;
    usleep(kUs);
    tell_clock("still_clock_compute", kUs * 1000ll);
}

}  // namespace

PROGRAM(at_once) {
    MPI_Init(&argc, &argv);
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const auto whole = static_cast<size_t>(size) * kBlock;
    std::vector<char> out(whole), in(whole), more(whole);
    std::vector<int> counts(static_cast<size_t>(size), kBlock), places(counts.size());
    for (size_t r = 0; r < places.size(); ++r) places[r] = static_cast<int>(r) * kBlock;
    MPI_Request request, both[2];
    int done = 0;
    tell_clock("still_clock_begin");
    for (int i = 0; i < kCalls; ++i) {
        // Waited for at once, by each of the functions.
        MPI_Ialltoall(out.data(), kBlock, MPI_CHAR, in.data(), kBlock, MPI_CHAR, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Ialltoallv(out.data(), counts.data(), places.data(), MPI_CHAR, in.data(), counts.data(),
                       places.data(), MPI_CHAR, MPI_COMM_WORLD, &request);
        MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
        // After a computation.
        MPI_Ibcast(in.data(), kBlock, MPI_CHAR, 0, MPI_COMM_WORLD, &request);
        compute();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        // Two of them, each of which overlaps with the other.
        MPI_Iallgather(out.data(), kBlock, MPI_CHAR, in.data(), kBlock, MPI_CHAR, MPI_COMM_WORLD, &both[0]);
        MPI_Iallgather(out.data(), kBlock, MPI_CHAR, more.data(), kBlock, MPI_CHAR, MPI_COMM_WORLD, &both[1]);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        // Tested while the program does something else.
        MPI_Igather(out.data(), kBlock, MPI_CHAR, in.data(), kBlock, MPI_CHAR, 0, MPI_COMM_WORLD, &request);
        for (done = 0; !done;) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
    tell_clock("still_clock_end");
    return finish("at_once");
}
