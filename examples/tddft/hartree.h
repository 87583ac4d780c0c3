// The potential that a density makes at every point: its convolution with a soft Coulomb repulsion in a
// periodic box, by FFTs of the whole grid on each rank.
#pragma once

#include <fftw3.h>

#include <array>
#include <vector>

class Hartree {
  public:
    // `spacing`: of the points; the repulsion is strength / sqrt(r^2 + softening^2), of the nearest image.
    Hartree(std::array<int, 3> points, double spacing, double strength, double softening);
    ~Hartree();
    Hartree(const Hartree&) = delete;
    Hartree& operator=(const Hartree&) = delete;

    void potential(const std::vector<double>& density, std::vector<double>& result);

  private:
    std::vector<double> values_;
    std::vector<std::array<double, 2>> modes_, kernel_;
    fftw_plan forward_, backward_;
};
