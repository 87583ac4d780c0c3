#include "layout.h"

#include <fmt/format.h>

#include <cstdlib>

namespace {

bool divides(const Layout& layout, int state_ranks, int domain_ranks) {
    return layout.states % state_ranks == 0 && layout.points[2] % domain_ranks == 0 &&
           layout.points[2] / domain_ranks >= kHalo && layout.local_points() % std::size_t(state_ranks) == 0;
}

}  // namespace

void choose_grid(Layout& layout, int ranks) {
    if (layout.state_ranks != 0) return;
    int best = 0;
    for (int states = 1; states <= ranks; ++states) {
        if (ranks % states != 0) continue;
        Layout tried = layout;
        tried.state_ranks = states;
        tried.domain_ranks = ranks / states;
        const int spread = std::abs(states - ranks / states);
        if (divides(tried, states, ranks / states) && (best == 0 || spread < std::abs(best - ranks / best)))
            best = states;
    }
    if (best == 0) return;
    layout.state_ranks = best;
    layout.domain_ranks = ranks / best;
}

std::string problem_of(const Layout& layout, int ranks) {
    const int states = layout.state_ranks, domains = layout.domain_ranks;
    if (states == 0)
        return fmt::format(
            "{} ranks cannot share {} states and {} planes evenly, each with {} planes at least: take a "
            "number "
            "of ranks that is a divisor of the states times one of the planes",
            ranks, layout.states, layout.points[2], kHalo);
    if (states * domains != ranks)
        return fmt::format("a grid of {}x{} needs {} ranks, there are {}", states, domains, states * domains,
                           ranks);
    if (states > layout.states)
        return fmt::format("{} ranks for {} states: take {} at most in that direction of --grid", states,
                           layout.states, layout.states);
    if (layout.states % states != 0)
        return fmt::format("{} states cannot be shared evenly by {} ranks: take a multiple for --states",
                           layout.states, states);
    if (layout.points[2] < domains * kHalo)
        return fmt::format(
            "{} planes for {} ranks: each needs {} at least, so take {} or more for z in --size",
            layout.points[2], domains, kHalo, domains * kHalo);
    if (layout.points[2] % domains != 0)
        return fmt::format("{} planes cannot be shared evenly by {} ranks: take a multiple for z in --size",
                           layout.points[2], domains);
    if (layout.local_points() % std::size_t(states) != 0)
        return fmt::format(
            "{} points of a rank cannot be shared evenly by the {} ranks of its states: take a "
            "multiple of {} for x in --size",
            layout.local_points(), states, states);
    return {};
}
