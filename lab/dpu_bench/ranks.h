// The processes of the job: MPI places them, meets them and collects their numbers; data goes over the mover.
#pragma once

#include <mpi.h>
#include <pthread.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dpu_bench/mover.h"
#include "dpu_bench/plan.h"

namespace longshore::dpu_bench {

double now_us();
void sleep_us(double us);

// A barrier that can be passed any number of times. MPI's own polls, which is right where every rank has a
// core; where ranks outnumber the cores of one machine, who waits must leave the core to who works, and
// sleeps.
class Barrier {
  public:
    Barrier(MPI_Comm comm, bool sleeping);  // collective; sleeping: of one machine only
    ~Barrier();                             // collective
    Barrier(const Barrier&) = delete;
    Barrier& operator=(const Barrier&) = delete;
    void pass() const;

  private:
    MPI_Comm comm_;
    MPI_Win window_ = MPI_WIN_NULL;
    pthread_barrier_t* shared_ = nullptr;
};

class Ranks {
  public:
    explicit Ranks(int workers);  // collective, after MPI_Init
    ~Ranks();                     // collective
    Ranks(const Ranks&) = delete;
    Ranks& operator=(const Ranks&) = delete;

    const Shape& shape() const { return shape_; }
    int rank() const { return rank_; }
    bool is_root() const { return rank_ == 0; }
    bool is_worker() const { return shape_.is_worker(rank_); }
    bool on_one_machine() const { return one_machine_; }
    bool crowded() const { return crowded_; }  // more ranks than cores, somewhere

    // Barriers: of all, and of those of this rank's kind.
    void meet() const { all_meet_->pass(); }
    void meet_own_kind() const { kind_meets_->pass(); }

    // What follows meets first: a blocking collective of MPI polls for those who are late.

    // As many bytes of every rank, one rank's behind the other's.
    std::vector<std::uint8_t> exchange(const std::vector<std::uint8_t>& mine) const;
    // Addresses and keys go round: two allgathers.
    std::vector<RegionHandle> exchange(const RegionHandle& mine) const;

    std::vector<double> max_of(const std::vector<double>& mine) const;  // element by element; on rank 0
    double from_root(double value) const;
    // Prints the lowest rank's failure, if any rank has one, and tells all whether there was one.
    bool any_failure(const std::optional<std::string>& mine) const;

  private:
    Shape shape_;
    int rank_ = 0;
    bool one_machine_ = false, crowded_ = false;
    MPI_Comm all_ = MPI_COMM_NULL, kind_ = MPI_COMM_NULL;
    std::unique_ptr<Barrier> all_meet_, kind_meets_;
};

}  // namespace longshore::dpu_bench
