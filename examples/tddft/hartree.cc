#include "hartree.h"

#include <algorithm>
#include <cmath>

Hartree::Hartree(std::array<int, 3> points, double spacing, double strength, double softening) {
    const auto [nx, ny, nz] = points;
    const std::size_t all = std::size_t(nx) * std::size_t(ny) * std::size_t(nz);
    values_.resize(all);
    modes_.resize(std::size_t(nz) * std::size_t(ny) * std::size_t(nx / 2 + 1));
    // FFTW_ESTIMATE chooses the same plan in every run, so that equal runs give equal bits.
    auto* const modes = reinterpret_cast<fftw_complex*>(modes_.data());
    forward_ = fftw_plan_dft_r2c_3d(nz, ny, nx, values_.data(), modes, FFTW_ESTIMATE);
    backward_ = fftw_plan_dft_c2r_3d(nz, ny, nx, modes, values_.data(), FFTW_ESTIMATE);
    const auto distance = [spacing](int i, int n) { return spacing * std::min(i, n - i); };
    std::size_t at = 0;
    for (int z = 0; z < nz; ++z)
        for (int y = 0; y < ny; ++y)
            for (int x = 0; x < nx; ++x) {
                const double dx = distance(x, nx), dy = distance(y, ny), dz = distance(z, nz);
                values_[at++] = strength / std::sqrt(dx * dx + dy * dy + dz * dz + softening * softening);
            }
    fftw_execute(forward_);
    kernel_ = modes_;
    const double scale = spacing * spacing * spacing / double(all);
    for (auto& mode : kernel_) mode = {mode[0] * scale, mode[1] * scale};
}

Hartree::~Hartree() {
    fftw_destroy_plan(forward_);
    fftw_destroy_plan(backward_);
}

void Hartree::potential(const std::vector<double>& density, std::vector<double>& result) {
    std::copy(density.begin(), density.end(), values_.begin());
    fftw_execute(forward_);
    for (std::size_t i = 0; i < modes_.size(); ++i) {
        const auto [a, b] = modes_[i];
        const auto [c, d] = kernel_[i];
        modes_[i] = {a * c - b * d, a * d + b * c};
    }
    fftw_execute(backward_);
    result = values_;
}
