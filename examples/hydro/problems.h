// The problems that the program knows by name: their box, zones, initial state, viscosity and steps. Lengths,
// densities, energies and times are in the problem's own units; the gas has gamma 5/3.
#pragma once

#include <string>
#include <vector>

constexpr double kGamma = 5.0 / 3.0;

enum class Known { kShockTube, kFlatBlast, kRoundBlast };  // what the result is checked against

struct Problem {
    std::string name;
    double width, height;  // of the box; its four sides are walls
    int zones_x, zones_y;
    double density, energy;   // of the gas, per volume and per mass
    double inner_x, inner_y;  // a zone whose centre is left of inner_x and below inner_y holds the inner gas
    double inner_density, inner_energy;  // per volume and per mass
    double viscosity_linear, viscosity_quadratic, sound_min;
    double step_first, time_end;
    int chunk;  // zones that a thread takes at once
    Known known;
    std::string about;
};

const std::vector<Problem>& problems();
const Problem* find_problem(const std::string& name);
