#include "checks.h"

#include <array>
#include <cmath>

namespace {

constexpr double kDriftMax = 1e-11, kSidewaysMax = 1e-9;
constexpr double kBehindShock = 2.5;  // times the density before it; in the end 4
// How far off the tube's places may be, in zones at time 0: those of the thin gas are a thousand times
// lighter than their neighbours, so the first of them are heated too much, and errors fall with the zones'
// size alone (README.md).
constexpr double kContactZones = 6, kTubeShockZones = 16;
constexpr double kWorthLooking = 0.1;  // of the end time: before that, waves are narrower than some zones

double largest(double value, MPI_Comm comm) {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, comm);
    return value;
}

Vec centre_of(const Hydro& hydro, std::size_t zone) {
    const Mesh& mesh = hydro.mesh();
    Vec centre;
    const std::int32_t begin = mesh.zone_corner[zone], end = mesh.zone_corner[zone + 1];
    for (std::int32_t corner = begin; corner < end; ++corner)
        centre = centre + hydro.position()[std::size_t(mesh.corner_point[std::size_t(corner)])];
    return (1.0 / (end - begin)) * centre;
}

// The zone behind the shock that is farthest from the origin, along y or as a radius.
double shock_place(const Hydro& hydro, const Problem& problem, bool is_flat, MPI_Comm comm) {
    double farthest = 0;
    for (std::size_t zone = 0; zone < hydro.density().size(); ++zone) {
        if (hydro.density()[zone] < kBehindShock * problem.density) continue;
        const Vec centre = centre_of(hydro, zone);
        farthest = std::max(farthest, is_flat ? centre.y : std::sqrt(dot(centre, centre)));
    }
    return largest(farthest, comm);
}

// Where the points are that have been between the two gases.
double contact_place(const Hydro& hydro, const Problem& problem, MPI_Comm comm) {
    const Mesh& mesh = hydro.mesh();
    const double line = std::ceil(problem.inner_y / problem.height * problem.zones_y - 0.5) * problem.height /
                        problem.zones_y;
    double place = 0;
    for (std::size_t point = 0; point < mesh.position.size(); ++point)
        if (std::fabs(mesh.position[point].y - line) < 1e-9 * problem.height)
            place = std::max(place, hydro.position()[point].y);
    return largest(place, comm);
}

double sideways_of(const Hydro& hydro, MPI_Comm comm) {
    double most = 0;
    for (std::size_t point = 0; point < hydro.position().size(); ++point)
        most = std::max(most, std::fabs(hydro.position()[point].x - hydro.mesh().position[point].x));
    return largest(most, comm);
}

}  // namespace

bool Findings::passed() const {
    return energy_drift <= kDriftMax && sideways <= kSidewaysMax && (!contact || contact->is_right()) &&
           (!shock || shock->is_right());
}

Findings check(const Hydro& hydro, const Problem& problem, double energy_first, MPI_Comm comm) {
    Findings result{};
    result.energy_drift = std::fabs(hydro.energies().total() / energy_first - 1);
    result.checksum = hydro.checksum();
    const bool is_flat = problem.known != Known::kRoundBlast;
    if (is_flat) result.sideways = sideways_of(hydro, comm);
    const double time = hydro.time(), zone = problem.height / problem.zones_y;
    if (time < kWorthLooking * problem.time_end) return result;
    const double shock = shock_place(hydro, problem, is_flat, comm);
    if (problem.known == Known::kShockTube) {
        const TubeSpeeds speeds = tube_speeds(problem);
        result.contact = {contact_place(hydro, problem, comm), problem.inner_y + speeds.contact * time,
                          kContactZones * zone};
        result.shock = {shock, problem.inner_y + speeds.shock * time, kTubeShockZones * zone};
    } else {
        // Set free in zones whose centres are in the box that was asked for.
        const double width = is_flat ? 1
                                     : std::ceil(problem.inner_x / problem.width * problem.zones_x - 0.5) *
                                           problem.width / problem.zones_x;
        const double height = std::ceil(problem.inner_y / problem.height * problem.zones_y - 0.5) * zone;
        const double energy = problem.inner_energy * problem.inner_density * width * height;
        const double radius = blast_radius(is_flat ? 1 : 2, energy, problem.density, time);
        result.shock = {shock, radius, 2 * zone + 0.01 * radius};
    }
    return result;
}

TubeSpeeds tube_speeds(const Problem& problem) {
    constexpr double kG = kGamma;
    const double density_l = problem.inner_density, density_r = problem.density;
    const double pressure_l = (kG - 1) * density_l * problem.inner_energy,
                 pressure_r = (kG - 1) * density_r * problem.energy;
    const double sound_l = std::sqrt(kG * pressure_l / density_l),
                 sound_r = std::sqrt(kG * pressure_r / density_r);
    // A rarefaction on the left and a shock on the right: velocities behind them for a pressure in the
    // middle.
    const auto left = [&](double pressure) {
        return 2 * sound_l / (kG - 1) * (1 - std::pow(pressure / pressure_l, (kG - 1) / (2 * kG)));
    };
    const auto right = [&](double pressure) {
        const double a = 2 / ((kG + 1) * density_r), b = (kG - 1) / (kG + 1) * pressure_r;
        return (pressure - pressure_r) * std::sqrt(a / (pressure + b));
    };
    double low = pressure_r, high = pressure_l;
    for (int i = 0; i < 200; ++i) {  // halves; geometric, because pressures differ by many powers of ten
        const double middle = std::sqrt(low * high);
        (left(middle) > right(middle) ? low : high) = middle;
    }
    return {right(low), sound_r * std::sqrt((kG + 1) / (2 * kG) * low / pressure_r + (kG - 1) / (2 * kG))};
}

double blast_radius(int dimensions, double energy, double density, double time) {
    // With r = radius x: velocity = U f(x), density = density g(x), pressure = density U^2 h(x), U the
    // shock's velocity.
    using State = std::array<double, 4>;  // f, g, h, and the energy from x to 1
    const int j = dimensions;
    const double slowing = 0.5 * j;  // dU/dt = -slowing U^2 / radius
    const auto derivative = [&](double x, const State& s) {
        const double f = s[0], g = s[1], h = s[2], w = f - x, spread = (j - 1) * f / x;
        const double f1 =
            (2 * slowing * h - kGamma * h * spread - slowing * g * w * f) / (kGamma * h - g * w * w);
        return State{f1, -g * (f1 + spread) / w, g * (slowing * f - w * f1),
                     -(0.5 * g * f * f + h / (kGamma - 1)) * std::pow(x, j - 1)};
    };
    State state = {2 / (kGamma + 1), (kGamma + 1) / (kGamma - 1), 2 / (kGamma + 1), 0};
    constexpr int kSteps = 20000;
    constexpr double kEnd = 1e-3, kStep = (kEnd - 1) / kSteps;
    const auto moved = [](const State& from, double by, const State& along) {
        State to = from;
        for (std::size_t i = 0; i < to.size(); ++i) to[i] += by * along[i];
        return to;
    };
    for (int i = 0; i < kSteps; ++i) {  // Runge-Kutta
        const double x = 1 + i * kStep;
        const State k1 = derivative(x, state), k2 = derivative(x + kStep / 2, moved(state, kStep / 2, k1));
        const State k3 = derivative(x + kStep / 2, moved(state, kStep / 2, k2)),
                    k4 = derivative(x + kStep, moved(state, kStep, k3));
        for (std::size_t n = 0; n < state.size(); ++n)
            state[n] += kStep / 6 * (k1[n] + 2 * k2[n] + 2 * k3[n] + k4[n]);
    }
    const double inside = state[3] + state[2] / (kGamma - 1) * std::pow(kEnd, j) / j;
    const double around = j == 1 ? 1 : M_PI / 2, power = 2.0 / (j + 2);  // of a quarter of the plane
    return std::pow(energy * time * time / (density * power * power * around * inside), 1.0 / (j + 2));
}
