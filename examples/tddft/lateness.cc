#include "lateness.h"

#include <initializer_list>

namespace {

constexpr double kLeast = 0.15, kMost = 0.5;  // of the allgather's own time
constexpr double kCommon = 2.0 / 3;           // of the lateness is that of a whole node

// Uniform in [0, 1), from the four numbers alone.
double uniform(std::uint64_t seed, std::uint64_t call, std::uint64_t who, std::uint64_t kind) {
    std::uint64_t x = seed;
    for (const std::uint64_t word : {call, who, kind}) {
        x += 0x9e3779b97f4a7c15ULL * (word + 1);
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
        x ^= x >> 31;
    }
    return double(x >> 11) * 0x1p-53;
}

enum Kind : std::uint64_t { kNodeIsLate, kNodeByHowMuch, kRankIsLate, kRankByHowMuch };

}  // namespace

double Lateness::seconds(std::uint64_t call, int node, int rank) const {
    if (base_seconds <= 0) return 0;
    const auto length = [&](double u) { return base_seconds * (kLeast + (kMost - kLeast) * u); };
    const auto number = [&](int who, Kind kind) { return uniform(seed, call, std::uint64_t(who), kind); };
    const double common = chance * kCommon;
    if (number(node, kNodeIsLate) < common) return length(number(node, kNodeByHowMuch));
    // Of the calls in which its node is not late, so that a rank is late in `chance` of all.
    const double alone = common < 1 ? (chance - common) / (1 - common) : 0;
    if (number(rank, kRankIsLate) < alone) return length(number(rank, kRankByHowMuch));
    return 0;
}
