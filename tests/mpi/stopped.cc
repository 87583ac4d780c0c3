// Collectives that are under way while their ranks do nothing, or are stopped. Files in FOLDER say where each
// rank is, and others let it go on, so that a test can stop whom it likes in between.      stopped FOLDER
// BYTES [ROUNDS] Makes "pid.R" after a first round, and waits for "post"; posts, makes "posted.R", and waits
// for "look". What it then sees by one MPI_Testall is in "seen.R": "complete" or "incomplete". It completes
// that, makes so many rounds more, makes "done.R" and waits for "end".
#include <fcntl.h>

#include <cstring>
#include <string>
#include <vector>

#include "check.h"

namespace {

constexpr int kCalls = 2;

int rank, size;
std::string folder;

void wait_for(const char* name) {
    while (access((folder + "/" + name).c_str(), F_OK) != 0) usleep(20'000);
}

// There with its contents, or not there.
void tell(const char* name, const std::string& text) {
    const std::string path = folder + "/" + name + "." + std::to_string(rank), made = path + ".new";
    const int file = open(made.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    close(file);
    CHECK(rename(made.c_str(), path.c_str()) == 0);
}

// Blocks of an Ialltoallv and an Iallgatherv in the same buffers, round by round.
class Rounds {
  public:
    explicit Rounds(int bytes)
        : bytes_(static_cast<size_t>(bytes)), counts_(static_cast<size_t>(size), bytes) {
        for (int r = 0; r < size; ++r) places_.push_back(r * bytes);
        for (int call = 0; call < kCalls; ++call) {
            send_[call].resize(bytes_ * (call == 0 ? counts_.size() : 1));
            recv_[call].resize(bytes_ * counts_.size());
        }
    }

    void post(int tag) {
        for (int r = 0; r < size; ++r) fill(&send_[0][bytes_ * static_cast<size_t>(r)], bytes_, rank, r, tag);
        fill(send_[1].data(), bytes_, rank, size, tag);
        for (auto& recv : recv_) memset(recv.data(), 0x5a, recv.size());
        MPI_Ialltoallv(send_[0].data(), counts_.data(), places_.data(), MPI_BYTE, recv_[0].data(),
                       counts_.data(), places_.data(), MPI_BYTE, MPI_COMM_WORLD, &requests_[0]);
        MPI_Iallgatherv(send_[1].data(), counts_[0], MPI_BYTE, recv_[1].data(), counts_.data(),
                        places_.data(), MPI_BYTE, MPI_COMM_WORLD, &requests_[1]);
        tag_ = tag;
    }

    bool test() {
        int complete = 0;
        CHECK(MPI_Testall(kCalls, requests_, &complete, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
        return complete != 0;
    }

    void end() {
        CHECK(MPI_Waitall(kCalls, requests_, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
        for (int r = 0; r < size; ++r) {
            const size_t at = bytes_ * static_cast<size_t>(r);
            CHECK(is_filled(&recv_[0][at], bytes_, r, rank, tag_));
            CHECK(is_filled(&recv_[1][at], bytes_, r, size, tag_));
        }
    }

  private:
    size_t bytes_;
    std::vector<int> counts_, places_;
    std::vector<unsigned char> send_[kCalls], recv_[kCalls];
    MPI_Request requests_[kCalls] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int tag_ = 0;
};

}  // namespace

PROGRAM(stopped) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3) MPI_Abort(MPI_COMM_WORLD, 2);
    folder = argv[1];
    const int more = argc > 3 ? atoi(argv[3]) : 1;
    Rounds rounds(atoi(argv[2]));
    rounds.post(0);
    rounds.end();
    tell("pid", std::to_string(getpid()));
    wait_for("post");
    rounds.post(1);
    tell("posted", "");
    wait_for("look");
    const bool complete = rounds.test();
    tell("seen", complete ? "complete" : "incomplete");
    rounds.end();
    for (int i = 0; i < more; ++i) {
        rounds.post(2 + i);
        rounds.end();
    }
    tell("done", "");
    wait_for("end");
    return finish("stopped");
}
