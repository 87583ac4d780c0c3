#include "dpu_bench/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

namespace longshore::dpu_bench {
namespace {

constexpr std::size_t kSizeMin = std::size_t(256) << 10, kSizeMax = std::size_t(4) << 20;
constexpr std::size_t kSizeLimit = std::size_t(1) << 30;

template <typename Value, std::size_t count>
std::map<std::string, Value> by_name(const Value (&values)[count]) {
    std::map<std::string, Value> names;
    for (const Value value : values) names[to_string(value)] = value;
    return names;
}

template <typename Value>
std::string joined(const std::vector<Value>& values) {
    std::string text;
    for (const Value& value : values) {
        if (!text.empty()) text += ',';
        if constexpr (std::is_arithmetic_v<Value>)
            text += std::to_string(value);
        else
            text += to_string(value);
    }
    return text;
}

}  // namespace

const char* to_string(Compute compute) {
    switch (compute) {
        case Compute::kAuto:
            return "auto";
        case Compute::kWork:
            return "work";
        case Compute::kSleep:
            return "sleep";
    }
    return "?";
}

void add_options(CLI::App* command, Options* options) {
    const Compute computes[] = {Compute::kAuto, Compute::kWork, Compute::kSleep};
    command->add_option("--nodes", options->nodes, "emulate this many nodes, a DPU each (default: 2)")
        ->check(CLI::Range(1, 4096))
        ->type_name("K");
    command
        ->add_option("--patterns", options->patterns,
                     "bcast, gather, allgather-leader, allgather-multi (default: all)")
        ->delimiter(',')
        ->transform(CLI::CheckedTransformer(by_name(kPatterns)).description(""))
        ->type_name("LIST");
    command->add_option("--assignments", options->assignments, "cyclic, block (default: both)")
        ->delimiter(',')
        ->transform(CLI::CheckedTransformer(by_name(kAssignments)).description(""))
        ->type_name("LIST");
    command->add_option("--sizes", options->sizes, "bytes per block (default: 256K to 4M, powers of two)")
        ->delimiter(',')
        ->transform(CLI::AsSizeValue(false).description(""))
        ->type_name("LIST");
    command->add_option("--iterations", options->iterations, "per run (default: 1000)")
        ->check(CLI::Range(1, 10000000))
        ->type_name("N");
    command
        ->add_option("--time-limit", options->time_limit_s,
                     "cut a run's loops to this length in seconds, 0: never (default: 1)")
        ->check(CLI::NonNegativeNumber)
        ->type_name("S");
    command->add_option("--warmup", options->warmup, "untimed iterations before each loop (default: 10)")
        ->check(CLI::Range(1, 100000))
        ->type_name("N");
    command->add_option("--runs", options->runs, "the results are means over these (default: 4)")
        ->check(CLI::Range(1, 1000))
        ->type_name("N");
    command
        ->add_option("--compute", options->compute,
                     "what hosts do meanwhile: work, sleep, or auto: sleep only where ranks outnumber cores")
        ->transform(CLI::CheckedTransformer(by_name(computes)).description(""))
        ->type_name("HOW");
    command
        ->add_option("--mover", options->mover,
                     "what moves the data: process_vm (default; one machine), tcp or verbs (RDMA)")
        ->transform(CLI::CheckedTransformer(by_name(kMoverKinds)).description(""))
        ->type_name("WHICH");
    command
        ->add_option("--device", options->device,
                     "the device of verbs (default: the first active port), or tcp's interface")
        ->option_text("NAME[:PORT]");
    command->add_flag("--allow-equal", options->allow_equal, "let there be as many workers as hosts");
    command->add_option("--json", options->json, "write the results there, a JSON object per line")
        ->type_name("FILE");
}

void finish_options(Options* options) {
    if (options->patterns.empty()) options->patterns.assign(std::begin(kPatterns), std::end(kPatterns));
    if (options->assignments.empty())
        options->assignments.assign(std::begin(kAssignments), std::end(kAssignments));
    if (options->sizes.empty())
        for (std::size_t size = kSizeMin; size <= kSizeMax; size *= 2) options->sizes.push_back(size);
    std::sort(options->sizes.begin(), options->sizes.end());
    if (options->sizes.front() == 0 || options->sizes.back() > kSizeLimit)
        throw CLI::ValidationError("--sizes: from 1 byte to 1 GiB");
    if (!options->device.empty() && options->mover == MoverKind::kProcessVm)
        throw CLI::ValidationError("--device: only --mover verbs and tcp use one");
    const bool possible =
        std::any_of(options->patterns.begin(), options->patterns.end(), [&](Pattern pattern) {
            return std::any_of(options->assignments.begin(), options->assignments.end(),
                               [&](Assignment assignment) { return has_assignment(pattern, assignment); });
        });
    if (!possible) throw CLI::ValidationError("--assignments: allgather-multi is cyclic only");
}

std::vector<std::string> to_arguments(const Options& options) {
    std::vector<std::string> words = {
        "--nodes",       std::to_string(options.nodes),
        "--patterns",    joined(options.patterns),
        "--assignments", joined(options.assignments),
        "--sizes",       joined(options.sizes),
        "--iterations",  std::to_string(options.iterations),
        "--time-limit",  fmt::format("{}", options.time_limit_s),
        "--warmup",      std::to_string(options.warmup),
        "--runs",        std::to_string(options.runs),
        "--compute",     to_string(options.compute),
        "--mover",       to_string(options.mover),
    };
    if (!options.device.empty()) words.insert(words.end(), {"--device", options.device});
    if (options.allow_equal) words.emplace_back("--allow-equal");
    if (!options.json.empty()) words.insert(words.end(), {"--json", options.json});
    return words;
}

}  // namespace longshore::dpu_bench
