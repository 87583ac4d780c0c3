// Imbalance as an application shows it, and what of a call's time is owed to it (paper S0, IV.G). Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace longshore::bench {

// There, about 9 % of the messages were for ranks that had not entered yet, and late ranks entered 15 to 50 %
// of the allgather's time after the first. A rank that is late is late for nearly all of its messages, so
// that share of messages takes the same share of ranks.
inline constexpr double kLateShare = 0.09;
inline constexpr double kLatenessMin = 0.15, kLatenessMax = 0.5;

// Each rank is late in `share` of the iterations, by chance: whether, and by how much, follows from the seed,
// the iteration and the rank alone, so that ranks need not ask each other and contenders get the same.
class Lateness {
  public:
    Lateness(std::uint64_t seed, double share) : seed_(seed), share_(share) {}
    // As a part of the allgather's own time: 0, or uniform from kLatenessMin to kLatenessMax.
    double of(std::uint64_t iteration, std::uint32_t rank) const;

  private:
    std::uint64_t seed_;
    double share_;
};

// One call, an entry per iteration, means over the ranks in us. Unavoidable: from a rank's entry to the last
// rank's, because nobody has an allgather's or an alltoall's result before all have entered.
struct CallTimes {
    std::vector<double> total, unavoidable;
};

// The splitting of one rank's times: `last_entry` is the maximum of the ranks' `entry`. All of one length.
CallTimes split(std::span<const double> entry, std::span<const double> exit,
                std::span<const double> last_entry);

void append(CallTimes& to, const CallTimes& from);
CallTimes sum(const CallTimes& a, const CallTimes& b);

struct CallMean {
    double total = 0, unavoidable = 0;
    double avoidable() const { return total - unavoidable; }
};
// Over iterations [first, first + count).
CallMean mean(const CallTimes& times, std::size_t first, std::size_t count);
CallMean mean(const CallTimes& times);

// The avoidable part of each turn of `iterations`, ours in parts of theirs.
std::vector<double> avoidable_ratios(const CallTimes& ours, const CallTimes& theirs, std::size_t iterations);

}  // namespace longshore::bench
