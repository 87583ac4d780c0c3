#include "bench/stages.h"

#include <algorithm>
#include <numeric>

namespace longshore::bench {

Stages stages_of(const Stamps& stamps) {
    // Blocks of ranks that have entered move before the last one has.
    const double peers = stamps.first < 0 ? stamps.peers : std::min(stamps.peers, stamps.first);
    // At a rank that receives nothing it is its own blocks that are copied.
    const double copied = stamps.landed < 0 ? stamps.read : stamps.landed;
    const double ends[] = {stamps.published, peers, stamps.first, copied, stamps.read, stamps.end};
    Stages stages{};
    double at = 0;
    for (std::size_t i = 0; i < stages.size(); ++i) {
        const double end = std::max(at, std::min(ends[i], stamps.end));
        stages[i] = end - at;
        at = end;
    }
    return stages;
}

double total(const Stages& stages) {
    return std::accumulate(stages.begin(), stages.end(), 0.0);
}

std::size_t slowest(std::span<const Stages> ranks) {
    const auto most = std::max_element(ranks.begin(), ranks.end(),
                                       [](const Stages& a, const Stages& b) { return total(a) < total(b); });
    return std::size_t(most - ranks.begin());
}

}  // namespace longshore::bench
