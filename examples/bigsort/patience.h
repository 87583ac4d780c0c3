// Waiting for the other side without taking a core from whoever computes: a short spin, then sleeps.
#pragma once

#include <mpi.h>
#include <sched.h>
#include <time.h>

#include <cstdint>

namespace bigsort {

inline double now_s() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

class Patience {
  public:
    // One round of waiting. Spins for some microseconds first: the other side may be about to answer.
    void wait() {
        if (++rounds_ < kSpins) return;
        if (rounds_ < kSpins + kYields) {
            sched_yield();
            return;
        }
        const timespec pause = {0, rounds_ < kShortPauses ? 20'000 : 500'000};
        nanosleep(&pause, nullptr);
    }
    double waited_s() const { return now_s() - begin_s_; }

  private:
    static constexpr std::uint64_t kSpins = 20, kYields = 20, kShortPauses = 20'000;
    std::uint64_t rounds_ = 0;
    double begin_s_ = now_s();
};

// As MPI_Wait, but patient. Returns false when `limit_s` has passed.
inline bool wait_patiently(MPI_Request* request, double limit_s, MPI_Status* status = MPI_STATUS_IGNORE) {
    Patience patience;
    for (int done = 0;;) {
        MPI_Test(request, &done, status);
        if (done) return true;
        if (patience.waited_s() > limit_s) return false;
        patience.wait();
    }
}

}  // namespace bigsort
