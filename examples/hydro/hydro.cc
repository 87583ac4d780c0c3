#include "hydro.h"

#include <cmath>
#include <ctime>
#include <stdexcept>
#include <string>

#include "chunks.h"

namespace {

constexpr double kCourant = 0.6;       // of the time in which a signal crosses a zone
constexpr double kVolumeChange = 0.1;  // of a zone in one step, at most
constexpr double kStepGrowth = 1.2;    // from one step to the next
constexpr double kSubzoneStiffness = 0.5;
constexpr double kSignalMin = 1e-99;  // where nothing moves and nothing is hot
constexpr int kMassTag = 1, kForceTag = 2;

double now() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

// The force on the first point of a side from a pressure, across the line from the side's middle to the
// zone's centre.
Vec across(Vec middle_to_centre) {
    return {-middle_to_centre.y, middle_to_centre.x};
}

template <typename Value>
Buffer whole(std::vector<Value>& values, Access access) {
    return {values.data(), values.size() * sizeof(Value), access};
}

template <typename Value>
Buffer constant(const std::vector<Value>& values) {
    return {const_cast<Value*>(values.data()), values.size() * sizeof(Value), Access::kConstant};
}

}  // namespace

Hydro::Hydro(const Problem& problem, const Mesh& mesh, MPI_Comm comm, Side& side, int threads_chunk)
    : problem_(problem),
      mesh_(mesh),
      comm_(comm),
      side_(side),
      chunk_(threads_chunk),
      mass_border_(mesh, comm, kMassTag),
      force_border_(mesh, comm, kForceTag),
      position_(mesh.position) {
    const auto points = std::size_t(mesh.points), zones = std::size_t(mesh.zones),
               corners = std::size_t(mesh.corners);
    for (auto* values : {&position_before_, &velocity_before_, &velocity_}) values->resize(points);
    point_mass_.resize(points);
    centre_.resize(zones);
    for (auto* values : {&zone_mass_, &energy_, &density_, &volume_before_, &volume_, &pressure_, &sound_,
                         &signal_, &rate_, &zone_length_})
        values->resize(zones);
    corner_share_.resize(corners);
    side_share_.resize(corners);
    corner_mass_.resize(corners + std::size_t(mesh.ghosts));
    border_mass_.resize(mesh.border_corners.size());
    pressure_force_.resize(corners);
    other_force_.resize(corners);
    corner_force_.resize(corners + std::size_t(mesh.ghosts));
    edge_length_.resize(std::size_t(mesh.edges));
    set_up();
    step_ = std::min(problem.step_first, problem.time_end);
}

// Masses and their shares at time 0. Shares of a zone's mass belong to its sides (triangles with its centre);
// a corner has half of each of its two sides.
void Hydro::set_up() {
    for (std::int32_t zone = 0; zone < mesh_.zones; ++zone) {
        const std::int32_t begin = mesh_.zone_corner[std::size_t(zone)],
                           end = mesh_.zone_corner[std::size_t(zone) + 1];
        Vec centre;
        for (std::int32_t corner = begin; corner < end; ++corner)
            centre = centre + position_[std::size_t(mesh_.corner_point[std::size_t(corner)])];
        centre = (1.0 / (end - begin)) * centre;
        double volume = 0;
        for (std::int32_t corner = begin; corner < end; ++corner) {
            const Vec one = position_[std::size_t(mesh_.corner_point[std::size_t(corner)])];
            const Vec other = position_[std::size_t(
                mesh_.corner_point[std::size_t(mesh_.corner_next[std::size_t(corner)])])];
            side_share_[std::size_t(corner)] = 0.5 * cross(other - one, centre - one);
            volume += side_share_[std::size_t(corner)];
        }
        for (std::int32_t corner = begin; corner < end; ++corner) side_share_[std::size_t(corner)] /= volume;
        for (std::int32_t corner = begin, before = end - 1; corner < end; before = corner++)
            corner_share_[std::size_t(corner)] =
                0.5 * (side_share_[std::size_t(corner)] + side_share_[std::size_t(before)]);
        const bool inner = centre.x < problem_.inner_x && centre.y < problem_.inner_y;
        const std::size_t at = std::size_t(zone);
        volume_[at] = volume;
        density_[at] = inner ? problem_.inner_density : problem_.density;
        energy_[at] = inner ? problem_.inner_energy : problem_.energy;
        zone_mass_[at] = density_[at] * volume;
    }
}

void Hydro::cycle() {
    handed_ = next_handed_;
    step_before_ = step_;
    advance_half();
    start_lengths();
    half_geometry();
    start_masses();
    finish(kEnergy);  // of the cycle before
    half_forces();
    finish(kLengths);
    viscosity();
    corner_forces();
    force_border_.begin(corner_force_.data());
    finish_masses();
    force_border_.finish();
    accelerate();
    start_energy();
    full_geometry();
    next_step();
    ++cycles_;
}

void Hydro::settle() {
    finish(kEnergy);
}

void Hydro::hand_over(unsigned kernels) {
    next_handed_ = kernels;
}

void Hydro::advance_half() {
    std::swap(position_, position_before_);
    std::swap(velocity_, velocity_before_);
    const double half = 0.5 * step_;
    for_chunks(mesh_.points, chunk_, [&](std::int32_t first, std::int32_t last) {
        for (std::int32_t point = first; point < last; ++point) {
            const std::size_t at = std::size_t(point);
            position_[at] = position_before_[at] + half * velocity_before_[at];
        }
    });
}

// Centres, volumes and densities in the middle of the step.
void Hydro::half_geometry() {
    std::swap(volume_, volume_before_);
    for_chunks(mesh_.zones, chunk_, [&](std::int32_t first, std::int32_t last) {
        const auto* corner_point = mesh_.corner_point.data();
        const auto* corner_next = mesh_.corner_next.data();
        for (std::int32_t zone = first; zone < last; ++zone) {
            const std::int32_t begin = mesh_.zone_corner[std::size_t(zone)],
                               end = mesh_.zone_corner[std::size_t(zone) + 1];
            Vec centre;
            for (std::int32_t corner = begin; corner < end; ++corner)
                centre = centre + position_[std::size_t(corner_point[corner])];
            centre = (1.0 / (end - begin)) * centre;
            double twice = 0;
            for (std::int32_t corner = begin; corner < end; ++corner) {
                const Vec one = position_[std::size_t(corner_point[corner])];
                const Vec other = position_[std::size_t(corner_point[corner_next[corner]])];
                twice += cross(other - one, centre - one);
            }
            const std::size_t at = std::size_t(zone);
            centre_[at] = centre;
            volume_[at] = 0.5 * twice;
            density_[at] = zone_mass_[at] / volume_[at];
        }
    });
}

// The pressure in the middle of the step, its forces, and those that keep the triangles of a zone in shape:
// each has a density of its own, and the pressure that differs by it.
void Hydro::half_forces() {
    const double half = 0.5 * step_;
    for_chunks(mesh_.zones, chunk_, [&](std::int32_t first, std::int32_t last) {
        const auto* corner_point = mesh_.corner_point.data();
        const auto* corner_next = mesh_.corner_next.data();
        for (std::int32_t zone = first; zone < last; ++zone) {
            const std::size_t at = std::size_t(zone);
            // Heat by what is not compression, then compression by the pressure that results.
            const double heated = energy_[at] + rate_[at] * half / zone_mass_[at];
            const double compressed = heated / (1 + (kGamma - 1) * (1 - volume_before_[at] / volume_[at]));
            const double inner_energy = std::max(compressed, 0.0);
            pressure_[at] = (kGamma - 1) * density_[at] * inner_energy;
            sound_[at] = std::sqrt(kGamma * (kGamma - 1) * inner_energy);
            const double sound = std::max(sound_[at], problem_.sound_min);
            const double stiffness = kSubzoneStiffness * sound * sound;
            for (std::int32_t corner = mesh_.zone_corner[at]; corner < mesh_.zone_corner[at + 1]; ++corner) {
                const std::size_t side = std::size_t(corner);
                const Vec one = position_[std::size_t(corner_point[corner])];
                const Vec other = position_[std::size_t(corner_point[corner_next[corner]])];
                const Vec surface = across(centre_[at] - 0.5 * (one + other));
                const double volume = 0.5 * cross(other - one, centre_[at] - one);
                const double excess = zone_mass_[at] * side_share_[side] / volume - density_[at];
                pressure_force_[side] = pressure_[at] * surface;
                other_force_[side] = (stiffness * excess) * surface;
            }
        }
    });
}

// Viscosity against the motion of the two points of each side that becomes shorter (as Caramana, Shashkov and
// Whalen have it, J. Comput. Phys. 144 (1998), without their limiter), with a linear and a quadratic term
// joined as by V. F. Kuropatenko; and the speed of the fastest signal in a zone.
void Hydro::viscosity() {
    const double quadratic = problem_.viscosity_quadratic * (kGamma + 1) / 4,
                 linear = problem_.viscosity_linear;
    for_chunks(mesh_.zones, chunk_, [&](std::int32_t first, std::int32_t last) {
        for (std::int32_t zone = first; zone < last; ++zone) {
            const std::size_t at = std::size_t(zone);
            double fastest = 0;
            for (std::int32_t corner = mesh_.zone_corner[at]; corner < mesh_.zone_corner[at + 1]; ++corner) {
                const std::size_t side = std::size_t(corner);
                const std::size_t one = std::size_t(mesh_.corner_point[side]);
                const std::size_t other =
                    std::size_t(mesh_.corner_point[std::size_t(mesh_.corner_next[side])]);
                const Vec along = (1 / edge_length_[std::size_t(mesh_.corner_edge[side])]) *
                                  (position_[other] - position_[one]);
                const Vec apart = velocity_before_[other] - velocity_before_[one];
                const double speed = std::sqrt(dot(apart, apart));
                fastest =
                    std::max(fastest, speed);  // of all sides: no point may cross its zone's centre in a step
                if (dot(apart, along) >= 0) continue;
                const double by_speed = quadratic * speed, by_sound = linear * sound_[at];
                const double viscous =
                    density_[at] * (by_speed + std::sqrt(by_speed * by_speed + by_sound * by_sound));
                const Vec to_centre = centre_[at] - 0.5 * (position_[one] + position_[other]);
                other_force_[side] =
                    other_force_[side] + (viscous * std::fabs(cross(to_centre, along))) * apart;
            }
            signal_[at] = std::max(
                {sound_[at], linear * sound_[at] + 2 * problem_.viscosity_quadratic * fastest, kSignalMin});
        }
    });
}

// A side's force pushes its first point, and its second one the other way.
void Hydro::corner_forces() {
    for_chunks(mesh_.zones, chunk_, [&](std::int32_t first, std::int32_t last) {
        for (std::int32_t zone = first; zone < last; ++zone) {
            const std::int32_t begin = mesh_.zone_corner[std::size_t(zone)],
                               end = mesh_.zone_corner[std::size_t(zone) + 1];
            for (std::int32_t corner = begin, before = end - 1; corner < end; before = corner++)
                corner_force_[std::size_t(corner)] =
                    (pressure_force_[std::size_t(corner)] + other_force_[std::size_t(corner)]) -
                    (pressure_force_[std::size_t(before)] + other_force_[std::size_t(before)]);
        }
    });
}

// Forces of all corners of a point, other ranks' too, move it to the end of the step.
void Hydro::accelerate() {
    for_chunks(mesh_.points, chunk_, [&](std::int32_t first, std::int32_t last) {
        for (std::int32_t point = first; point < last; ++point) {
            const std::size_t at = std::size_t(point);
            Vec force;
            for (std::int32_t i = mesh_.point_corner[at]; i < mesh_.point_corner[at + 1]; ++i)
                force = force + corner_force_[std::size_t(mesh_.point_corners[std::size_t(i)])];
            Vec velocity = velocity_before_[at] + (step_ / point_mass_[at]) * force;
            if (mesh_.point_walls[at] & kWallX) velocity.x = 0;
            if (mesh_.point_walls[at] & kWallY) velocity.y = 0;
            velocity_[at] = velocity;
            position_[at] = position_before_[at] + (0.5 * step_) * (velocity_before_[at] + velocity);
        }
    });
}

// Volumes and densities at the end of the step, and the longest step that may follow.
void Hydro::full_geometry() {
    side_.poll();
    const double longest = kStepGrowth * step_;
    step_limit_ = least_of_chunks(mesh_.zones, chunk_, longest, [&](std::int32_t first, std::int32_t last) {
        const auto* corner_point = mesh_.corner_point.data();
        const auto* corner_next = mesh_.corner_next.data();
        double limit = longest;
        for (std::int32_t zone = first; zone < last; ++zone) {
            const std::size_t at = std::size_t(zone);
            double twice = 0;
            const Vec origin = position_[std::size_t(corner_point[mesh_.zone_corner[at]])];
            for (std::int32_t corner = mesh_.zone_corner[at]; corner < mesh_.zone_corner[at + 1]; ++corner) {
                const Vec one = position_[std::size_t(corner_point[corner])];
                const Vec other = position_[std::size_t(corner_point[corner_next[corner]])];
                twice += cross(one - origin, other - origin);
            }
            volume_[at] = 0.5 * twice;
            density_[at] = zone_mass_[at] / volume_[at];
            limit = std::min(limit, kCourant * zone_length_[at] / signal_[at]);
            const double change = std::fabs(volume_[at] - volume_before_[at]) / volume_before_[at];
            if (change > 0) limit = std::min(limit, kVolumeChange * step_ / change);
        }
        return limit;
    });
    side_.poll();
}

void Hydro::next_step() {
    time_ += step_;
    double step = step_limit_;
    MPI_Allreduce(MPI_IN_PLACE, &step, 1, MPI_DOUBLE, MPI_MIN, comm_);
    step_ = std::min(step, problem_.time_end - time_);
}

// ---- Kernels that may be handed over

void Hydro::start(KernelId kernel, const void* arguments, std::size_t bytes) {
    const std::vector<Buffer> buffers = kernel == kLengths  ? lengths_buffers()
                                        : kernel == kMasses ? masses_buffers()
                                                            : energy_buffers();
    started_[kernel] = now();
    under_way_[kernel] = true;
    under_way_handed_[kernel] = handed_ >> kernel & 1;
    if (under_way_handed_[kernel]) {
        side_.submit(kernel, arguments, bytes, buffers);
    } else {
        std::vector<View> views;
        for (const Buffer& buffer : buffers) views.push_back({buffer.data, buffer.bytes});
        if (kKernelTable[kernel].run(arguments, bytes, views.data(), int(views.size())) != 0)
            throw std::logic_error(std::string("kernel ") + kKernelTable[kernel].name +
                                   " refuses its buffers");
    }
    times_[kernel] = {};
    times_[kernel].submit = now() - started_[kernel];
}

void Hydro::finish(KernelId kernel) {
    if (!under_way_[kernel]) return;
    under_way_[kernel] = false;
    KernelTimes& times = times_[kernel];
    const double begin = now();
    if (under_way_handed_[kernel]) {
        side_.wait(kernel);
        times.wait = now() - begin;
    }
    const Stamp& stamp = stamps_[kernel];
    times.run = 1e-9 * double(stamp.ended_ns - stamp.began_ns);
    times.round_trip = 1e-9 * double(stamp.ended_ns) - started_[kernel];
    times.slack = begin - 1e-9 * double(stamp.ended_ns);
    times.window = begin - started_[kernel] - times.submit;
    finished_[kernel] = times;
}

void Hydro::start_lengths() {
    const LengthsArguments arguments{mesh_.zones, mesh_.edges, mesh_.corners, mesh_.points, chunk_};
    start(kLengths, &arguments, sizeof arguments);
}

void Hydro::start_masses() {
    side_.poll();
    const MassesArguments arguments{mesh_.zones,
                                    mesh_.points,
                                    mesh_.corners,
                                    std::int32_t(mesh_.point_corners.size()),
                                    std::int32_t(mesh_.border_corners.size()),
                                    chunk_};
    start(kMasses, &arguments, sizeof arguments);
}

void Hydro::start_energy() {
    EnergyArguments arguments{mesh_.zones, mesh_.points, mesh_.corners, chunk_, step_};
    start(kEnergy, &arguments, sizeof arguments);
}

// Sums the masses of border points over all ranks, where that is not done by whom the kernel was handed to.
void Hydro::finish_masses() {
    const bool summed = under_way_handed_[kMasses] && side_.sums_borders();
    finish(kMasses);
    if (summed || mesh_.neighbours.empty()) return;
    for (std::size_t i = 0; i < mesh_.border_corners.size(); ++i)
        corner_mass_[std::size_t(mesh_.border_corners[i])] = border_mass_[i];
    mass_border_.begin(corner_mass_.data());
    mass_border_.finish();
    sum_border_points(mesh_, corner_mass_.data(), point_mass_.data());
}

std::vector<Buffer> Hydro::lengths_buffers() {
    return {whole(position_, Access::kIn),
            constant(mesh_.edge_points),
            constant(mesh_.zone_corner),
            constant(mesh_.corner_point),
            constant(mesh_.corner_next),
            constant(mesh_.corner_edge),
            whole(edge_length_, Access::kOut),
            whole(zone_length_, Access::kOut),
            {&stamps_[kLengths], sizeof(Stamp), Access::kOut}};
}

std::vector<Buffer> Hydro::masses_buffers() {
    return {whole(density_, Access::kIn),      whole(volume_, Access::kIn),
            constant(corner_share_),           constant(mesh_.corner_zone),
            constant(mesh_.point_corner),      constant(mesh_.point_corners),
            constant(mesh_.border_corners),    whole(point_mass_, Access::kOut),
            whole(border_mass_, Access::kOut), {&stamps_[kMasses], sizeof(Stamp), Access::kOut}};
}

std::vector<Buffer> Hydro::energy_buffers() {
    return {whole(pressure_force_, Access::kIn),
            whole(other_force_, Access::kIn),
            whole(velocity_before_, Access::kIn),
            whole(velocity_, Access::kIn),
            constant(zone_mass_),
            constant(mesh_.zone_corner),
            constant(mesh_.corner_point),
            constant(mesh_.corner_next),
            whole(energy_, Access::kInOut),
            whole(rate_, Access::kOut),
            {&stamps_[kEnergy], sizeof(Stamp), Access::kOut}};
}
