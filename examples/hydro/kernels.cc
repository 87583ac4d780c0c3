#include "kernels.h"

#include <cmath>
#include <ctime>
#include <limits>

#include "chunks.h"
#include "vec.h"

namespace {

std::int64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

// Looks at a call's sizes, so that no kernel reads or writes beyond a buffer.
class Call {
  public:
    Call(const View* buffers, int count, int expected) : buffers_(buffers), good_(count == expected) {}

    template <typename Value>
    Value* buffer(int index, std::int64_t values) {
        if (!good_ || values < 0 || buffers_[index].bytes < std::size_t(values) * sizeof(Value)) {
            good_ = false;
            return nullptr;
        }
        return static_cast<Value*>(buffers_[index].data);
    }
    bool is_good() const { return good_; }

  private:
    const View* buffers_;
    bool good_;
};

template <typename Arguments>
const Arguments* arguments_of(const void* data, std::size_t bytes) {
    return bytes == sizeof(Arguments) ? static_cast<const Arguments*>(data) : nullptr;
}

int run_lengths(const void* given, std::size_t bytes, const View* buffers, int count) {
    const auto* arguments = arguments_of<LengthsArguments>(given, bytes);
    Call call(buffers, count, kLengthsBuffers);
    if (!arguments) return kBadCall;
    const auto* position = call.buffer<Vec>(kLengthsPosition, arguments->points);
    const auto* edge_points =
        call.buffer<std::int32_t>(kLengthsEdgePoints, 2 * std::int64_t(arguments->edges));
    const auto* zone_corner =
        call.buffer<std::int32_t>(kLengthsZoneCorner, std::int64_t(arguments->zones) + 1);
    const auto* corner_point = call.buffer<std::int32_t>(kLengthsCornerPoint, arguments->corners);
    const auto* corner_next = call.buffer<std::int32_t>(kLengthsCornerNext, arguments->corners);
    const auto* corner_edge = call.buffer<std::int32_t>(kLengthsCornerEdge, arguments->corners);
    auto* edge_length = call.buffer<double>(kLengthsEdge, arguments->edges);
    auto* zone_length = call.buffer<double>(kLengthsZone, arguments->zones);
    auto* stamp = call.buffer<Stamp>(kLengthsStamp, 1);
    if (!call.is_good()) return kBadCall;
    stamp->began_ns = now_ns();
    for_chunks(arguments->edges, arguments->chunk, [=](std::int32_t first, std::int32_t last) {
        for (std::int32_t edge = first; edge < last; ++edge) {
            const Vec along = position[edge_points[2 * edge + 1]] - position[edge_points[2 * edge]];
            edge_length[edge] = std::sqrt(dot(along, along));
        }
    });
    for_chunks(arguments->zones, arguments->chunk, [=](std::int32_t first, std::int32_t last) {
        for (std::int32_t zone = first; zone < last; ++zone) {
            const std::int32_t begin = zone_corner[zone], end = zone_corner[zone + 1];
            Vec centre;
            for (std::int32_t corner = begin; corner < end; ++corner)
                centre = centre + position[corner_point[corner]];
            centre = (1.0 / (end - begin)) * centre;
            double least = std::numeric_limits<double>::infinity();
            for (std::int32_t corner = begin; corner < end; ++corner) {
                const Vec one = position[corner_point[corner]],
                          other = position[corner_point[corner_next[corner]]];
                // From a side to the centre, twice: to the side that is opposite.
                least =
                    std::min(least, 2 * cross(other - one, centre - one) / edge_length[corner_edge[corner]]);
            }
            zone_length[zone] = least;
        }
    });
    stamp->ended_ns = now_ns();
    return 0;
}

int run_masses(const void* given, std::size_t bytes, const View* buffers, int count) {
    const auto* arguments = arguments_of<MassesArguments>(given, bytes);
    Call call(buffers, count, kMassesBuffers);
    if (!arguments) return kBadCall;
    const std::int32_t corners = arguments->corners;
    const auto* density = call.buffer<double>(kMassesDensity, arguments->zones);
    const auto* volume = call.buffer<double>(kMassesVolume, arguments->zones);
    const auto* share = call.buffer<double>(kMassesCornerShare, corners);
    const auto* corner_zone = call.buffer<std::int32_t>(kMassesCornerZone, corners);
    const auto* point_corner =
        call.buffer<std::int32_t>(kMassesPointCorner, std::int64_t(arguments->points) + 1);
    const auto* point_corners = call.buffer<std::int32_t>(kMassesPointCorners, arguments->point_corners);
    const auto* border_corners = call.buffer<std::int32_t>(kMassesBorderCorners, arguments->border_corners);
    auto* point_mass = call.buffer<double>(kMassesPoint, arguments->points);
    auto* border_mass = call.buffer<double>(kMassesBorder, arguments->border_corners);
    auto* stamp = call.buffer<Stamp>(kMassesStamp, 1);
    if (!call.is_good()) return kBadCall;
    stamp->began_ns = now_ns();
    const auto mass_of = [=](std::int32_t corner) {
        const std::int32_t zone = corner_zone[corner];
        return density[zone] * volume[zone] * share[corner];
    };
    for_chunks(arguments->points, arguments->chunk, [=](std::int32_t first, std::int32_t last) {
        for (std::int32_t point = first; point < last; ++point) {
            double mass = 0;
            for (std::int32_t i = point_corner[point]; i < point_corner[point + 1]; ++i)
                if (point_corners[i] < corners) mass += mass_of(point_corners[i]);
            point_mass[point] = mass;
        }
    });
    for (std::int32_t i = 0; i < arguments->border_corners; ++i) border_mass[i] = mass_of(border_corners[i]);
    stamp->ended_ns = now_ns();
    return 0;
}

int run_energy(const void* given, std::size_t bytes, const View* buffers, int count) {
    const auto* arguments = arguments_of<EnergyArguments>(given, bytes);
    Call call(buffers, count, kEnergyBuffers);
    if (!arguments) return kBadCall;
    const auto* pressure_force = call.buffer<Vec>(kEnergyPressureForce, arguments->corners);
    const auto* other_force = call.buffer<Vec>(kEnergyOtherForce, arguments->corners);
    const auto* before = call.buffer<Vec>(kEnergyVelocityBefore, arguments->points);
    const auto* after = call.buffer<Vec>(kEnergyVelocityAfter, arguments->points);
    const auto* zone_mass = call.buffer<double>(kEnergyZoneMass, arguments->zones);
    const auto* zone_corner =
        call.buffer<std::int32_t>(kEnergyZoneCorner, std::int64_t(arguments->zones) + 1);
    const auto* corner_point = call.buffer<std::int32_t>(kEnergyCornerPoint, arguments->corners);
    const auto* corner_next = call.buffer<std::int32_t>(kEnergyCornerNext, arguments->corners);
    auto* energy = call.buffer<double>(kEnergyEnergy, arguments->zones);
    auto* rate = call.buffer<double>(kEnergyRate, arguments->zones);
    auto* stamp = call.buffer<Stamp>(kEnergyStamp, 1);
    if (!call.is_good()) return kBadCall;
    stamp->began_ns = now_ns();
    const double step = arguments->step;
    for_chunks(arguments->zones, arguments->chunk, [=](std::int32_t first, std::int32_t last) {
        for (std::int32_t zone = first; zone < last; ++zone) {
            double by_pressure = 0, by_others = 0;  // power that the zone gives to its points
            for (std::int32_t corner = zone_corner[zone]; corner < zone_corner[zone + 1]; ++corner) {
                const std::int32_t one = corner_point[corner], other = corner_point[corner_next[corner]];
                const Vec apart = 0.5 * ((before[one] + after[one]) - (before[other] + after[other]));
                by_pressure += dot(pressure_force[corner], apart);
                by_others += dot(other_force[corner], apart);
            }
            const double work = -(by_pressure + by_others) * step;
            rate[zone] = -by_others;
            energy[zone] += work / zone_mass[zone];
        }
    });
    stamp->ended_ns = now_ns();
    return 0;
}

}  // namespace

const Kernel kKernelTable[kKernels] = {
    {"lengths", run_lengths, 2}, {"masses", run_masses, 2}, {"energy", run_energy, 1}};
