// What is propagated, and what a run does beside it.
#pragma once

#include <cstddef>

#include "lateness.h"

enum class Problem { kWell, kMolecule };

struct Physics {
    Problem problem = Problem::kWell;
    double spacing = 0.5, dt = 0.02;  // atomic units
    double omega = 1, kick = 0.1;     // the well's frequency; the momentum that each state is given
    double interaction = 0.2, softening = 1;
};

// What a run does beside physics.
struct Pace {
    bool sleeps = false;         // ranks sleep where they would compute, and exchange what they would
    double compute_seconds = 0;  // of a step, if they sleep
    Lateness lateness;
    int ranks_per_node = 0;           // for lateness; 0: as the ranks share memory
    std::size_t allgather_bytes = 0;  // of a rank's block, at least; 0: its density
};
