#include "tools/tune/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/text.h"
#include "tools/run/launch.h"
#include "tools/tools.h"

namespace longshore::tools {
namespace {

// The goals of --check.
constexpr double kMeanGoal = 1.05, kWorstGoal = 1.25;
constexpr size_t kCheckMediansMin = 7;

struct Checked {
    Selected collective{};
    unsigned nodes = 1;
    uint64_t size = 0;
    std::string chosen, best;
    double us = 0, best_us = 0, spread = 1;  // the spread of tuned and best against themselves
    size_t medians = 0;

    double ratio() const { return us / best_us; }
    double beyond() const { return ratio() / spread; }
};

std::optional<Checked> checked_point(const TuneOptions& options, const Selection& selection,
                                     Selected collective, unsigned nodes, uint64_t size,
                                     const SamplesOfSize& samples) {
    const auto tuned = samples.find("longshore");
    if (tuned == samples.end() || samples.size() < 2) return std::nullopt;
    auto best = samples.end();
    size_t medians = tuned->second.medians;
    for (auto one = samples.begin(); one != samples.end(); ++one) {
        medians = std::min(medians, one->second.medians);
        if (one != tuned && (best == samples.end() || one->second.us < best->second.us)) best = one;
    }
    const unsigned ppn = (options.ranks + nodes - 1) / nodes;
    const Carrier carrier =
        choose(selection, collective, {ppn, nodes, table_bytes(collective, size, options.ranks)});
    return Checked{collective,
                   nodes,
                   size,
                   carrier_name(collective, carrier),
                   best->first,
                   tuned->second.us,
                   best->second.us,
                   std::max(tuned->second.self_ratio, best->second.self_ratio),
                   medians};
}

int print_verdict(const std::vector<Checked>& points, size_t missing) {
    double logs = 0;
    const Checked* worst = &points.front();
    for (const Checked& point : points) {
        logs += std::log(point.ratio());
        if (point.beyond() > worst->beyond()) worst = &point;
    }
    const double mean = std::exp(logs / static_cast<double>(points.size()));
    const bool mean_ok = mean <= kMeanGoal, worst_ok = worst->beyond() <= kWorstGoal;
    fmt::print("\ngeometric mean {:.3f} over {} points: {} (goal: at most {})\n", mean, points.size(),
               mean_ok ? "ok" : "MISSED", kMeanGoal);
    fmt::print(
        "worst point {:.3f}, spread {:.3f}: {} on {} node{}, {} bytes: {} (goal: at most {} beyond the "
        "spread)\n",
        worst->ratio(), worst->spread, selected_name(worst->collective), worst->nodes,
        worst->nodes == 1 ? "" : "s", show_size(worst->size), worst_ok ? "ok" : "MISSED", kWorstGoal);
    const auto few = std::count_if(points.begin(), points.end(),
                                   [](const Checked& point) { return point.medians < kCheckMediansMin; });
    if (few > 0)
        fmt::print("{} points have fewer than {} medians: too slow for their time\n", few, kCheckMediansMin);
    if (missing > 0) fmt::print("{} points could not be compared\n", missing);
    return mean_ok && worst_ok && missing == 0 ? kOk : kFailed;
}

}  // namespace

std::vector<std::string> contenders_of(Selected collective) {
    std::vector<std::string> names;
    for (const Carrier carrier : carriers_of(collective))
        names.emplace_back(carrier_name(collective, carrier));
    return names;
}

size_t steps_of(const TuneOptions& options, const std::vector<Selected>& collectives, size_t further) {
    size_t steps = 0;
    for (const Selected collective : collectives)
        steps +=
            bench_names(collective, options.objective).size() * (carriers_of(collective).size() + further);
    return steps * options.sizes.size() * options.nodes.size();
}

int check_table(const TuneOptions& options, const std::string& flavour,
                const std::vector<Selected>& collectives) {
    Selection selection = built_in_selection();
    std::string error;
    if (!load_selection(options.check, &selection, &error)) {
        fmt::print(stderr, "longshore tune: {}\n", error);
        return kUsage;
    }
    std::vector<Checked> points;
    size_t missing = 0;
    {
        TuneProgress progress(steps_of(options, collectives, 1));
        Tuner tuner(options, flavour, progress, absolute(options.check));
        for (const Selected collective : collectives)
            for (const unsigned nodes : options.nodes) {
                std::vector<std::string> contenders = contenders_of(collective);
                contenders.insert(contenders.begin(), "longshore");
                const Measurement measurement = tuner.measure(collective, nodes, contenders);
                for (const uint64_t size : options.sizes) {
                    const auto found = measurement.find(size);
                    const auto point =
                        found == measurement.end()
                            ? std::nullopt
                            : checked_point(options, selection, collective, nodes, size, found->second);
                    if (point)
                        points.push_back(*point);
                    else
                        ++missing;
                }
            }
    }
    fmt::print("{:<10} {:>5} {:>6}  {:<19} {:>10}  {:<19} {:>10} {:>6} {:>6} {:>3}\n", "collective", "nodes",
               "bytes", "chosen", "us", "best forced", "us", "ratio", "spread", "n");
    for (const Checked& point : points)
        fmt::print("{:<10} {:>5} {:>6}  {:<19} {:>10.2f}  {:<19} {:>10.2f} {:>6.2f} {:>6.2f} {:>3}\n",
                   selected_name(point.collective), point.nodes, show_size(point.size), point.chosen,
                   point.us, point.best, point.best_us, point.ratio(), point.spread, point.medians);
    if (points.empty()) {
        fmt::print(stderr, "longshore tune: nothing was measured; 'longshore doctor' may say why\n");
        return kFailed;
    }
    return print_verdict(points, missing);
}

}  // namespace longshore::tools
