// --offload auto: parts of the first cycle are written by the rank itself and by its peer in turns and timed;
// the rest goes the way that would have been the quicker one for all. Both sides compute the same stretches.
#pragma once

#include <vector>

#include "layout.h"

namespace bigsort {

// At most this share of all page writes is tried with the peer, so that a bad offload costs little.
constexpr double kTrialShareMax = 0.05;
constexpr std::uint64_t kTrialRoundsMax = 3, kTrialFilesMax = 8;
// An offload must be that much quicker in the trial to be chosen: the trial is short, and its times scatter.
constexpr double kTrialGainMin = 0.95;

struct Trial {
    std::vector<Stretch> by_rank, by_peer;  // as many of each, in turns; the rank begins
    std::uint64_t files() const { return by_peer.empty() ? 0 : by_peer.back().end; }
};

// Empty where the first cycle has too few files to try.
inline Trial make_trial(const Layout& layout) {
    Trial trial;
    if (layout.pages() == 0) return trial;
    const std::uint64_t span = layout.span_pages(0);
    const auto affordable = std::uint64_t(kTrialShareMax * double(layout.page_writes()) / double(span));
    const std::uint64_t rounds = std::clamp<std::uint64_t>(affordable, 1, kTrialRoundsMax);
    const std::uint64_t files = std::clamp<std::uint64_t>(affordable / rounds, 1, kTrialFilesMax);
    if (layout.files(0) < 2 * rounds * files + 1) return trial;
    for (std::uint64_t round = 0; round < rounds; ++round) {
        const std::uint64_t begin = 2 * round * files;
        trial.by_rank.push_back({0, begin, begin + files});
        trial.by_peer.push_back({0, begin + files, begin + 2 * files});
    }
    return trial;
}

// The times of one way in the trial, in seconds.
struct Way {
    std::vector<double> write_page, open_file, read_page;
    double seconds_of_all(const Layout& layout) const;
};

}  // namespace bigsort
