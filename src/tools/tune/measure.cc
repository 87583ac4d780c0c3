#include "tools/tune/measure.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/settings.h"
#include "tools/run/mpirun.h"
#include "tools/terminal.h"
#include "tools/tune/run.h"
#include "tools/tune/table.h"

namespace longshore::tools {
namespace {

constexpr int kMeasureBarWidth = 30;
constexpr double kRowLimitS = 2, kQuickRowLimitS = 0.3, kBriefRowLimitS = 0.2;
constexpr int kIterations = 10, kQuickIterations = 4;
constexpr double kCarriedShareMin = 0.999;

std::string place(Selected collective, unsigned nodes) {
    return fmt::format("{}, {} node{}", selected_name(collective), nodes, nodes == 1 ? "" : "s");
}

bool is_forced(const std::string& contender) {
    return contender != "longshore" && contender != "mpi";
}

// Every second one, from `first` on.
std::vector<double> every_second(const std::vector<double>& values, size_t first) {
    std::vector<double> list;
    for (size_t i = first; i < values.size(); i += 2) list.push_back(values[i]);
    return list;
}

}  // namespace

TuneProgress::TuneProgress(size_t total) : bar_(isatty(STDERR_FILENO) != 0), total_(total) {}

TuneProgress::~TuneProgress() {
    if (bar_) fmt::print(stderr, "\r\x1b[K");
}

void TuneProgress::begin(const std::string& what, size_t steps) {
    what_ = what;
    steps_ = steps;
    if (bar_)
        show(0);
    else
        fmt::print(stderr, "longshore tune: {}/{} {}\n", done_, total_, what_);
}

void TuneProgress::show(size_t steps_done) {
    if (!bar_) return;
    const size_t done = done_ + std::min(steps_done, steps_);
    const auto filled = static_cast<int>(kMeasureBarWidth * done / std::max<size_t>(total_, 1));
    fmt::print(stderr, "\r\x1b[K[{:#<{}}{:.<{}}] {}/{} {}", "", filled, "", kMeasureBarWidth - filled, done,
               total_, what_);
    fflush(stderr);
}

void TuneProgress::end() {
    done_ += steps_;
    steps_ = 0;
}

void TuneProgress::say(const std::string& line) {
    fmt::print(stderr, "{}{}\n", bar_ ? "\r\x1b[K" : "",
               wrapped("longshore tune: " + line, terminal_columns(stderr)));
}

std::vector<std::string> bench_names(Selected collective, Objective objective) {
    const std::string name = selected_name(collective);
    if (objective == Objective::kOverlap) return {"i" + name};
    return {name, "i" + name};
}

uint64_t table_bytes(Selected collective, uint64_t size, unsigned ranks) {
    return collective == Selected::kBcast ? size : size * ranks;
}

std::optional<std::vector<nlohmann::json>> Tuner::run(Selected collective, unsigned nodes,
                                                      const std::vector<std::string>& contenders, bool brief,
                                                      std::string* problem) {
    TuneLaunch launch;
    launch.command = mpirun_command(flavour_, options_.ranks);
    launch.command.push_back(flavoured_program(kBenchProgram, flavour_));
    launch.collectives = bench_names(collective, options_.objective);
    launch.contenders = contenders;
    launch.sizes = options_.sizes;
    launch.samples = brief ? 1 : options_.samples;
    launch.iterations = brief || options_.quick ? kQuickIterations : kIterations;
    launch.time_limit_s = brief ? kBriefRowLimitS : options_.quick ? kQuickRowLimitS : kRowLimitS;
    launch.environment = {"LONGSHORE_NODES_COUNT=" + std::to_string(nodes),
                          "LONGSHORE_ALGORITHMS_FILE=" + algorithms_file_};
    // What the user forces is no contender.
    for (const char* name : forced_algorithm_names()) launch.environment.push_back(std::string(name) + "=");
    TuneResult result = run_launch(launch, [&](size_t rows) {
        if (!brief) progress_.show(rows);
    });
    if (!result.machine.is_null()) machine_ = result.machine;
    *problem = result.problem;
    if (!result.ok) return std::nullopt;
    return std::move(result.rows);
}

// Each alone.
std::vector<std::string> Tuner::those_that_work(Selected collective, unsigned nodes,
                                                const std::vector<std::string>& contenders) {
    std::vector<std::string> good;
    for (const std::string& contender : contenders) {
        std::string problem;
        if (run(collective, nodes, {contender}, true, &problem))
            good.push_back(contender);
        else
            progress_.say(
                fmt::format("{}: {} is left out: {}", place(collective, nodes), contender, problem));
    }
    return good;
}

std::optional<Sample> Tuner::sample_of(const std::vector<const nlohmann::json*>& rows) const {
    const char* key = options_.objective == Objective::kOverlap ? "overall_us" : "pure_us";
    double product = 1, even = 1, odd = 1;
    Sample sample;
    for (const nlohmann::json* row : rows) {
        const std::vector<double> medians = turn_medians(*row, key);
        if (medians.empty()) return std::nullopt;
        const double middle = median_of(medians);
        product *= middle;
        sample.spread = std::max(sample.spread, quartile_distance(medians) / middle);
        sample.medians = sample.medians == 0 ? medians.size() : std::min(sample.medians, medians.size());
        if (medians.size() < 2) continue;
        even *= median_of(every_second(medians, 0));
        odd *= median_of(every_second(medians, 1));
    }
    const double root = 1.0 / static_cast<double>(rows.size());
    sample.us = std::pow(product, root);
    sample.self_ratio = std::pow(std::max(even / odd, odd / even), root);
    return sample;
}

Measurement Tuner::measure(Selected collective, unsigned nodes, std::vector<std::string> contenders) {
    const size_t forms = bench_names(collective, options_.objective).size();
    progress_.begin(place(collective, nodes), forms * options_.sizes.size() * contenders.size());
    std::string problem;
    auto rows = run(collective, nodes, contenders, false, &problem);
    if (!rows) {
        progress_.say(
            fmt::format("{}: {}; each algorithm alone is tried", place(collective, nodes), problem));
        contenders = those_that_work(collective, nodes, contenders);
        if (!contenders.empty()) rows = run(collective, nodes, contenders, false, &problem);
        if (!rows) progress_.say(fmt::format("{}: not measured: {}", place(collective, nodes), problem));
    }
    progress_.end();
    Measurement measurement;
    if (!rows) return measurement;
    std::map<std::pair<uint64_t, std::string>, std::vector<const nlohmann::json*>> groups;
    std::map<std::string, bool> carried;
    for (const std::string& contender : contenders) carried[contender] = true;
    for (const nlohmann::json& row : *rows) {
        const std::string contender = row.value("contender", "");
        groups[{row.value("bytes", uint64_t{0}), contender}].push_back(&row);
        if (is_forced(contender) && row.value("offloaded_share_of_calls", 0.0) < kCarriedShareMin)
            carried[contender] = false;
    }
    for (const std::string& contender : contenders) {
        const bool shown = std::any_of(groups.begin(), groups.end(),
                                       [&](const auto& group) { return group.first.second == contender; });
        if (!shown || !carried[contender])
            progress_.say(fmt::format("{}: {} is left out: {}", place(collective, nodes), contender,
                                      shown ? "the MPI carried calls of it" : "it was not measured"));
    }
    for (const auto& [key, group] : groups) {
        const auto& [size, contender] = key;
        if (group.size() != forms || !carried[contender]) continue;
        if (const auto sample = sample_of(group)) measurement[size][contender] = *sample;
    }
    return measurement;
}

}  // namespace longshore::tools
