// What is read of a state that has settled: its energy, its checksum.
#include <bit>

#include "hydro.h"

namespace {

// A 64-bit hash (the finalizer of splitmix64) of a value's bits, and of where it stands: of number `index` of
// a field.
std::uint64_t mix(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
}

std::uint64_t hash(double value, std::int64_t index, unsigned field) {
    return mix(std::bit_cast<std::uint64_t>(value) +
               mix(std::uint64_t(index) * 8 + field + 0x9e3779b97f4a7c15ULL));
}

}  // namespace

Energies Hydro::energies() const {
    double sums[2] = {0, 0};
    for (std::size_t zone = 0; zone < energy_.size(); ++zone) sums[0] += zone_mass_[zone] * energy_[zone];
    for (std::size_t point = 0; point < velocity_.size(); ++point)
        if (mesh_.point_owned[point])
            sums[1] += 0.5 * point_mass_[point] * dot(velocity_[point], velocity_[point]);
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, comm_);
    return {sums[0], sums[1]};
}

std::uint64_t Hydro::checksum() const {
    std::uint64_t sum = 0;
    for (std::size_t point = 0; point < position_.size(); ++point) {
        if (!mesh_.point_owned[point]) continue;
        const std::int64_t number = mesh_.point_number[point];
        sum += hash(position_[point].x, number, 0) + hash(position_[point].y, number, 1);
        sum += hash(velocity_[point].x, number, 2) + hash(velocity_[point].y, number, 3);
    }
    for (std::size_t zone = 0; zone < energy_.size(); ++zone) {
        const std::int64_t number = mesh_.zone_number[zone];
        sum +=
            hash(density_[zone], number, 4) + hash(energy_[zone], number, 5) + hash(rate_[zone], number, 6);
    }
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, comm_);
    return sum;
}

std::size_t Hydro::bytes_handed(KernelId kernel) const {
    auto* self = const_cast<Hydro*>(this);
    const std::vector<Buffer> buffers = kernel == kLengths  ? self->lengths_buffers()
                                        : kernel == kMasses ? self->masses_buffers()
                                                            : self->energy_buffers();
    std::size_t bytes = 0;
    for (const Buffer& buffer : buffers) {
        if (buffer.access == Access::kConstant) continue;
        bytes += buffer.bytes * (buffer.access == Access::kInOut ? 2 : 1);
    }
    return bytes;
}
