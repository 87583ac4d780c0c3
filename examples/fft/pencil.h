// Which part of the 3-D array a rank holds, and how a part is cut into the blocks of one exchange. No MPI in
// here.
#pragma once

#include <array>
#include <complex>
#include <cstddef>
#include <vector>

using Size3 = std::array<int, 3>;

// The half-open range of `total` points that part `part` of `parts` holds: as even as can be, the first ones
// longer.
struct Range {
    int begin = 0;
    int end = 0;
    int length() const { return end - begin; }
};
Range block_range(int total, int parts, int part);
Range intersect(Range a, Range b);

// A box of the global array that is whole along `axis`; in memory that axis runs fastest, then the two others
// in their order x, y, z.
struct Pencil {
    int axis = 0;
    std::array<Range, 3> box;

    std::size_t points() const;
    int lines() const;                           // 1-D transforms along the axis
    std::array<std::size_t, 3> strides() const;  // of x, y, z in points
};

// The pencil along `axis` of the rank at (row, column) of a rows x columns grid:
//   x: y over rows, z over columns;   y: x over rows, z over columns;   z: x over rows, y over columns.
Pencil make_pencil(Size3 size, std::array<int, 2> grid, std::array<int, 2> position, int axis);

// Copies the points of `part` (inside the pencil's box) out of or into the pencil. The order in the packed
// block is that of `destination_axis` fastest, the same on both sides. Real: float or double.
template <typename Real>
void pack(const Pencil& pencil, const std::complex<Real>* data, const std::array<Range, 3>& part,
          int destination_axis, std::complex<Real>* block);
template <typename Real>
void unpack(const Pencil& pencil, std::complex<Real>* data, const std::array<Range, 3>& part,
            const std::complex<Real>* block);

std::array<Range, 3> intersect(const Pencil& a, const Pencil& b);
std::size_t points_in(const std::array<Range, 3>& part);
