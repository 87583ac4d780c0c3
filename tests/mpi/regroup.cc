// Communicators that come and go, with calls on each, until the file "stop" is there, for tests that meddle
// with the job meanwhile.      regroup FOLDER
// "progress" has every rank's rounds (uint64_t each), of two calls each, which all ranks make together. While
// the file "apart" is there, which has a letter for each rank, the ranks with the same letter make rounds
// among themselves and need none of the others. "progress.apart" has these, of fourteen calls each.
#include <fcntl.h>

#include <fstream>
#include <string>
#include <vector>

#include "check.h"

namespace {

constexpr size_t kGathersTogether = 1, kGathersApart = 13;

std::string folder;
int world_rank, world_size;

bool exists(const char* name) {
    return access((folder + "/" + name).c_str(), F_OK) == 0;
}

// How many rounds of one kind this rank has made, in a file that the test reads.
class Progress {
  public:
    explicit Progress(const char* name)
        : file_(open((folder + "/" + name).c_str(), O_CREAT | O_WRONLY, 0600)) {
        CHECK(file_ >= 0);
    }
    ~Progress() { close(file_); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void count() {
        ++made_;
        CHECK(pwrite(file_, &made_, sizeof made_, static_cast<off_t>(sizeof made_) * world_rank) ==
              sizeof made_);
    }

  private:
    int file_;
    uint64_t made_ = 0;
};

// An MPI_Iallgather that is open, of blocks of `count` numbers.
class Gather {
  public:
    Gather(MPI_Comm comm, size_t size, size_t count, uint64_t own)
        : mine_(count, own), gathered_(size * count) {
        const auto n = static_cast<int>(count);
        MPI_Iallgather(mine_.data(), n, MPI_UINT64_T, gathered_.data(), n, MPI_UINT64_T, comm, &request_);
    }
    // `first`: what rank 0 has given; each of the others gave one more than the rank before.
    void end(uint64_t first) {
        MPI_Wait(&request_, MPI_STATUS_IGNORE);
        for (size_t i = 0; i < gathered_.size(); ++i) CHECK(gathered_[i] == first + i / mine_.size());
    }

  private:
    std::vector<uint64_t> mine_, gathered_;
    MPI_Request request_ = MPI_REQUEST_NULL;
};

// One communicator of all ranks of `parent`, and calls on it, which are open at once. `round` is the same on
// all of these ranks. The longest block has 2^(gathers - 1) numbers.
void make_round(MPI_Comm parent, uint64_t round, size_t gathers, Progress* progress) {
    MPI_Comm comm;
    MPI_Comm_dup(parent, &comm);
    int rank = 0, size = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const auto all = static_cast<size_t>(size);
    const uint64_t own = round + static_cast<uint64_t>(rank);
    std::vector<Gather> open;
    open.reserve(gathers);  // the calls have the addresses of their requests
    for (size_t i = 0; i < gathers; ++i) open.emplace_back(comm, all, size_t{1} << i, own);
    const std::vector<uint64_t> mine(all, own);
    std::vector<uint64_t> exchanged(all);
    MPI_Alltoall(mine.data(), 1, MPI_UINT64_T, exchanged.data(), 1, MPI_UINT64_T, comm);
    for (size_t r = 0; r < all; ++r) CHECK(exchanged[r] == round + r);
    for (Gather& gather : open) gather.end(round);
    MPI_Comm_free(&comm);
    progress->count();
}

// Whether any rank of `comm` says so, told to all of them by the MPI's own call.
bool any(MPI_Comm comm, bool mine) {
    const int said = mine;
    int result = 0;
    MPI_Allreduce(&said, &result, 1, MPI_INT, MPI_MAX, comm);
    return result != 0;
}

// The letters of "apart" as rank 0 has read them; none while the file is not there.
std::string read_letters() {
    std::vector<int> mine(static_cast<size_t>(world_size)), all(mine.size());
    if (world_rank == 0) {
        std::string letters;
        std::ifstream(folder + "/apart") >> letters;
        CHECK(letters.empty() || letters.size() == mine.size());
        for (size_t r = 0; r < letters.size(); ++r) mine[r] = letters[r];
    }
    MPI_Allreduce(mine.data(), all.data(), world_size, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return all[0] == 0 ? std::string() : std::string(all.begin(), all.end());
}

// All ranks with this rank's letter agree when they have seen that the file is gone: in one of these groups
// that may be long after another.
void go_apart(const std::string& letters, Progress* progress) {
    MPI_Comm own;
    MPI_Comm_split(MPI_COMM_WORLD, letters[static_cast<size_t>(world_rank)], world_rank, &own);
    // Counted anew each time: the ranks with this letter may have made different numbers of rounds before.
    uint64_t round = 0;
    do {
        make_round(own, ++round, kGathersApart, progress);
    } while (!any(own, !exists("apart")));
    MPI_Comm_free(&own);
}

}  // namespace

PROGRAM(regroup) {
    MPI_Init(&argc, &argv);
    CHECK(argc == 2);
    folder = argv[1];
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    Progress together("progress"), apart("progress.apart");
    uint64_t round = 0;
    do {
        make_round(MPI_COMM_WORLD, ++round, kGathersTogether, &together);
        const std::string letters = read_letters();
        if (!letters.empty()) go_apart(letters, &apart);
    } while (!any(MPI_COMM_WORLD, exists("stop")));
    return finish("regroup");
}
