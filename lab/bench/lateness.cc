#include "bench/lateness.h"

#include <algorithm>

#include "base/prng.h"
#include "bench/statistics.h"

namespace longshore::bench {

double Lateness::of(std::uint64_t iteration, std::uint32_t rank) const {
    Prng random(mix64(mix64(seed_ + 0x9e3779b97f4a7c15u) + iteration) + rank);
    if (random.uniform() >= share_) return 0;
    return kLatenessMin + (kLatenessMax - kLatenessMin) * random.uniform();
}

CallTimes split(std::span<const double> entry, std::span<const double> exit,
                std::span<const double> last_entry) {
    CallTimes times;
    for (std::size_t i = 0; i < entry.size(); ++i) {
        times.total.push_back(exit[i] - entry[i]);
        times.unavoidable.push_back(last_entry[i] - entry[i]);
    }
    return times;
}

void append(CallTimes& to, const CallTimes& from) {
    to.total.insert(to.total.end(), from.total.begin(), from.total.end());
    to.unavoidable.insert(to.unavoidable.end(), from.unavoidable.begin(), from.unavoidable.end());
}

CallTimes sum(const CallTimes& a, const CallTimes& b) {
    CallTimes both = a;
    for (std::size_t i = 0; i < both.total.size(); ++i) {
        both.total[i] += b.total[i];
        both.unavoidable[i] += b.unavoidable[i];
    }
    return both;
}

CallMean mean(const CallTimes& times, std::size_t first, std::size_t count) {
    CallMean mean;
    const std::size_t end = std::min(first + count, times.total.size());
    for (std::size_t i = first; i < end; ++i) {
        mean.total += times.total[i] / double(end - first);
        mean.unavoidable += times.unavoidable[i] / double(end - first);
    }
    return mean;
}

CallMean mean(const CallTimes& times) {
    return mean(times, 0, times.total.size());
}

std::vector<double> avoidable_ratios(const CallTimes& ours, const CallTimes& theirs, std::size_t iterations) {
    std::vector<double> ratios;
    const std::size_t both = std::min(ours.total.size(), theirs.total.size());
    for (std::size_t first = 0; first < both; first += iterations)
        ratios.push_back(
            ratio(mean(ours, first, iterations).avoidable(), mean(theirs, first, iterations).avoidable()));
    return ratios;
}

}  // namespace longshore::bench
