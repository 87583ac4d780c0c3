// Which rank enters which allgather late, and by how much, as seen in Octopus by Graham et al. (section
// IV.G): by 15 to 50 % of the allgather's own time. Pure: it follows from seed, call, node and rank alone, so
// that ranks need not ask each other and all contenders get the same.
#pragma once

#include <cstdint>

struct Lateness {
    double base_seconds = 0;  // the allgather's own time; 0: nobody is late
    double chance = 0.09;     // that a rank is late in a call
    std::uint64_t seed = 1;

    // Two of three times a rank is late, all ranks of its node are, by the same time.
    double seconds(std::uint64_t call, int node, int rank) const;
};
