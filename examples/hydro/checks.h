// Values that are known of some problems without a mesh: where contact and shock are at a time.
#pragma once

#include <mpi.h>

#include <optional>

#include "hydro.h"

struct Place {
    double found, known, error_max;
    bool is_right() const { return found - known <= error_max && known - found <= error_max; }
};

struct Findings {
    std::optional<Place> contact, shock;
    double energy_drift;  // of the total, relative to its first value
    double sideways;      // how far a point of a flat problem has left its x
    std::uint64_t checksum;
    bool passed() const;
};

// Collective; the state has settled.
Findings check(const Hydro& hydro, const Problem& problem, double energy_first, MPI_Comm comm);

// The shock tube's exact solution (a Riemann problem of one gas): velocities of the contact and of the shock.
struct TubeSpeeds {
    double contact, shock;
};
TubeSpeeds tube_speeds(const Problem& problem);

// How far a blast's shock has come from a wall (dimensions 1) or a corner (2) in which `energy` was set free
// at time 0: the self-similar solution of Taylor, von Neumann and Sedov, integrated.
double blast_radius(int dimensions, double energy, double density, double time);
