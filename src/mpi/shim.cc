#include "mpi/shim.h"

#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/file.h"

namespace longshore::mpi {

// Before any other object of this library.
__attribute__((init_priority(101))) ForeverShim the_shim;

uint64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void drive_native() {
    int flag = 0;
    if (shim().world == MPI_COMM_NULL) return;
    PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, shim().world, &flag, MPI_STATUS_IGNORE);
}

void say(LogLevel level, const std::string& line) {
    if (level > shim().settings.log) return;
    fprintf(stderr, "longshore: %s\n", line.c_str());
}

void wait_until_heard() {
    wait_until_read(STDERR_FILENO);
}

void end_job(const char* why) {
    fprintf(
        stderr,
        "longshore: rank %d %s; the job ends here, because other ranks would wait for this one for ever\n",
        shim().rank, why);
    wait_until_heard();
    PMPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

bool fails_for_tests(const char* what) {
    const char* const failure = getenv("LONGSHORE_INTERNAL_FAIL");
    return failure && failure == std::string(what) + ":" + std::to_string(shim().rank);
}

}  // namespace longshore::mpi
