#include "tools/tune/table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace longshore::tools {
namespace {

constexpr double kMarginMin = 0.05, kMarginMax = 0.25;

// From this size on, until the next step.
struct Step {
    uint64_t first = 0;
    Carrier carrier{};

    bool operator==(const Step&) const = default;
};

// Points of one number of nodes, ascending by size.
std::vector<Step> steps_of(const std::vector<TunedPoint>& points) {
    std::vector<Step> steps;
    uint64_t last = 0;
    for (const TunedPoint& point : points) {
        const Carrier carrier = pick_carrier(point.figures);
        if (steps.empty())
            steps.push_back({0, carrier});
        else if (steps.back().carrier != carrier)
            steps.push_back({boundary_between(last, point.bytes), carrier});
        last = point.bytes;
    }
    return steps;
}

}  // namespace

double median_of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t n = values.size();
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double quartile_distance(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t n = values.size();
    return values[n - 1 - n / 4] - values[n / 4];
}

double noise_margin(const Figure& a, const Figure& b) {
    return std::clamp(std::max(a.spread, b.spread), kMarginMin, kMarginMax);
}

Carrier pick_carrier(std::span<const Figure> figures) {
    const Figure& best = *std::min_element(figures.begin(), figures.end(),
                                           [](const Figure& a, const Figure& b) { return a.us < b.us; });
    for (const Figure& figure : figures)
        if (figure.carrier == Carrier::kDirect && figure.us <= best.us * (1 + noise_margin(figure, best)))
            return Carrier::kDirect;
    return best.carrier;
}

TunedPoint whole_of(const std::vector<TunedPoint>& points) {
    std::map<Carrier, Figure> sums;
    std::map<Carrier, size_t> counts;
    for (const TunedPoint& point : points)
        for (const Figure& figure : point.figures) {
            sums[figure.carrier].carrier = figure.carrier;
            sums[figure.carrier].us += std::log(figure.us);
            sums[figure.carrier].spread += figure.spread;
            ++counts[figure.carrier];
        }
    TunedPoint whole = {points.front().nodes, 0, {}};
    size_t most = 0;
    for (const auto& [carrier, count] : counts) most = std::max(most, count);
    for (auto& [carrier, figure] : sums) {
        if (counts[carrier] < most) continue;
        const auto count = static_cast<double>(most);
        whole.figures.push_back({carrier, std::exp(figure.us / count), figure.spread / count});
    }
    return whole;
}

uint64_t boundary_between(uint64_t a, uint64_t b) {
    const double mean = std::sqrt(static_cast<double>(std::max<uint64_t>(a, 1)) * static_cast<double>(b));
    const double below = std::exp2(std::floor(std::log2(mean)));
    double nearest = below;
    for (const double candidate : {1.5 * below, 2 * below})
        if (std::abs(std::log(candidate / mean)) < std::abs(std::log(nearest / mean))) nearest = candidate;
    const auto rounded = static_cast<uint64_t>(nearest);
    return rounded > a && rounded <= b ? rounded : b;
}

std::vector<SelectionRule> make_rules(Selected collective, std::vector<TunedPoint> points) {
    std::erase_if(points, [](const TunedPoint& point) { return point.figures.empty(); });
    std::map<uint64_t, std::vector<TunedPoint>> by_nodes;
    for (TunedPoint& point : points) by_nodes[point.nodes].push_back(std::move(point));

    struct Band {
        uint64_t first, last_measured;
        std::vector<Step> steps;
    };
    std::vector<Band> bands;
    for (auto& [nodes, here] : by_nodes) {
        std::sort(here.begin(), here.end(),
                  [](const TunedPoint& a, const TunedPoint& b) { return a.bytes < b.bytes; });
        if (!has_bytes(collective)) here = {whole_of(here)};
        const std::vector<Step> steps = steps_of(here);
        if (bands.empty()) {
            bands.push_back({1, nodes, steps});
        } else if (bands.back().steps == steps) {
            bands.back().last_measured = nodes;
        } else {
            const double mean =
                std::sqrt(static_cast<double>(bands.back().last_measured) * static_cast<double>(nodes));
            bands.push_back({static_cast<uint64_t>(std::ceil(mean)), nodes, steps});
        }
    }

    std::vector<SelectionRule> rules;
    for (size_t i = 0; i < bands.size(); ++i) {
        SelectionRule rule;
        rule.nodes = {bands[i].first, i + 1 < bands.size() ? bands[i + 1].first - 1 : UINT64_MAX};
        const std::vector<Step>& steps = bands[i].steps;
        for (size_t k = 0; k < steps.size(); ++k) {
            rule.bytes = {steps[k].first, k + 1 < steps.size() ? steps[k + 1].first - 1 : UINT64_MAX};
            rule.carrier = steps[k].carrier;
            rules.push_back(rule);
        }
    }
    return rules;
}

}  // namespace longshore::tools
