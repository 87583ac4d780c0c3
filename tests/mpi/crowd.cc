// A crowd of threads under MPI_THREAD_MULTIPLE. Each has communicators of its own, which it makes and frees
// again and again, and random collectives on them, blocking and not (stress_call.h). Of its requests it waits
// for some itself; others are waited for by threads that do nothing else. Every byte is checked.
//      crowd [seed [steps [threads]]]      steps: of each thread
// LONGSHORE_INTERNAL_TEST_PROGRESS=1 shows how far it is.
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "stress_call.h"

using namespace stress;

namespace {

constexpr int kThreads = 8, kWaiters = 3;
constexpr size_t kComms = 3;
constexpr size_t kOpenMax = 6;    // that a thread keeps
constexpr size_t kGivenMax = 32;  // that wait for a waiter

int rank, size;

struct Open {
    std::unique_ptr<Call> call;
    MPI_Request request = MPI_REQUEST_NULL;
};
using OpenList = std::vector<std::unique_ptr<Open>>;

// Waits for the first `count`, or looks at them, in a way that this rank draws alone; those that are over are
// checked and taken out.
void complete_some(OpenList* open, size_t count, Random* own) {
    std::vector<MPI_Request> requests;
    for (size_t i = 0; i < count; ++i) requests.push_back((*open)[i]->request);
    const int n = static_cast<int>(count);
    std::vector<int> indices(count);
    int done = 0;
    switch (below(own, 7)) {
        case 0:
            CHECK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE) == MPI_SUCCESS);
            break;
        case 1:
            CHECK(MPI_Waitany(n, requests.data(), &done, MPI_STATUS_IGNORE) == MPI_SUCCESS);
            break;
        case 2:
            CHECK(MPI_Waitsome(n, requests.data(), &done, indices.data(), MPI_STATUSES_IGNORE) ==
                  MPI_SUCCESS);
            break;
        case 3:
            CHECK(MPI_Waitall(n, requests.data(), MPI_STATUSES_IGNORE) == MPI_SUCCESS);
            break;
        case 4:
            CHECK(MPI_Test(&requests[0], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS);
            break;
        case 5:
            CHECK(MPI_Testsome(n, requests.data(), &done, indices.data(), MPI_STATUSES_IGNORE) ==
                  MPI_SUCCESS);
            break;
        default:
            CHECK(MPI_Testall(n, requests.data(), &done, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    }
    for (size_t i = count; i-- > 0;) {
        if (requests[i] != MPI_REQUEST_NULL) continue;
        (*open)[i]->call->check();
        open->erase(open->begin() + static_cast<std::ptrdiff_t>(i));
    }
}

// What threads have posted and others are to wait for.
class Given {
  public:
    explicit Given(int posters) : posters_(posters) {}

    // False: there are enough.
    bool give(std::unique_ptr<Open>* open) {
        const std::lock_guard lock(mutex_);
        if (waiting_.size() >= kGivenMax) return false;
        waiting_.push_back(std::move(*open));
        changed_.notify_one();
        return true;
    }
    void end_poster() {
        const std::lock_guard lock(mutex_);
        --posters_;
        changed_.notify_all();
    }
    // Blocks until there are some. Empty: there will be no more.
    OpenList take(size_t most) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !waiting_.empty() || posters_ == 0; });
        OpenList taken;
        for (; !waiting_.empty() && taken.size() < most; waiting_.pop_front())
            taken.push_back(std::move(waiting_.front()));
        return taken;
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::unique_ptr<Open>> waiting_;
    int posters_;
};

void wait_for_others(Given* given, uint64_t seed, int thread) {
    Random own(mix(seed, 5, static_cast<uint64_t>(rank), static_cast<uint64_t>(thread)));
    for (OpenList open; !(open = given->take(static_cast<size_t>(1 + below(&own, 4)))).empty();)
        while (!open.empty()) complete_some(&open, open.size(), &own);
}

// One of the threads that post; its like in the other ranks does the same.
class Poster {
  public:
    Poster(Given* given, uint64_t seed, int thread, MPI_Comm first)
        : given_(*given),
          label_(mix(seed, 6, static_cast<uint64_t>(thread), 0)),
          common_(label_),
          own_(mix(label_, static_cast<uint64_t>(rank), 0, 0)) {
        comms_.push_back(std::make_shared<Comm>(first, false));
        while (comms_.size() < kComms) comms_.push_back(make_comm());
    }

    void run(uint64_t steps, bool shows) {
        for (uint64_t step = 0; step < steps; ++step) {
            if (shows && step % 500 == 0) {
                printf("crowd: %llu of %llu steps\n", static_cast<unsigned long long>(step),
                       static_cast<unsigned long long>(steps));
                fflush(stdout);
            }
            if (below(&common_, 8) == 0) replace_comm();
            collective(step);
            if (below(&own_, 100) == 0) usleep(static_cast<unsigned>(below(&own_, 2000)));
            while (open_.size() > kOpenMax || (!open_.empty() && below(&own_, 3) == 0)) complete();
        }
        while (!open_.empty()) complete();
        for (const auto& comm : comms_) free(comm.get());
        given_.end_poster();
    }

  private:
    void collective(uint64_t step) {
        const Plan plan = Plan::draw(mix(label_, step, 0, 7), &common_);
        const auto& comm = comms_[static_cast<size_t>(below(&common_, static_cast<int>(kComms)))];
        auto open = std::make_unique<Open>();
        open->call = std::make_unique<Call>(plan, comm, &own_);
        open->request = open->call->start();
        if (plan.blocking) return open->call->check();
        if (below(&own_, 2) != 0 || !given_.give(&open)) open_.push_back(std::move(open));
    }

    void complete() {
        std::shuffle(open_.begin(), open_.end(), own_);
        complete_some(&open_, static_cast<size_t>(1 + below(&own_, static_cast<int>(open_.size()))), &own_);
    }

    // Of the first one, which stays. Two ranks are not split: one alone has nothing to exchange.
    std::shared_ptr<Comm> make_comm() {
        const MPI_Comm parent = comms_[0]->handle;
        const int way = below(&common_, 4), me = comms_[0]->rank;
        MPI_Comm made = MPI_COMM_NULL;
        if (way == 0 && size > 2)
            MPI_Comm_split(parent, me % 2, me, &made);
        else if (way == 1)
            MPI_Comm_split(parent, 0, -me, &made);
        else
            MPI_Comm_dup(parent, &made);
        return std::make_shared<Comm>(made, false);
    }

    // Calls on the one that goes may still be open.
    void replace_comm() {
        auto& comm = comms_[static_cast<size_t>(1 + below(&common_, static_cast<int>(kComms) - 1))];
        free(comm.get());
        comm = make_comm();
    }

    static void free(Comm* comm) { MPI_Comm_free(&comm->handle); }

    Given& given_;
    uint64_t label_;
    Random common_, own_;
    std::vector<std::shared_ptr<Comm>> comms_;
    OpenList open_;
};

}  // namespace

PROGRAM(crowd) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const uint64_t seed = argc > 1 ? strtoull(argv[1], nullptr, 10) : 1;
    const uint64_t steps = argc > 2 ? strtoull(argv[2], nullptr, 10) : 50;
    const int posters = argc > 3 ? atoi(argv[3]) : kThreads;
    const bool shows = rank == 0 && getenv("LONGSHORE_INTERNAL_TEST_PROGRESS") != nullptr;
    std::vector<MPI_Comm> comms(static_cast<size_t>(posters));
    for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    Given given(posters);
    std::vector<std::thread> threads;
    for (int t = 0; t < posters; ++t)
        threads.emplace_back(
            [&, t] { Poster(&given, seed, t, comms[static_cast<size_t>(t)]).run(steps, shows && t == 0); });
    for (int t = 0; t < kWaiters; ++t) threads.emplace_back(wait_for_others, &given, seed, t);
    for (std::thread& thread : threads) thread.join();
    return finish("crowd");
}
