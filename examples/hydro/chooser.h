// Decides which kernels are handed over: only those whose result is there before its first use, and only
// where cycles become shorter. It tries at the beginning of a run, in blocks of cycles: first with nothing
// handed over, then with one kernel at a time, those with few bytes first; a kernel whose bytes alone would
// take longer than there is time for is not tried. What is left is compared with nothing in turns, until
// handing over is shorter or nothing is left. Trying never costs more than a small part of the run so far:
// it goes on when there has been enough of the run.
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
    bool is_decided() const { return doing_ == Doing::kDecided; }
    // Whether the last cycle was one of a trial.
    bool was_trying() const { return was_trying_; }
    unsigned chosen() const { return chosen_; }
    // In trials, more than with nothing handed over.
    double seconds_spent() const { return handed_seconds_ - handed_cycles_ * own_cycle_; }
    int cycles_tried() const { return cycles_tried_; }
    const std::vector<std::string>& reasons() const { return reasons_; }  // a line for each decision

  private:
    enum class Doing { kAlone, kProbe, kPlain, kHanded, kPause, kDecided };
    struct Way {  // with nothing, or with something handed over
        std::vector<double> cycles;
        std::array<std::vector<double>, kKernels> cost, window;
    };
    void count(double seconds, bool is_handed);
    void begin(Hydro& hydro, Doing doing);
    void end_block(Hydro& hydro);
    void learn_own(const Hydro& hydro);
    void probe_next(Hydro& hydro);
    void judge_probe();
    void compare(Hydro& hydro);
    void drop_least_gain();
    void conclude(Hydro& hydro, unsigned kernels);
    bool affords_more() const;
    double agreed(double value, MPI_Op op) const;

    const MPI_Comm comm_;
    Side& side_;
    unsigned tried_, chosen_ = 0;
    Doing doing_ = Doing::kAlone, wanted_ = Doing::kAlone;  // wanted_: after a pause
    int cycle_ = 0, rounds_ = 0;                            // of this block; of this comparison
    std::vector<int> to_probe_;                             // kernels, the next one last
    Way plain_, handed_;
    std::vector<double> own_cycles_;                       // the latest with nothing handed over
    double own_cycle_ = 0, run_ = 0, handed_seconds_ = 0;  // own_cycle_: the median of those
    double seconds_per_byte_ = 0;  // of what is given and taken; 0: it has not been seen
    int cycles_tried_ = 0, handed_cycles_ = 0;
    bool was_trying_ = true;
    // Of each kernel, all in seconds: computing it here, the time that passes from there to its first use,
    // and what handing it over saves its rank.
    std::array<double, kKernels> own_{}, window_{}, gain_{};
    std::array<double, kKernels> bytes_{};
    std::vector<std::string> reasons_;
};
