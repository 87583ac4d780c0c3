#include "propagator.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace {

// Of the second derivative, to eighth order, at distance 0 to 4.
constexpr std::array<double, kHalo + 1> kStencil = {-205.0 / 72, 8.0 / 5, -1.0 / 5, 8.0 / 315, -1.0 / 560};
constexpr int kOrder = 4;                   // of the Taylor series
constexpr std::size_t kStampedWords = 512;  // one word of so many changes with each allgather
constexpr double kPi = 3.14159265358979323846;

// The oscillator's states in order of energy: quantum numbers along x, y, z.
std::vector<std::array<int, 3>> quantum_numbers(int states) {
    std::vector<std::array<int, 3>> numbers;
    for (int level = 0; int(numbers.size()) < states; ++level)
        for (int x = level; x >= 0; --x)
            for (int y = level - x; y >= 0; --y) numbers.push_back({x, y, level - x - y});
    numbers.resize(std::size_t(states));
    return numbers;
}

// Normalised, of frequency omega.
double hermite(int n, double x, double omega) {
    const double s = x * std::sqrt(omega);
    double before = 0, now = std::pow(omega / kPi, 0.25) * std::exp(-s * s / 2);
    for (int k = 0; k < n; ++k) {
        const double next = (std::sqrt(2.0) * s * now - std::sqrt(double(k)) * before) / std::sqrt(k + 1.0);
        before = now;
        now = next;
    }
    return now;
}

double pattern(std::uint64_t call, int rank, std::size_t word) {
    return double((call * 1000003 + std::uint64_t(rank) * 7919 + word) & 0xffffffffULL);
}

int node_of_shared_memory() {
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    int first = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &first);
    MPI_Bcast(&first, 1, MPI_INT, 0, node);
    MPI_Comm_free(&node);
    return first;
}

}  // namespace

Propagator::Propagator(const Layout& layout, const Physics& physics, const Pace& pace, Exchanges& exchanges)
    : layout_(layout),
      physics_(physics),
      pace_(pace),
      exchanges_(exchanges),
      hartree_(layout.points, physics.spacing, physics.interaction, physics.softening) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    node_ = pace.ranks_per_node > 0 ? rank_ / pace.ranks_per_node : node_of_shared_memory();
    block_ = std::max(layout.local_points(), (pace.allgather_bytes + sizeof(double) - 1) / sizeof(double));
    const std::size_t values = stride() * std::size_t(layout.local_states());
    for (auto* array : {&psi_, &before_, &power_, &applied_}) array->resize(values);
    for (auto* array : {&packed_, &transposed_})
        array->resize(layout.local_points() * std::size_t(layout.local_states()));
    outer_.resize(layout.local_points());
    potential_.resize(layout.local_points());
    mine_.resize(block_);
    all_.resize(block_ * std::size_t(ranks_));
    density_.resize(layout.all_points());
    for (std::size_t i = layout.local_points(); i < block_; ++i) mine_[i] = pattern(0, rank_, i);
}

std::size_t Propagator::stride() const {
    return layout_.plane_points() * std::size_t(layout_.local_planes() + 2 * kHalo);
}

void Propagator::sleep(double seconds) const {
    if (seconds <= 0) return;
    timespec left{time_t(seconds), long(1e9 * (seconds - std::floor(seconds)))};
    while (nanosleep(&left, &left) != 0) {
    }
}

void Propagator::start() {
    const std::size_t plane = layout_.plane_points();
    const int nx = layout_.points[0], ny = layout_.points[1], nz = layout_.points[2];
    const auto numbers = quantum_numbers(layout_.states);
    for (int state = 0; state < layout_.local_states(); ++state) {
        const auto& n = numbers[std::size_t(exchanges_.state_rank() * layout_.local_states() + state)];
        Complex* value = &psi_[stride() * std::size_t(state) + kHalo * plane];
        for (int i = 0; i < layout_.local_planes(); ++i)
            for (int j = 0; j < ny; ++j)
                for (int k = 0; k < nx; ++k) {
                    const double x = coordinate(k, nx), y = coordinate(j, ny),
                                 z = coordinate(exchanges_.domain_rank() * layout_.local_planes() + i, nz);
                    *value++ = std::polar(1.0, physics_.kick * (x + y + z)) *
                               hermite(n[0], x, physics_.omega) * hermite(n[1], y, physics_.omega) *
                               hermite(n[2], z, physics_.omega);
                }
    }
    time_ = 0;
    set_outer_potential();
    if (!pace_.sleeps) {
        gather_density();
        hartree_.potential(density_, hartree_now_);
        hartree_before_ = hartree_now_;
    }
    // The exchange energy is made while the states of a point are together.
    exchange_phase();
}

// The molecule's atoms reach as far as kCutoff and are all in the lower half of the box, so that ranks which
// hold planes there have more to do, as with atoms that move.
void Propagator::set_outer_potential() {
    constexpr double kCutoff = 4, kCharge = 4;
    const int nx = layout_.points[0], ny = layout_.points[1], nz = layout_.points[2];
    const std::size_t plane = layout_.plane_points();
    const double shift = kCharge / std::sqrt(kCutoff * kCutoff + 1);
#pragma omp parallel for
    for (int i = 0; i < layout_.local_planes(); ++i) {
        double* value = &outer_[std::size_t(i) * plane];
        const double z = coordinate(exchanges_.domain_rank() * layout_.local_planes() + i, nz);
        for (int j = 0; j < ny; ++j)
            for (int k = 0; k < nx; ++k, ++value) {
                const double x = coordinate(k, nx), y = coordinate(j, ny);
                *value = 0.5 * physics_.omega * physics_.omega * (x * x + y * y + z * z);
                if (physics_.problem == Problem::kWell) continue;
                *value *= 0.1;  // holds together what leaves the atoms
                for (const double side : {-1.0, 1.0}) {
                    const double dx = x - side, dz = z + 1.5, r2 = dx * dx + y * y + dz * dz;
                    if (r2 < kCutoff * kCutoff) *value += shift - kCharge / std::sqrt(r2 + 1);
                }
            }
    }
}

// How far the neighbours at distance -kHalo to kHalo of each of n points are in memory, around a periodic
// line.
static std::vector<std::array<std::ptrdiff_t, 2 * kHalo + 1>> neighbours_of(int n, std::ptrdiff_t apart) {
    std::vector<std::array<std::ptrdiff_t, 2 * kHalo + 1>> result(static_cast<std::size_t>(n));
    for (int i = 0; i < n; ++i)
        for (int d = -kHalo; d <= kHalo; ++d)
            result[std::size_t(i)][std::size_t(d + kHalo)] = ((i + d + n) % n - i) * apart;
    return result;
}

// out = (-1/2 Laplacian + potential) in
void Propagator::apply(std::vector<Complex>& in, std::vector<Complex>& out, const double* potential) {
    exchanges_.halo(in.data());
    if (pace_.sleeps) return sleep(pace_.compute_seconds / kOrder);
    const int nx = layout_.points[0], ny = layout_.points[1], planes = layout_.local_planes();
    const auto plane = std::ptrdiff_t(layout_.plane_points());
    const auto along_x = neighbours_of(nx, 1), along_y = neighbours_of(ny, nx);
    const double factor = -0.5 / (physics_.spacing * physics_.spacing);
#pragma omp parallel for collapse(2)
    for (int state = 0; state < layout_.local_states(); ++state)
        for (int i = 0; i < planes; ++i) {
            const std::size_t at =
                stride() * std::size_t(state) + std::size_t(i + kHalo) * std::size_t(plane);
            const Complex* point = &in[at];
            Complex* result = &out[at];
            const double* v = potential + std::size_t(i) * std::size_t(plane);
            for (int j = 0; j < ny; ++j)
                for (int k = 0; k < nx; ++k, ++point) {
                    const auto& x = along_x[std::size_t(k)];
                    const auto& y = along_y[std::size_t(j)];
                    Complex sum = 3 * kStencil[0] * *point;
                    for (std::size_t d = 1; d <= kHalo; ++d)
                        sum +=
                            kStencil[d] * (point[x[kHalo - d]] + point[x[kHalo + d]] + point[y[kHalo - d]] +
                                           point[y[kHalo + d]] + point[-std::ptrdiff_t(d) * plane] +
                                           point[std::ptrdiff_t(d) * plane]);
                    *result++ = factor * sum + *v++ * *point;
                }
        }
}

// psi = exp(-i dt A) before
void Propagator::propagate(bool first_pass) {
    const std::size_t plane = layout_.plane_points(), own = layout_.local_points();
    if (!pace_.sleeps) {
        const std::size_t first = own * std::size_t(exchanges_.domain_rank());
        for (std::size_t i = 0; i < own; ++i) {
            const std::size_t g = first + i;
            potential_[i] = outer_[i] + (first_pass ? 1.5 * hartree_now_[g] - 0.5 * hartree_before_[g]
                                                    : 0.5 * (hartree_now_[g] + hartree_next_[g]));
        }
        psi_ = before_;
        power_ = before_;
    }
    for (int order = 1; order <= kOrder; ++order) {
        apply(power_, applied_, potential_.data());
        if (pace_.sleeps) continue;
        const Complex factor(0, -physics_.dt / order);
        const double volume = std::pow(physics_.spacing, 3);
        double energy = 0;
        for (int state = 0; state < layout_.local_states(); ++state) {
            const std::size_t at = stride() * std::size_t(state) + kHalo * plane;
            for (std::size_t i = at; i < at + own; ++i) {
                const Complex h = applied_[i];
                if (order == 1 && first_pass)  // without the Hartree potential of the middle of the step
                    energy += power_[i].real() * h.real() + power_[i].imag() * h.imag() -
                              std::norm(power_[i]) * (potential_[i - at] - outer_[i - at]);
                power_[i] = {-factor.imag() * h.imag(), factor.imag() * h.real()};
                psi_[i] += power_[i];
            }
        }
        if (order == 1 && first_pass) one_body_energy_ = energy * volume;
    }
}

void Propagator::partial_density() {
    const std::size_t plane = layout_.plane_points();
    std::fill_n(mine_.begin(), layout_.local_points(), 0.0);
    for (int state = 0; state < layout_.local_states(); ++state) {
        const Complex* const value = &psi_[stride() * std::size_t(state) + kHalo * plane];
        for (std::size_t i = 0; i < layout_.local_points(); ++i) mine_[i] += std::norm(value[i]);
    }
}

// What a block has beside the density changes in places with each call, so that an old block is found out.
void Propagator::stamp() {
    for (std::size_t i = layout_.local_points(); i < block_; i += kStampedWords)
        mine_[i] = pattern(calls_, rank_, i);
}

void Propagator::verify(bool all) {
    for (int rank = 0; rank < ranks_; ++rank) {
        const double* const block = &all_[block_ * std::size_t(rank)];
        const std::size_t first = layout_.local_points();
        for (std::size_t i = first; i < block_; i += all ? 1 : kStampedWords)
            wrong_words_ += block[i] != pattern((i - first) % kStampedWords ? 0 : calls_, rank, i);
    }
}

void Propagator::finish() {
    if (calls_ == 0) return;
    --calls_;  // the stamp of the last call
    verify(true);
    ++calls_;
}

void Propagator::sum_density() {
    const std::size_t own = layout_.local_points();
    std::fill(density_.begin(), density_.end(), 0.0);
    for (int state = 0; state < layout_.state_ranks; ++state)
        for (int domain = 0; domain < layout_.domain_ranks; ++domain) {
            const double* const from = &all_[block_ * std::size_t(state * layout_.domain_ranks + domain)];
            double* const to = &density_[own * std::size_t(domain)];
            for (std::size_t i = 0; i < own; ++i) to[i] += from[i];
        }
}

void Propagator::gather_density() {
    if (!pace_.sleeps) partial_density();
    stamp();
    const double late = pace_.lateness.seconds(calls_, node_, rank_);
    late_seconds_ += late;
    sleep(late);
    exchanges_.allgather(mine_.data(), all_.data(), block_);
    verify(calls_ == 0);
    if (!pace_.sleeps) sum_density();
    ++calls_;
}

// All states of a rank's share of points together: the exchange potential of their density turns the phases.
void Propagator::apply_phase() {
    const std::size_t part = layout_.local_points() / std::size_t(layout_.state_ranks);
    const double volume = std::pow(physics_.spacing, 3);
    const double factor = -physics_.interaction * std::cbrt(3 / kPi);
    double energy = 0;
    for (std::size_t i = 0; i < part; ++i) {
        double density = 0;
        for (int state = 0; state < layout_.states; ++state)
            density += std::norm(transposed_[std::size_t(state) * part + i]);
        const double potential = factor * std::cbrt(density);
        energy += 0.75 * potential * density;
        if (time_ == 0) continue;  // before the first step
        const double c = std::cos(physics_.dt * potential), s = -std::sin(physics_.dt * potential);
        for (int state = 0; state < layout_.states; ++state) {
            Complex& value = transposed_[std::size_t(state) * part + i];
            value = {value.real() * c - value.imag() * s, value.real() * s + value.imag() * c};
        }
    }
    exchange_energy_ = energy * volume;
}

void Propagator::exchange_phase() {
    const std::size_t plane = layout_.plane_points(), local = std::size_t(layout_.local_states());
    const std::size_t parts = std::size_t(layout_.state_ranks), part = layout_.local_points() / parts;
    const auto at = [&](std::size_t to, std::size_t state) {
        return psi_.begin() + std::ptrdiff_t(stride() * state + kHalo * plane + to * part);
    };
    for (std::size_t to = 0; to < parts; ++to)
        for (std::size_t state = 0; state < local; ++state)
            std::copy_n(at(to, state), part, packed_.begin() + std::ptrdiff_t((to * local + state) * part));
    exchanges_.alltoall(packed_.data(), transposed_.data(), local * part);
    if (!pace_.sleeps) apply_phase();
    exchanges_.alltoall(transposed_.data(), packed_.data(), local * part);
    for (std::size_t to = 0; to < parts; ++to)
        for (std::size_t state = 0; state < local; ++state)
            std::copy_n(packed_.begin() + std::ptrdiff_t((to * local + state) * part), part, at(to, state));
}

Observed Propagator::step(int passes) {
    time_ += physics_.dt;
    const double exchange_energy = exchange_energy_;  // of this rank's points, at the step's begin
    if (!pace_.sleeps) before_ = psi_;
    if (physics_.problem == Problem::kMolecule && !pace_.sleeps) set_outer_potential();
    double hartree_energy = 0;
    const double volume = std::pow(physics_.spacing, 3);
    for (std::size_t i = 0; i < density_.size() && !pace_.sleeps; ++i)
        hartree_energy += 0.5 * volume * density_[i] * hartree_now_[i];
    for (int pass = 0; pass < passes; ++pass) {
        propagate(pass == 0);
        gather_density();
        if (!pace_.sleeps) hartree_.potential(density_, hartree_next_);
    }
    exchange_phase();
    hartree_before_.swap(hartree_now_);
    hartree_now_.swap(hartree_next_);

    std::vector<double> sums(std::size_t(layout_.states) + 1, 0.0);
    for (int state = 0; state < layout_.local_states() && !pace_.sleeps; ++state) {
        const Complex* const value = &psi_[stride() * std::size_t(state) + kHalo * layout_.plane_points()];
        double norm = 0;
        for (std::size_t i = 0; i < layout_.local_points(); ++i) norm += std::norm(value[i]);
        sums[std::size_t(exchanges_.state_rank() * layout_.local_states() + state)] = norm * volume;
    }
    sums.back() = one_body_energy_ + exchange_energy;
    exchanges_.sum(sums);
    Observed seen;
    seen.time = time_;
    if (pace_.sleeps) return seen;
    seen.energy = sums.back() + hartree_energy;
    for (int state = 0; state < layout_.states; ++state)
        seen.norm_error = std::max(seen.norm_error, std::abs(sums[std::size_t(state)] - 1));
    std::size_t at = 0;
    for (int i = 0; i < layout_.points[2]; ++i)
        for (int j = 0; j < layout_.points[1]; ++j)
            for (int k = 0; k < layout_.points[0]; ++k) {
                const double n = density_[at++] * volume / layout_.states;
                seen.dipole[0] += n * coordinate(k, layout_.points[0]);
                seen.dipole[1] += n * coordinate(j, layout_.points[1]);
                seen.dipole[2] += n * coordinate(i, layout_.points[2]);
            }
    return seen;
}

std::uint64_t Propagator::checksum() const {
    std::uint64_t sum = 0;
    const std::size_t own = layout_.local_points();
    for (int state = 0; state < layout_.local_states(); ++state) {
        const Complex* const value = &psi_[stride() * std::size_t(state) + kHalo * layout_.plane_points()];
        const std::uint64_t first =
            std::uint64_t(exchanges_.state_rank() * layout_.local_states() + state) * layout_.all_points() +
            std::uint64_t(exchanges_.domain_rank()) * own;
        for (std::size_t i = 0; i < 2 * own; ++i) {
            std::uint64_t bits = 0;
            std::memcpy(&bits, reinterpret_cast<const double*>(value) + i, sizeof bits);
            bits = (bits ^ ((2 * first + i) * 0x9e3779b97f4a7c15ULL)) * 0xff51afd7ed558ccdULL;
            sum += bits ^ (bits >> 29);
        }
    }
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}
