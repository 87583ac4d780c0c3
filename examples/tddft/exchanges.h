// Everything that a step says to other ranks, with the time of each MPI call. Buffers belong to the caller.
#pragma once

#include <mpi.h>

#include <array>
#include <complex>
#include <vector>

#include "layout.h"

using Complex = std::complex<double>;

double seconds_now();  // CLOCK_MONOTONIC, which the ranks of one machine share

// Seconds that this rank spent in MPI calls, as the rows of table III of Graham et al. name them.
struct MpiTimes {
    double allgather = 0, waitall = 0, alltoall = 0, allreduce = 0, other = 0;
    double all() const { return allgather + waitall + alltoall + allreduce + other; }
};

class Exchanges {
  public:
    // `by_vector`: allgathers are MPI_Allgatherv, as in codes whose blocks differ. Here they are all alike.
    explicit Exchanges(const Layout& layout, bool by_vector = false);
    ~Exchanges();
    Exchanges(const Exchanges&) = delete;
    Exchanges& operator=(const Exchanges&) = delete;

    int state_rank() const { return at_[0]; }
    int domain_rank() const { return at_[1]; }

    // Fills kHalo planes below and above each of the local states; `psi` holds them state by state, each with
    // kHalo planes on either side. The domain is periodic.
    void halo(Complex* psi);
    // `count` numbers of each rank to all ranks, in order of the ranks.
    void allgather(const double* mine, double* all, std::size_t count);
    // Equal parts for each rank that holds other states of the same planes.
    void alltoall(const Complex* from, Complex* to, std::size_t count);
    void sum(std::vector<double>& values);

    // Of the calls since begin().
    const MpiTimes& times() const { return times_; }
    const std::vector<double>& allgather_entries() const { return entries_; }
    const std::vector<double>& allgather_exits() const { return exits_; }
    void begin();

  private:
    Layout layout_;
    bool by_vector_;
    std::array<int, 2> at_{};
    int below_ = 0, above_ = 0;
    MPI_Comm grid_ = MPI_COMM_NULL, same_planes_ = MPI_COMM_NULL, same_states_ = MPI_COMM_NULL;
    std::vector<MPI_Request> requests_;
    std::vector<int> counts_, places_;  // with by_vector
    MpiTimes times_;
    std::vector<double> entries_, exits_;
};
