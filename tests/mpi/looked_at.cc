// MPICH's ways to look at a request without the calls that MPI has for it: MPIX_Request_is_complete beside
// MPIX_Stream_progress, and from functions that MPICH calls whenever it makes progress (MPIX_Async_start).
// Offloaded requests become complete there, too.
//      looked_at [multiple]
#include <cstring>
#include <vector>

#include "check.h"
#include "persistent.h"

namespace {

constexpr int kBytes = 100'000;
int rank, size;

class Exchange {
  public:
    explicit Exchange(int tag) : tag_(tag), send_(room()), recv_(room()) {
        for (int r = 0; r < size; ++r) fill(&send_[at(r)], kBytes, rank, r, tag);
    }
    MPI_Request request = MPI_REQUEST_NULL;

    void post() {
        MPI_Ialltoall(send_.data(), kBytes, MPI_BYTE, recv_.data(), kBytes, MPI_BYTE, MPI_COMM_WORLD,
                      &request);
    }
    void make() {
        INIT(Alltoall)
        (send_.data(), kBytes, MPI_BYTE, recv_.data(), kBytes, MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL,
         &request);
    }
    void check() {
        for (int r = 0; r < size; ++r) CHECK(is_filled(&recv_[at(r)], kBytes, r, rank, tag_));
        recv_.assign(room(), 0);
    }

  private:
    static size_t at(int r) { return static_cast<size_t>(r * kBytes); }
    static size_t room() { return at(size); }

    int tag_;
    std::vector<unsigned char> send_, recv_;
};

void progress_until_complete(MPI_Request request) {
    while (!MPIX_Request_is_complete(request)) MPIX_Stream_progress(MPIX_STREAM_NULL);
}

// Called in MPICH's progress until the request is complete.
bool seen_complete = false;
int look(MPIX_Async_thing thing) {
    if (!MPIX_Request_is_complete(*static_cast<MPI_Request*>(MPIX_Async_get_state(thing))))
        return MPIX_ASYNC_NOPROGRESS;
    seen_complete = true;
    return MPIX_ASYNC_DONE;
}

void progress_until_seen(MPI_Request* request) {
    seen_complete = false;
    MPIX_Async_start(look, request, MPIX_STREAM_NULL);
    while (!seen_complete) MPIX_Stream_progress(MPIX_STREAM_NULL);
}

// In a wait for a message that comes when the sender has seen its own request complete.
void receive_until_seen(MPI_Request* request) {
    const int next = (rank + 1) % size;
    if (rank == 0) progress_until_complete(*request);
    seen_complete = rank == 0;
    if (rank != 0) MPIX_Async_start(look, request, MPIX_STREAM_NULL);
    if (rank == 0) MPI_Send(nullptr, 0, MPI_BYTE, next, 0, MPI_COMM_WORLD);
    MPI_Recv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    while (!seen_complete) MPIX_Stream_progress(MPIX_STREAM_NULL);
    if (rank != 0) MPI_Send(nullptr, 0, MPI_BYTE, next, 0, MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
    int provided = 0;
    const bool multiple = argc > 1 && strcmp(argv[1], "multiple") == 0;
    MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 0; round < 20; ++round) {
        Exchange first(round), second(round + 100), third(round + 200);
        first.post();
        second.post();
        third.post();
        progress_until_complete(first.request);
        progress_until_seen(&second.request);
        receive_until_seen(&third.request);
        for (Exchange* one : {&first, &second, &third}) {
            one->check();
            MPI_Wait(&one->request, MPI_STATUS_IGNORE);
        }
    }
    Exchange kept(7);
    kept.make();
    for (int round = 0; round < 20; ++round) {
        MPI_Start(&kept.request);
        if (round % 2)
            progress_until_complete(kept.request);
        else
            progress_until_seen(&kept.request);
        kept.check();
        MPI_Wait(&kept.request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&kept.request);
    finish("looked_at");
}
