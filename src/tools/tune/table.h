// From what was measured to rules: which algorithm is best at a point, and ranges out of points. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/selection.h"

namespace longshore::tools {

// What one algorithm showed at a point.
struct Figure {
    Carrier carrier{};
    double us = 0;      // the median of its turns' medians
    double spread = 0;  // of these medians: quartile distance over the median
};

// Figures of one collective at one size on so many nodes; `bytes` as the table counts them.
struct TunedPoint {
    uint64_t nodes = 1, bytes = 0;
    std::vector<Figure> figures;
};

// Two figures further apart than this are different: the larger of their spreads, but at least 5 % and at
// most 25 %.
double noise_margin(const Figure& a, const Figure& b);

// The fastest; but direct, if it is not slower than the fastest by more than the margin. `figures` is not
// empty.
Carrier pick_carrier(std::span<const Figure> figures);

// One figure per algorithm for all sizes together, by which a collective is tuned whose sizes not all ranks
// know: geometric means over the sizes that all of them have. `points` is not empty.
TunedPoint whole_of(const std::vector<TunedPoint>& points);

// The end of a range whose last measured size is `a`, if another begins with `b`: their geometric mean,
// rounded to a power of two or one and a half of one. a < b.
uint64_t boundary_between(uint64_t a, uint64_t b);

// Rules that cover everything, from points in any order. None if there is no point with figures.
std::vector<SelectionRule> make_rules(Selected collective, std::vector<TunedPoint> points);

// Helpers for samples.
double median_of(std::vector<double> values);  // not empty
double quartile_distance(std::vector<double> values);

}  // namespace longshore::tools
