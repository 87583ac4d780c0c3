// Numbers out of samples. Pure; used on rank 0 only.
#pragma once

#include <cstdint>
#include <span>

namespace longshore::bench {

struct Summary {
    double min = 0, median = 0, p99 = 0, max = 0;
};

// All zero for no samples. The median of an even number is the mean of the two in the middle; p99 is the
// smallest sample that at least 99 % of the samples do not exceed.
Summary summarize(std::span<const double> samples);
double median(std::span<const double> samples);

// OSU's formula, max(0, 100 - exposed / pure * 100), where exposed = overall - compute. 0 where pure is 0.
double overlap_percent(double exposed, double pure);

// part / whole, and 0 where there is nothing to divide.
double ratio(double part, double whole);

// A row counts as moved by service processes from this share of its bytes on.
inline constexpr double kCountedShareMin = 0.99;

// How many iterations of about `one_us` fit in the time for one of `batches` batches; at least 1.
int affordable_iterations(int wanted, double one_us, double limit_s, int batches);

}  // namespace longshore::bench
