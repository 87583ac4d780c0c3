// Decides which kernels are handed over: only those whose result is there before its first use, and only
// where cycles become shorter. It tries at the beginning of a run: blocks of cycles with nothing and with all
// kernels handed over in turns, then with nothing and those whose slack has covered them, until handing over
// is shorter or nothing is left.
#pragma once

#include <mpi.h>

#include <array>
#include <string>
#include <vector>

#include "hydro.h"

class Chooser {
  public:
    Chooser(unsigned kernels, MPI_Comm comm, Side& side);
    void after_cycle(Hydro& hydro, double seconds);  // collective; chooses what the next cycle hands over
    bool is_decided() const { return decided_; }
    unsigned chosen() const { return chosen_; }
    const std::vector<std::string>& reasons() const { return reasons_; }  // a line for each decision

  private:
    struct Way {  // with nothing, or with something handed over
        std::vector<double> cycles;
        std::array<std::vector<double>, kKernels> cost, slack;
    };
    void decide(Hydro& hydro);
    void keep_covered();
    void drop_least_gain();
    void conclude(Hydro& hydro, unsigned kernels);
    double median_of_ranks(const std::vector<double>& values, MPI_Op op) const;

    const MPI_Comm comm_;
    Side& side_;
    unsigned tried_, chosen_ = 0;
    bool decided_ = false, first_trial_ = true;
    int cycle_ = 0;  // of this trial
    Way plain_, handed_;
    std::array<double, kKernels> gain_{};  // seconds that handing over a kernel saves its rank
    std::vector<std::string> reasons_;
};
