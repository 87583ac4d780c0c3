// Real-time propagation of Kohn-Sham states on a periodic real-space grid. A step is exp(-i dt A), to fourth
// order of its Taylor series, with A = kinetic energy + outer potential + Hartree potential, and then exp(-i
// dt B), B = the local exchange potential, which leaves the density as it is and is therefore exact.
#pragma once

#include <cstdint>
#include <vector>

#include "exchanges.h"
#include "hartree.h"
#include "layout.h"
#include "physics.h"

// After a step. The energy is that at the step's begin.
struct Observed {
    double time = 0, energy = 0, norm_error = 0;  // norm_error: the largest of all states
    std::array<double, 3> dipole{};               // of one electron
};

class Propagator {
  public:
    Propagator(const Layout& layout, const Physics& physics, const Pace& pace, Exchanges& exchanges);

    // Back to the begin: oscillator states with a kick.
    void start();
    // `passes`: with more than one the Hartree potential in the middle of the step is corrected. Each has an
    // allgather.
    Observed step(int passes);
    std::uint64_t checksum() const;  // of all bits of all ranks' states and where they stand
    std::uint64_t wrong_words() const { return wrong_words_; }  // found in what was received, on this rank
    double late_seconds() const { return late_seconds_; }
    void begin() { late_seconds_ = 0; }
    // Looks at every word of the last allgather; after the others it looked at some.
    void finish();

  private:
    void set_outer_potential();
    void apply(std::vector<Complex>& in, std::vector<Complex>& out, const double* potential);
    void propagate(bool first_pass);
    void gather_density();
    void partial_density();
    void stamp();
    void verify(bool all);
    void sum_density();
    void exchange_phase();
    void apply_phase();
    double coordinate(int i, int n) const { return (i - n / 2 + 0.5) * physics_.spacing; }
    std::size_t stride() const;
    void sleep(double seconds) const;

    Layout layout_;
    Physics physics_;
    Pace pace_;
    Exchanges& exchanges_;
    Hartree hartree_;
    int rank_ = 0, ranks_ = 1, node_ = 0;
    std::size_t block_ = 0;  // numbers of a rank in the allgather
    std::uint64_t calls_ = 0, wrong_words_ = 0;
    double time_ = 0, one_body_energy_ = 0, exchange_energy_ = 0, late_seconds_ = 0;
    std::vector<Complex> psi_, before_, power_, applied_, packed_, transposed_;
    std::vector<double> outer_, potential_, mine_, all_, density_, hartree_now_, hartree_before_,
        hartree_next_;
};
