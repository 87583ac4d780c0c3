// The formulas for offload efficiency, and what they are fed with. Times in microseconds. Pure.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

namespace longshore::dpu_bench {

// Of one run; means over its iterations, but for the medians.
struct Times {
    double reference = 0;       // the pattern among hosts alone: slowest host, its closing barrier left out
    double reference_loop = 0;  // the same with the barrier: the whole loop over its iterations
    double pure_comm = 0;  // the staged pattern: slowest worker, beside computing hosts, without the barrier
    double compute = 0;    // the slowest host's computing
    double total = 0;      // both at once, with the barrier: the whole loop over its iterations
    double reference_median = 0, pure_comm_median = 0, compute_median = 0;
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

// The paper's formula with medians over iterations: what a machine with other things to do spoils least.
inline double efficiency_median(const Times& times) {
    return percent(times.reference_median, std::max(times.pure_comm_median, times.compute_median));
}

inline double mean(std::span<const double> values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return values.empty() ? 0 : sum / double(values.size());
}

inline double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace longshore::dpu_bench
