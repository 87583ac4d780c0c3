#include "pencil.h"

#include <algorithm>

Range block_range(int total, int parts, int part) {
    const int base = total / parts;
    const int longer = total % parts;
    const int begin = part * base + std::min(part, longer);
    return {begin, begin + base + (part < longer ? 1 : 0)};
}

Range intersect(Range a, Range b) {
    const int begin = std::max(a.begin, b.begin);
    return {begin, std::max(begin, std::min(a.end, b.end))};
}

std::size_t points_in(const std::array<Range, 3>& part) {
    return std::size_t(part[0].length()) * std::size_t(part[1].length()) * std::size_t(part[2].length());
}

std::array<Range, 3> intersect(const Pencil& a, const Pencil& b) {
    return {intersect(a.box[0], b.box[0]), intersect(a.box[1], b.box[1]), intersect(a.box[2], b.box[2])};
}

namespace {

// The axes from the fastest to the slowest in a pencil along `axis`.
std::array<int, 3> axes_by_speed(int axis) {
    if (axis == 0) return {0, 1, 2};
    if (axis == 1) return {1, 0, 2};
    return {2, 0, 1};
}

}  // namespace

std::size_t Pencil::points() const {
    return points_in(box);
}

int Pencil::lines() const {
    const auto order = axes_by_speed(axis);
    return box[order[1]].length() * box[order[2]].length();
}

std::array<std::size_t, 3> Pencil::strides() const {
    const auto order = axes_by_speed(axis);
    std::array<std::size_t, 3> result{};
    result[order[0]] = 1;
    result[order[1]] = std::size_t(box[order[0]].length());
    result[order[2]] = result[order[1]] * std::size_t(box[order[1]].length());
    return result;
}

Pencil make_pencil(Size3 size, std::array<int, 2> grid, std::array<int, 2> position, int axis) {
    Pencil pencil;
    pencil.axis = axis;
    const std::array<int, 2> split = {axis == 0 ? 1 : 0, axis == 2 ? 1 : 2};
    pencil.box[axis] = {0, size[axis]};
    for (int i = 0; i < 2; ++i) pencil.box[split[i]] = block_range(size[split[i]], grid[i], position[i]);
    return pencil;
}

template <typename Real>
void pack(const Pencil& pencil, const std::complex<Real>* data, const std::array<Range, 3>& part,
          int destination_axis, std::complex<Real>* block) {
    const auto order = axes_by_speed(destination_axis);
    const auto stride = pencil.strides();
    const auto [fast, middle, slow] = order;
    for (int k = part[slow].begin; k < part[slow].end; ++k) {
        for (int j = part[middle].begin; j < part[middle].end; ++j) {
            const std::complex<Real>* from =
                data + std::size_t(k - pencil.box[slow].begin) * stride[slow] +
                std::size_t(j - pencil.box[middle].begin) * stride[middle] +
                std::size_t(part[fast].begin - pencil.box[fast].begin) * stride[fast];
            const int length = part[fast].length();
            for (int i = 0; i < length; ++i) *block++ = from[std::size_t(i) * stride[fast]];
        }
    }
}

template <typename Real>
void unpack(const Pencil& pencil, std::complex<Real>* data, const std::array<Range, 3>& part,
            const std::complex<Real>* block) {
    const auto order = axes_by_speed(pencil.axis);
    const auto stride = pencil.strides();
    const auto [fast, middle, slow] = order;
    for (int k = part[slow].begin; k < part[slow].end; ++k) {
        for (int j = part[middle].begin; j < part[middle].end; ++j) {
            std::complex<Real>* to = data + std::size_t(k - pencil.box[slow].begin) * stride[slow] +
                                     std::size_t(j - pencil.box[middle].begin) * stride[middle] +
                                     std::size_t(part[fast].begin - pencil.box[fast].begin);
            const int length = part[fast].length();
            std::copy_n(block, length, to);
            block += length;
        }
    }
}

#define FOR_PRECISION(Real)                                                                        \
    template void pack(const Pencil&, const std::complex<Real>*, const std::array<Range, 3>&, int, \
                       std::complex<Real>*);                                                       \
    template void unpack(const Pencil&, std::complex<Real>*, const std::array<Range, 3>&,          \
                         const std::complex<Real>*);
FOR_PRECISION(float)
FOR_PRECISION(double)
#undef FOR_PRECISION
