// Large collectives, the same step again and again until the test says so, for tests that meddle with the job
// while it runs. Every byte of a step differs from the step before and is compared.
//      steady FOLDER [block bytes] [alone | allgather | blocking | computing]...
// Files in FOLDER: "progress" has every rank's steps (uint64_t each). While "sleep.R" is there, rank R enters
// nothing, and makes "asleep.R" then. "pause" lets all ranks end a step and then wait until it is gone; rank
// 0 makes "paused" then. "stop" ends the job. The ranks agree after each step (by MPI's own MPI_Allreduce):
// when one has got an error, all make some more steps, say what they came to and how long the longest took,
// and end in order. "alone": they do not agree; a rank that has got an error makes no further call.
// "allgather", "blocking": of blocks for all, by MPI_Iallgather or MPI_Allgather, else MPI_Ialltoall.
// "computing": allgathers, and before a rank waits for them it computes (here: sleeps) for 20 ms. Buffers are
// a rank's own again when it has got an error: it writes over all of them, and makes the file "spoiled" then.
#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"

namespace {

constexpr int kCalls = 4;  // open at once
constexpr uint64_t kStepsMore = 6;

int rank, size;
bool gathers = false, blocking = false, computing = false;
std::string folder;

bool exists(const std::string& name) {
    return access((folder + "/" + name).c_str(), F_OK) == 0;
}

void make(const std::string& name) {
    CHECK(close(creat((folder + "/" + name).c_str(), 0600)) == 0);
}

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What this rank sends and must receive in steps of one of two kinds.
struct Pattern {
    const size_t block;
    const int tag;
    std::vector<unsigned char> send, recv;
    Pattern(size_t its_block, int its_tag)
        : block(its_block), tag(its_tag), send(block * static_cast<size_t>(size)), recv(send.size()) {
        fill_send();
        for (int r = 0; r < size; ++r)
            fill(recv.data() + static_cast<size_t>(r) * block, block, r, gathers ? 0 : rank, tag);
    }
    void fill_send() {
        for (int r = 0; r < size; ++r)
            fill(send.data() + static_cast<size_t>(r) * block, block, rank, gathers ? 0 : r, tag);
    }
};

void spoil(Pattern* pattern, std::vector<std::vector<unsigned char>>* to) {
    std::fill(pattern->send.begin(), pattern->send.end(), 0xee);
    for (auto& buffer : *to) std::fill(buffer.begin(), buffer.end(), 0xdd);
    make("spoiled");
}

// MPI_SUCCESS, or the class of the first error. Every call is made, so that the ranks stay together.
int step(Pattern* pattern, std::vector<std::vector<unsigned char>>* to) {
    const int bytes = static_cast<int>(pattern->send.size() / static_cast<size_t>(size));
    std::vector<MPI_Request> requests(kCalls, MPI_REQUEST_NULL);
    int error = MPI_SUCCESS, results[kCalls] = {};
    const auto note = [&](size_t call, int rc) {
        if (results[call] == MPI_SUCCESS) results[call] = rc;
        if (error == MPI_SUCCESS && rc != MPI_SUCCESS) MPI_Error_class(rc, &error);
    };
    for (size_t i = 0; i < kCalls; ++i) {
        const auto* from = pattern->send.data();
        if (blocking)
            note(i, MPI_Allgather(from, bytes, MPI_BYTE, (*to)[i].data(), bytes, MPI_BYTE, MPI_COMM_WORLD));
        else
            note(i, (gathers ? MPI_Iallgather : MPI_Ialltoall)(from, bytes, MPI_BYTE, (*to)[i].data(), bytes,
                                                               MPI_BYTE, MPI_COMM_WORLD, &requests[i]));
    }
    if (computing) usleep(20'000);
    for (size_t i = 0; i < kCalls; ++i) note(i, MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    for (size_t i = 0; i < kCalls; ++i)
        CHECK(results[i] != MPI_SUCCESS ||
              memcmp((*to)[i].data(), pattern->recv.data(), pattern->recv.size()) == 0);
    if (error != MPI_SUCCESS) spoil(pattern, to);
    return error;
}

const char* name_of(int error) {
    return error == MPI_SUCCESS ? "success" : error == MPI_ERR_OTHER ? "MPI_ERR_OTHER" : "another class";
}

}  // namespace

PROGRAM(steady) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    folder = argc > 1 ? argv[1] : ".";
    const size_t block = argc > 2 ? static_cast<size_t>(atol(argv[2])) : 256 * 1024;
    const auto is_said = [&](const char* word) {
        return std::any_of(argv + std::min(argc, 3), argv + argc,
                           [word](const char* said) { return strcmp(said, word) == 0; });
    };
    const bool alone = is_said("alone");
    blocking = is_said("blocking");
    computing = is_said("computing");
    gathers = blocking || computing || is_said("allgather");
    Pattern patterns[2] = {{block, 1}, {block, 2}};
    std::vector<std::vector<unsigned char>> to(kCalls, std::vector<unsigned char>(patterns[0].recv.size()));
    const int progress = open((folder + "/progress").c_str(), O_RDWR | O_CREAT, 0600);
    CHECK(progress >= 0);

    enum { kStop, kPause, kError, kFlags };
    int all[kFlags] = {};
    for (uint64_t steps = 1; !all[kStop] && !all[kError]; ++steps) {
        const std::string own = std::to_string(rank);
        if (exists("sleep." + own)) make("asleep." + own);
        while (exists("sleep." + own)) usleep(5000);
        const double begin = now_s();
        const int first = step(&patterns[steps % 2], &to);
        const double first_s = now_s() - begin;
        CHECK(pwrite(progress, &steps, sizeof steps, static_cast<off_t>(sizeof steps) * rank) ==
              sizeof steps);
        if (alone) {
            all[kError] = first != MPI_SUCCESS;
            if (all[kError]) printf("rank %d: %s, alone\n", rank, name_of(first));
            fflush(stdout);
            continue;
        }
        const int mine[kFlags] = {exists("stop"), exists("pause"), first != MPI_SUCCESS};
        CHECK(MPI_Allreduce(mine, all, kFlags, MPI_INT, MPI_MAX, MPI_COMM_WORLD) == MPI_SUCCESS);
        if (all[kPause]) {
            if (rank == 0) make("paused");
            while (exists("pause")) usleep(5000);
        }
        if (!all[kError]) continue;
        // More than a communicator's ring has places: what is given up keeps its own for a while.
        int second = MPI_SUCCESS;
        double second_s = 0;
        for (uint64_t more = 1; more <= kStepsMore; ++more) {
            const double again = now_s();
            Pattern* pattern = &patterns[(steps + more) % 2];
            pattern->fill_send();  // others may succeed with what this rank has written over
            const int error = step(pattern, &to);
            if (more == 1 || error == MPI_SUCCESS) second = error;
            second_s = std::max(second_s, now_s() - again);
        }
        printf("rank %d: %s after %.2f s, then %s after %.2f s\n", rank, name_of(first), first_s,
               name_of(second), second_s);
        fflush(stdout);
    }
    close(progress);
    if (all[kError]) {
        MPI_Finalize();
        return 3;
    }
    return finish("steady");
}
