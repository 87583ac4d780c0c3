#include "checks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace {

std::uint64_t mix(std::uint64_t x) {  // splitmix64
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

double to_unit(std::uint64_t x) {
    return double(x >> 11) * 0x1p-52 - 1.0;
}  // [-1, 1)

bool holds_mode(int variable, int pass) {
    return variable % 2 == pass % 2;
}

std::array<int, 3> mode_of(int variable, Size3 size) {
    return {(variable + 1) % size[0], (2 * variable + 1) % size[1], (3 * variable + 2) % size[2]};
}

// Calls visit(point index in memory, {x, y, z}) for each point of the pencil.
template <typename Visit>
void for_each_point(const Pencil& pencil, Visit visit) {
    const auto stride = pencil.strides();
    const auto& box = pencil.box;
    for (int z = box[2].begin; z < box[2].end; ++z)
        for (int y = box[1].begin; y < box[1].end; ++y)
            for (int x = box[0].begin; x < box[0].end; ++x)
                visit(std::size_t(x - box[0].begin) * stride[0] + std::size_t(y - box[1].begin) * stride[1] +
                          std::size_t(z - box[2].begin) * stride[2],
                      std::array<int, 3>{x, y, z});
}

std::uint64_t global_index(std::array<int, 3> at, Size3 size) {
    return (std::uint64_t(at[2]) * size[1] + at[1]) * size[0] + at[0];
}

// Depends on the place in the global array only, so every decomposition starts from the same field.
std::complex<double> initial(int variable, std::array<int, 3> at, Size3 size, std::uint64_t seed, int pass) {
    if (holds_mode(variable, pass)) {
        const auto mode = mode_of(variable, size);
        double turns = 0;
        for (int axis = 0; axis < 3; ++axis)
            turns += double((long(mode[axis]) * at[axis]) % size[axis]) / size[axis];
        return std::polar(1.0, 2 * std::numbers::pi * turns);
    }
    const std::uint64_t key = mix(seed ^ mix(std::uint64_t(variable))) + 2 * global_index(at, size);
    return {to_unit(mix(key)), to_unit(mix(key + 1))};
}

std::uint64_t bits_of(double value) {
    return std::bit_cast<std::uint64_t>(value);
}
std::uint64_t bits_of(float value) {
    return std::bit_cast<std::uint32_t>(value);
}

double largest_of_all_ranks(double mine) {
    double result = 0;
    // A NaN must not be lost in a maximum.
    if (!(mine == mine)) mine = INFINITY;
    MPI_Allreduce(&mine, &result, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return result;
}

void keep_largest(double& largest, double candidate) {
    if (!(candidate <= largest)) largest = candidate;
}

}  // namespace

template <typename Real>
void fill(Transform<Real>& transform, std::uint64_t seed, int pass) {
    for (int v = 0; v < transform.variables(); ++v)
        for_each_point(transform.physical(), [&](std::size_t i, std::array<int, 3> at) {
            transform.data(v)[i] = std::complex<Real>(initial(v, at, transform.size(), seed, pass));
        });
}

template <typename Real>
double peak_error(const Transform<Real>& transform, int pass) {
    const Size3 size = transform.size();
    const double points = double(size[0]) * size[1] * size[2];
    double largest = 0;
    for (int v = 0; v < transform.variables(); ++v) {
        if (!holds_mode(v, pass)) continue;
        const auto mode = mode_of(v, size);
        for_each_point(transform.spectral(), [&](std::size_t i, std::array<int, 3> at) {
            const double expected = at == mode ? 1.0 : 0.0;
            keep_largest(largest, std::abs(std::complex<double>(transform.data(v)[i]) / points - expected));
        });
    }
    return largest_of_all_ranks(largest);
}

template <typename Real>
double round_trip_error(const Transform<Real>& transform, std::uint64_t seed, int pass) {
    double largest = 0;
    for (int v = 0; v < transform.variables(); ++v)
        for_each_point(transform.physical(), [&](std::size_t i, std::array<int, 3> at) {
            keep_largest(largest, std::abs(std::complex<double>(transform.data(v)[i]) -
                                           initial(v, at, transform.size(), seed, pass)));
        });
    return largest_of_all_ranks(largest);
}

template <typename Real>
std::uint64_t checksum(const Transform<Real>& transform, Direction last) {
    const Pencil& pencil = last == Direction::kForward ? transform.spectral() : transform.physical();
    std::uint64_t sum = 0;
    for (int v = 0; v < transform.variables(); ++v)
        for_each_point(pencil, [&](std::size_t i, std::array<int, 3> at) {
            const std::complex<Real> value = transform.data(v)[i];
            const std::uint64_t place = mix(global_index(at, transform.size()) * 1024 + std::uint64_t(v));
            sum += mix(place ^ bits_of(value.real())) + mix(~place ^ bits_of(value.imag()));
        });
    std::uint64_t total = 0;
    MPI_Allreduce(&sum, &total, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return total;
}

#define FOR_PRECISION(Real)                                                       \
    template void fill(Transform<Real>&, std::uint64_t, int);                     \
    template double peak_error(const Transform<Real>&, int);                      \
    template double round_trip_error(const Transform<Real>&, std::uint64_t, int); \
    template std::uint64_t checksum(const Transform<Real>&, Direction);
FOR_PRECISION(float)
FOR_PRECISION(double)
#undef FOR_PRECISION
