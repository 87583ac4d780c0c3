// Fields with a known transform, and the checks of the results. Real: float or double. All sums are
// collective over MPI_COMM_WORLD.
#pragma once

#include <cstdint>
#include <string>

#include "transform.h"

// Variables whose number has the parity of `pass` hold one Fourier mode, the others a random field; two
// passes give every variable both.
template <typename Real>
void fill(Transform<Real>& transform, std::uint64_t seed, int pass);

// After a forward transform: largest deviation, over the variables with a mode, from "N at the mode, 0
// elsewhere", divided by N = number of points.
template <typename Real>
double peak_error(const Transform<Real>& transform, int pass);

// After forward and backward: largest deviation from what fill() wrote.
template <typename Real>
double round_trip_error(const Transform<Real>& transform, std::uint64_t seed, int pass);

// A sum over all values, bits and places. Equal for equal results of the same size, seed, grid and precision.
template <typename Real>
std::uint64_t checksum(const Transform<Real>& transform, Direction last);
