// What is known of a propagation, and how far a run was from it.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "propagator.h"

struct Findings {
    double norm_error = 0;    // largest of all steps and states
    double energy_drift = 0;  // largest deviation from the first step's, relative to it
    // Well: the frequency of the dipole along x, y, z, and its largest deviation from kick/omega sin(omega
    // t), which any interaction between the particles leaves alone, relative to kick/omega (Kohn's theorem).
    bool has_dipole = false;
    std::array<double, 3> frequency{};
    double dipole_error = 0;
    std::vector<std::string> wrong;  // sentences
};

// Errors that the method makes, by far less than any exchange that went wrong would. Norms lose with each
// step, and a frequency that is a little off leaves the path the more the longer it swings. The atoms of the
// molecule are sharper than the well.
struct Allowed {
    double norm_per_step = 2e-8, energy_of_well = 1e-4, energy_of_molecule = 2e-3, frequency = 2e-3;
};
inline constexpr Allowed kAllowed;

Findings check(const std::vector<Observed>& steps, const Physics& physics);
