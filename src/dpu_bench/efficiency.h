// The two formulas for offload efficiency, and the means they are fed with. Times in microseconds. Pure.
#pragma once

#include <algorithm>
#include <span>

namespace longshore::dpu_bench {

struct Times {
    double reference = 0;       // the pattern among hosts alone: slowest host, its closing barrier left out
    double reference_loop = 0;  // the same with the barrier: the whole loop over its iterations
    double pure_comm = 0;  // the staged pattern: slowest worker, beside computing hosts, without the barrier
    double compute = 0;    // the slowest host's computing
    double total = 0;      // both at once, with the barrier: the whole loop over its iterations
};

inline double percent(double part, double whole) {
    return whole > 0 ? 100 * part / whole : 0;
}

// As printed in the paper.
inline double efficiency_paper(const Times& times) {
    return percent(times.reference, std::max(times.pure_comm, times.compute));
}

// As computed by the published program: whole loops, barriers included, never above 100.
inline double efficiency_code(const Times& times) {
    return std::min(100.0, percent(times.reference_loop, times.total));
}

inline double mean(std::span<const double> values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return values.empty() ? 0 : sum / double(values.size());
}

}  // namespace longshore::dpu_bench
