#include "checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace {

// Of a swing about 0: neighbours of a sample sum to 2 cos(omega dt) times it, in the sense of least squares.
double frequency_of(const std::vector<Observed>& steps, std::size_t axis, double dt) {
    double product = 0, square = 0;
    for (std::size_t i = 1; i + 1 < steps.size(); ++i) {
        const double here = steps[i].dipole[axis];
        product += here * (steps[i - 1].dipole[axis] + steps[i + 1].dipole[axis]);
        square += here * here;
    }
    return square > 0 ? std::acos(std::clamp(product / (2 * square), -1.0, 1.0)) / dt : 0;
}

void check_dipole(const std::vector<Observed>& steps, const Physics& physics, Findings& found) {
    found.has_dipole = true;
    const double amplitude = physics.kick / physics.omega;
    for (std::size_t axis = 0; axis < 3; ++axis) {
        found.frequency[axis] = frequency_of(steps, axis, physics.dt);
        for (const Observed& seen : steps)
            found.dipole_error = std::max(found.dipole_error, std::abs(seen.dipole[axis] / amplitude -
                                                                       std::sin(physics.omega * seen.time)));
        const double error = std::abs(found.frequency[axis] / physics.omega - 1);
        if (!(error <= kAllowed.frequency))
            found.wrong.push_back(fmt::format(
                "the dipole along {} swings with {:.6f}, the well with {:.6f} (allowed {:.0e} off)",
                "xyz"[axis], found.frequency[axis], physics.omega, kAllowed.frequency));
    }
    const double dipole_error_max = kAllowed.frequency * std::max(1.0, physics.omega * steps.back().time);
    if (!(found.dipole_error <= dipole_error_max))
        found.wrong.push_back(
            fmt::format("the dipole is {:.1e} of its amplitude from its known path (allowed {:.0e})",
                        found.dipole_error, dipole_error_max));
}

}  // namespace

Findings check(const std::vector<Observed>& steps, const Physics& physics) {
    Findings found;
    for (const Observed& seen : steps) {
        found.norm_error = std::max(found.norm_error, seen.norm_error);
        found.energy_drift = std::max(found.energy_drift, std::abs(seen.energy / steps.front().energy - 1));
    }
    const double norm_error_max = kAllowed.norm_per_step * double(std::max(steps.size(), std::size_t(5)));
    if (!(found.norm_error <= norm_error_max))
        found.wrong.push_back(fmt::format("a state's norm is {:.1e} from 1 (allowed {:.0e})",
                                          found.norm_error, norm_error_max));
    const double energy_drift_max =
        physics.problem == Problem::kWell ? kAllowed.energy_of_well : kAllowed.energy_of_molecule;
    if (!(found.energy_drift <= energy_drift_max))
        found.wrong.push_back(fmt::format("the energy is {:.1e} of it from where it began (allowed {:.0e})",
                                          found.energy_drift, energy_drift_max));
    if (physics.problem == Problem::kWell && steps.size() >= 3) check_dipole(steps, physics, found);
    return found;
}
