// Which rank holds what: states over one direction of a Cartesian grid of ranks, planes of the domain (along
// z) over the other.
#pragma once

#include <array>
#include <cstddef>
#include <string>

struct Layout {
    std::array<int, 3> points{24, 24, 24};  // x, y, z
    int states = 8;
    int state_ranks = 0, domain_ranks = 0;  // 0: chosen by choose_grid()

    int local_states() const { return states / state_ranks; }
    int local_planes() const { return points[2] / domain_ranks; }
    std::size_t plane_points() const { return std::size_t(points[0]) * std::size_t(points[1]); }
    std::size_t local_points() const { return plane_points() * std::size_t(local_planes()); }
    std::size_t all_points() const { return plane_points() * std::size_t(points[2]); }
};

// Planes that a rank needs of each neighbour: the Laplacian reaches four points to each side.
inline constexpr int kHalo = 4;

// Fills in the directions that are 0: a grid of `ranks` into which states and planes divide, as square as it
// can be. Leaves them alone if there is none.
void choose_grid(Layout& layout, int ranks);

// What keeps so many ranks from holding this, in a sentence that says what would do; empty: nothing.
std::string problem_of(const Layout& layout, int ranks);
