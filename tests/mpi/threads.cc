// Threads. Under MPI_THREAD_MULTIPLE: each on a communicator of its own, which makes more of them; one that
// posts and others that wait; one list of requests in shares; and one that waits for a late rank must not
// keep another from its own calls. Under MPI_THREAD_SERIALIZED: in turns.
//      threads [serialized|unasked|large]      unasked: MPI_Init, where a setting of the MPI gives
//      MPI_THREAD_MULTIPLE all the same
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr int kThreads = 3;
constexpr int kRounds = 60;

int rank, size;

void in_threads(int count, const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int t = 0; t < count; ++t) threads.emplace_back(body, t);
    for (std::thread& thread : threads) thread.join();
}

struct Exchange {
    std::vector<unsigned char> send, recv;
    int bytes, tag;
    MPI_Request request = MPI_REQUEST_NULL;

    Exchange(int bytes_of_block, int tag_of_call)
        : send(static_cast<size_t>(bytes_of_block * size)),
          recv(send.size(), 0xEE),
          bytes(bytes_of_block),
          tag(tag_of_call) {
        for (int r = 0; r < size; ++r) fill(send.data() + at(r), static_cast<uint64_t>(bytes), rank, r, tag);
    }
    size_t at(int r) const { return static_cast<size_t>(r * bytes); }
    void run(MPI_Comm comm) {
        MPI_Alltoall(send.data(), bytes, MPI_BYTE, recv.data(), bytes, MPI_BYTE, comm);
    }
    void start(MPI_Comm comm) {
        MPI_Ialltoall(send.data(), bytes, MPI_BYTE, recv.data(), bytes, MPI_BYTE, comm, &request);
    }
    void check() const {
        for (int r = 0; r < size; ++r)
            CHECK(is_filled(recv.data() + at(r), static_cast<uint64_t>(bytes), r, rank, tag));
    }
};

int bytes_of(int i) {
    constexpr int kBytes[] = {7, 900, 5000, 70'000};
    return kBytes[i % 4];
}

std::vector<MPI_Comm> duplicates(int count) {
    std::vector<MPI_Comm> comms(static_cast<size_t>(count));
    for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    return comms;
}

void free_all(std::vector<MPI_Comm>* comms) {
    for (MPI_Comm& comm : *comms) MPI_Comm_free(&comm);
}

void each_its_own() {
    std::vector<MPI_Comm> comms = duplicates(kThreads);
    in_threads(kThreads, [&](int t) {
        MPI_Comm comm = comms[static_cast<size_t>(t)], child = MPI_COMM_NULL;
        for (int i = 0; i < kRounds; ++i) {
            Exchange first(bytes_of(i + t), 10 * i + t), second(bytes_of(i), 10 * i + t + 5);
            first.start(comm);
            second.run(child == MPI_COMM_NULL ? comm : child);
            if (i % 2)
                MPI_Wait(&first.request, MPI_STATUS_IGNORE);
            else
                for (int done = 0; !done;) MPI_Test(&first.request, &done, MPI_STATUS_IGNORE);
            first.check();
            second.check();
            if (i % 4 != 0) continue;
            if (child != MPI_COMM_NULL) MPI_Comm_free(&child);
            MPI_Comm_split(comm, 0, rank, &child);
        }
        MPI_Comm_free(&child);
    });
    free_all(&comms);
}

// One posts on one communicator, the others wait, each for what comes to its hands.
void one_posts_others_wait() {
    constexpr int kCalls = 90;
    std::vector<Exchange> calls;
    for (int i = 0; i < kCalls; ++i) calls.emplace_back(bytes_of(i), i);
    std::mutex mutex;
    std::condition_variable posted;
    int ready = 0, taken = 0;
    in_threads(kThreads, [&](int t) {
        for (int i = 0; t == 0 && i < kCalls; ++i) {
            calls[static_cast<size_t>(i)].start(MPI_COMM_WORLD);
            std::lock_guard<std::mutex> lock(mutex);
            ++ready;
            posted.notify_one();
        }
        for (;;) {
            std::unique_lock<std::mutex> lock(mutex);
            if (taken == kCalls) break;
            const int mine = taken++;
            posted.wait(lock, [&] { return mine < ready; });
            lock.unlock();
            Exchange& call = calls[static_cast<size_t>(mine)];
            int index = 0, count = 0;
            if (mine % 3 == 0) MPI_Wait(&call.request, MPI_STATUS_IGNORE);
            if (mine % 3 == 1) MPI_Waitany(1, &call.request, &index, MPI_STATUS_IGNORE);
            if (mine % 3 == 2) MPI_Waitsome(1, &call.request, &count, &index, MPI_STATUSES_IGNORE);
            CHECK(call.request == MPI_REQUEST_NULL);
            call.check();
        }
    });
}

void a_list_in_shares() {
    constexpr int kShare = 12;
    std::vector<Exchange> calls;
    for (int i = 0; i < kShare * kThreads; ++i) calls.emplace_back(bytes_of(i), 1000 + i);
    std::vector<MPI_Request> requests;
    for (Exchange& call : calls) {
        call.start(MPI_COMM_WORLD);
        requests.push_back(call.request);
    }
    in_threads(kThreads, [&](int t) {
        MPI_Waitall(kShare, requests.data() + t * kShare, MPI_STATUSES_IGNORE);
        for (int i = 0; i < kShare; ++i) calls[static_cast<size_t>(t * kShare + i)].check();
    });
}

// The last rank's first thread enters only when its second has ended: until then the others' first threads
// wait, and nobody's second may be held up by that.
void late_rank() {
    constexpr int kForms = 6;
    std::vector<MPI_Comm> comms = duplicates(2);
    for (int form = 0; form < kForms; ++form) {
        std::atomic<bool> second_ended{false};
        in_threads(2, [&](int t) {
            if (t == 1) {
                for (int i = 0; i < 40; ++i) {
                    Exchange call(bytes_of(i), 2000 + i);
                    if (i % 2) {
                        call.run(comms[1]);
                    } else {
                        call.start(comms[1]);
                        MPI_Wait(&call.request, MPI_STATUS_IGNORE);
                    }
                    call.check();
                }
                second_ended = true;
                return;
            }
            while (rank == size - 1 && !second_ended) usleep(1000);
            Exchange call(70'000, 3000 + form);
            int index = 0, count = 0;
            MPI_Comm made;
            if (form == 0) call.run(comms[0]);
            if (form > 0) call.start(comms[0]);
            if (form == 1) MPI_Wait(&call.request, MPI_STATUS_IGNORE);
            if (form == 2) MPI_Waitall(1, &call.request, MPI_STATUSES_IGNORE);
            if (form == 3) MPI_Waitany(1, &call.request, &index, MPI_STATUS_IGNORE);
            if (form == 4) MPI_Waitsome(1, &call.request, &count, &index, MPI_STATUSES_IGNORE);
            if (form == 5) {
                MPI_Comm_dup(comms[0], &made);  // waits as well
                MPI_Comm_free(&made);
                MPI_Wait(&call.request, MPI_STATUS_IGNORE);
            }
            call.check();
        });
    }
    free_all(&comms);
}

// Elements that do not fit one MPI_Pack (LONGSHORE_INTERNAL_PACK_BYTES_MAX makes that few bytes), packed and
// unpacked in all threads at once.
void large_elements() {
    static constexpr int kBytes = 3000, kGap = 8, kElement = kBytes + kGap, kElements = 200;
    std::vector<MPI_Comm> comms = duplicates(kThreads);
    MPI_Datatype type = with_hole(kBytes, kGap);
    in_threads(kThreads, [&](int t) {
        const int all = size * kElements;
        std::vector<unsigned char> send(static_cast<size_t>(all) * kElement), recv(send);
        MPI_Comm comm = comms[static_cast<size_t>(t)];
        for (int i = 0; i < kRounds; ++i) {
            const int tag = 1000 * t + i;
            for (int e = 0; e < all; ++e)
                fill(&send[static_cast<size_t>(e) * kElement], kBytes, rank, e / kElements, tag);
            MPI_Request request = MPI_REQUEST_NULL;
            if (i % 2)
                MPI_Alltoall(send.data(), kElements, type, recv.data(), kElements, type, comm);
            else
                MPI_Ialltoall(send.data(), kElements, type, recv.data(), kElements, type, comm, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            for (int e = 0; e < all; ++e)
                CHECK(is_filled(&recv[static_cast<size_t>(e) * kElement], kBytes, e / kElements, rank, tag));
        }
    });
    MPI_Type_free(&type);
    free_all(&comms);
}

void in_turns() {
    std::mutex turn;
    std::condition_variable changed;
    int next = 0;
    in_threads(kThreads, [&](int t) {
        for (int i = 0; i < kRounds; ++i) {
            std::unique_lock<std::mutex> lock(turn);
            changed.wait(lock, [&] { return next == t; });
            Exchange first(bytes_of(i), i), second(bytes_of(i + 1), i + 100);
            first.start(MPI_COMM_WORLD);
            second.run(MPI_COMM_WORLD);
            MPI_Wait(&first.request, MPI_STATUS_IGNORE);
            first.check();
            second.check();
            next = (t + 1) % kThreads;
            changed.notify_all();
        }
    });
}

}  // namespace

PROGRAM(threads) {
    const bool serialized = argc > 1 && strcmp(argv[1], "serialized") == 0;
    const int wanted = serialized ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE;
    int provided = 0;
    if (argc > 1 && strcmp(argv[1], "unasked") == 0) {
        MPI_Init(&argc, &argv);
        MPI_Query_thread(&provided);
    } else {
        MPI_Init_thread(&argc, &argv, wanted, &provided);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(provided >= wanted);
    if (serialized) {
        in_turns();
    } else if (argc > 1 && strcmp(argv[1], "large") == 0) {
        large_elements();
    } else {
        each_its_own();
        one_posts_others_wait();
        a_list_in_shares();
        late_rank();
    }
    return finish("threads");
}
