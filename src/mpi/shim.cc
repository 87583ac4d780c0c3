#include "mpi/shim.h"

#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

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

namespace {

int tags_used = 0;
std::vector<int>& free_tags() {
    static auto* tags = new std::vector<int>;
    return *tags;
}

}  // namespace

int take_own_tag() {
    ContextLock lock;
    if (free_tags().empty()) return ++tags_used;
    const int tag = free_tags().back();
    free_tags().pop_back();
    return tag;
}

void give_own_tag(int tag) {
    if (tag == 0) return;
    ContextLock lock;
    free_tags().push_back(tag);
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

uint64_t for_tests(const char* variable, uint64_t otherwise) {
    const char* const text = getenv(variable);
    return text ? strtoull(text, nullptr, 10) : otherwise;
}

bool fails_for_tests(const char* what) {
    const char* const failure = getenv("LONGSHORE_INTERNAL_FAIL");
    return failure && failure == std::string(what) + ":" + std::to_string(shim().rank);
}

}  // namespace longshore::mpi
