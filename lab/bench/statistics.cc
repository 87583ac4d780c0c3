#include "bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace longshore::bench {

namespace {

double middle_of_sorted(std::span<const double> sorted) {
    const std::size_t middle = sorted.size() / 2;
    return sorted.size() % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

}  // namespace

Summary summarize(std::span<const double> samples) {
    if (samples.empty()) return {};
    std::vector<double> sorted(samples.begin(), samples.end());
    std::sort(sorted.begin(), sorted.end());
    const auto rank_99 = std::size_t(std::ceil(0.99 * double(sorted.size())));
    return {sorted.front(), middle_of_sorted(sorted), sorted[rank_99 - 1], sorted.back()};
}

double median(std::span<const double> samples) {
    return summarize(samples).median;
}

double overlap_percent(double exposed, double pure) {
    if (!(pure > 0)) return 0;
    return std::max(0.0, 100.0 - exposed / pure * 100.0);
}

double ratio(double part, double whole) {
    return whole > 0 ? part / whole : 0;
}

int affordable_iterations(int wanted, double one_us, double limit_s, int batches) {
    if (!(one_us > 0)) return wanted;
    const double affordable = limit_s * 1e6 / (double(std::max(batches, 1)) * one_us);
    return affordable >= double(wanted) ? wanted : std::max(1, int(affordable));
}

}  // namespace longshore::bench
