// Large collectives, the same step again and again until the test says so, for tests that meddle with the job
// while it runs. Every byte of a step differs from the step before and is compared.      steady FOLDER [block
// bytes] In FOLDER: "progress" has every rank's steps (uint64_t each); while "sleep.R" is there rank R enters
// nothing; "stop" ends the job. After an error every rank says how long its call took, tries once more and
// ends in order.
#include <fcntl.h>

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"

namespace {

constexpr int kCalls = 4;  // open at once

int rank, size;
std::string folder;

bool exists(const std::string& name) {
    return access((folder + "/" + name).c_str(), F_OK) == 0;
}

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What this rank sends and must receive in steps of one of two kinds.
struct Pattern {
    std::vector<unsigned char> send, recv;
    Pattern(size_t block, int tag) : send(block * static_cast<size_t>(size)), recv(send.size()) {
        for (int r = 0; r < size; ++r) {
            fill(send.data() + static_cast<size_t>(r) * block, block, rank, r, tag);
            fill(recv.data() + static_cast<size_t>(r) * block, block, r, rank, tag);
        }
    }
};

// One call of every form: MPI_SUCCESS, or the first error.
int step(const Pattern& pattern, std::vector<std::vector<unsigned char>>* to, int* stop) {
    const int bytes = static_cast<int>(pattern.send.size() / static_cast<size_t>(size));
    std::vector<MPI_Request> requests(kCalls, MPI_REQUEST_NULL);
    int error = MPI_SUCCESS;
    const auto note = [&error](int rc) {
        if (error == MPI_SUCCESS) error = rc;
    };
    for (size_t i = 0; i < kCalls; ++i)
        note(MPI_Ialltoall(pattern.send.data(), bytes, MPI_BYTE, (*to)[i].data(), bytes, MPI_BYTE,
                           MPI_COMM_WORLD, &requests[i]));
    for (MPI_Request& request : requests) note(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (error != MPI_SUCCESS) return error;
    for (const auto& got : *to) CHECK(memcmp(got.data(), pattern.recv.data(), got.size()) == 0);
    *stop = exists("stop");
    return MPI_Bcast(stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    folder = argc > 1 ? argv[1] : ".";
    const size_t block = argc > 2 ? static_cast<size_t>(atol(argv[2])) : 256 * 1024;
    const Pattern patterns[2] = {{block, 1}, {block, 2}};
    std::vector<std::vector<unsigned char>> to(kCalls, std::vector<unsigned char>(patterns[0].recv.size()));
    const int progress = open((folder + "/progress").c_str(), O_RDWR | O_CREAT, 0600);
    CHECK(progress >= 0);

    int stop = 0, error = MPI_SUCCESS;
    for (uint64_t steps = 1; stop == 0 && error == MPI_SUCCESS; ++steps) {
        while (exists("sleep." + std::to_string(rank))) usleep(5000);
        const double begin = now_s();
        error = step(patterns[steps % 2], &to, &stop);
        if (error != MPI_SUCCESS) {
            int kind = MPI_SUCCESS, ignored = 0;
            MPI_Error_class(error, &kind);
            const double first_s = now_s() - begin;
            const int again = step(patterns[0], &to, &ignored);
            printf("rank %d: %s after %.2f s, then %s after %.2f s\n", rank,
                   kind == MPI_ERR_OTHER ? "MPI_ERR_OTHER" : "another class", first_s,
                   again == MPI_SUCCESS ? "success" : "an error", now_s() - begin - first_s);
            fflush(stdout);
        }
        CHECK(pwrite(progress, &steps, sizeof steps, static_cast<off_t>(sizeof steps) * rank) ==
              sizeof steps);
    }
    close(progress);
    MPI_Barrier(MPI_COMM_WORLD);
    if (error != MPI_SUCCESS) {
        MPI_Finalize();
        return 3;
    }
    finish("steady");
}
