// longshore tune: finds out on this machine which algorithm carries which call best, and writes it as a table
// of rules; or compares such a table with every algorithm forced.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include "base/file.h"
#include "base/output_file.h"
#include "base/selection.h"
#include "base/text.h"
#include "tools/paths.h"
#include "tools/run/launch.h"
#include "tools/run/mpirun.h"
#include "tools/tools.h"
#include "tools/tune/check.h"
#include "tools/tune/measure.h"
#include "tools/tune/sharing.h"
#include "tools/tune/stats.h"
#include "tools/tune/table.h"

namespace longshore::tools {
namespace {

std::string own_command() {
    std::ifstream file("/proc/self/cmdline");
    std::string text, word;
    while (std::getline(file, word, '\0')) text += (text.empty() ? "" : " ") + shown(word);
    return text;
}

std::string first_line() {
    char date[32];
    const std::time_t now = std::time(nullptr);
    std::strftime(date, sizeof date, "%Y-%m-%d", std::localtime(&now));
    return fmt::format("# Written by 'longshore tune' on {}: {}\n", date, own_command());
}

std::string header(const TuneOptions& options, const nlohmann::json& machine) {
    std::string text = first_line();
    const auto field = [&](const char* name) { return shown(machine.value(name, "unknown")); };
    text += fmt::format("# machine    {}, {} cores, {}\n", field("cpu"), machine.value("cores", 0),
                        field("kernel"));
    text += fmt::format("# mpi        {}\n", field("mpi"));
    text += fmt::format("# ranks      {}; nodes", options.ranks);
    for (const unsigned nodes : options.nodes) text += fmt::format(" {}", nodes);
    text += fmt::format(" (emulated); blocks of");
    for (const uint64_t size : options.sizes) text += " " + show_size(size);
    text +=
        fmt::format("\n# objective  {}\n", options.objective == Objective::kOverlap ? "overlap" : "latency");
    return text;
}

void print_point(TuneProgress& progress, Selected collective, unsigned nodes, uint64_t bytes,
                 const TunedPoint& point) {
    std::string line = fmt::format("{}, {} node{}, {} bytes:", selected_name(collective), nodes,
                                   nodes == 1 ? "" : "s", show_size(bytes));
    for (const Figure& figure : point.figures)
        line += fmt::format(" {} {:.1f} us", carrier_name(collective, figure.carrier), figure.us);
    // One rule stands for all sizes of a collective whose sizes not all ranks know: print_whole() says which.
    if (has_bytes(collective))
        line += std::string(" -> ") + carrier_name(collective, pick_carrier(point.figures));
    progress.say(line);
}

void print_whole(TuneProgress& progress, Selected collective, unsigned nodes,
                 const std::vector<TunedPoint>& points) {
    std::vector<TunedPoint> here;
    for (const TunedPoint& point : points)
        if (point.nodes == nodes) here.push_back(point);
    if (here.empty() || has_bytes(collective)) return;
    progress.say(fmt::format("{}, {} node{}, all sizes together -> {}", selected_name(collective), nodes,
                             nodes == 1 ? "" : "s",
                             carrier_name(collective, pick_carrier(whole_of(here).figures))));
}

TunedPoint point_of(Selected collective, unsigned nodes, uint64_t bytes, const SamplesOfSize& samples) {
    TunedPoint point = {nodes, bytes, {}};
    for (const Carrier carrier : carriers_of(collective)) {
        const auto found = samples.find(carrier_name(collective, carrier));
        if (found != samples.end())
            point.figures.push_back({carrier, found->second.us, found->second.spread});
    }
    return point;
}

int write_file(const TuneOptions& options, const std::string& text) {
    Selection whole = built_in_selection();
    SelectionError error;
    if (!parse_selection(text, &whole, &error)) {
        fmt::print(stderr, "longshore tune: the table is not usable: line {}: {}\n", error.line,
                   error.message);
        return kFailed;
    }
    fmt::print("{}", text);
    if (options.output.empty()) return kOk;
    std::string why;
    if (!write_output_file(options.output, text, &why)) {
        fmt::print(stderr, "longshore tune: cannot write {}\n", why);
        return kFailed;
    }
    fmt::print(stderr, "longshore tune: written to {}; use it with 'longshore run --algorithms {}'\n",
               options.output, options.output);
    return kOk;
}

int tune(const TuneOptions& options, const std::string& flavour, const std::vector<Selected>& collectives) {
    TuneProgress progress(steps_of(options, collectives, 0));
    Tuner tuner(options, flavour, progress, "");
    std::string rules;
    for (const Selected collective : collectives) {
        std::vector<TunedPoint> points;
        for (const unsigned nodes : options.nodes) {
            for (const auto& [size, samples] : tuner.measure(collective, nodes, contenders_of(collective))) {
                points.push_back(
                    point_of(collective, nodes, table_bytes(collective, size, options.ranks), samples));
                if (points.back().figures.empty())
                    points.pop_back();
                else
                    print_point(progress, collective, nodes, size, points.back());
            }
            print_whole(progress, collective, nodes, points);
        }
        const std::string made = format_rules(collective, make_rules(collective, std::move(points)));
        if (made.empty())
            progress.say(fmt::format("{}: nothing was measured; the file says nothing about it",
                                     selected_name(collective)));
        else
            rules += "\n" + made;
    }
    if (rules.empty()) {
        progress.say("nothing was measured; 'longshore doctor' may say why");
        return kFailed;
    }
    return write_file(options, header(options, tuner.machine()) + rules);
}

// --- from statistics
int tune_from_stats(const TuneOptions& options) {
    if (!can_write("-o", options.output)) return kUsage;
    Selection selection = built_in_selection();
    std::string text, error;
    if (!options.algorithms.empty() && !load_selection(options.algorithms, &selection, &error)) {
        fmt::print(stderr, "longshore tune: {}\n", error);
        return kUsage;
    }
    constexpr size_t kStatsBytesMax = size_t{64} << 20;
    if (!read_file(options.from_stats, kStatsBytesMax, &text, &error)) {
        fmt::print(stderr, "longshore tune: {}; 'longshore run --stats FILE' writes it\n", error);
        return kUsage;
    }
    WaitedStatistics statistics;
    if (!read_waited(text, &statistics, &error)) {
        fmt::print(stderr,
                   "longshore tune: {}: {}; take a file that 'longshore run --stats FILE' has written\n",
                   options.from_stats, error);
        return kUsage;
    }
    const Selection before = selection;
    std::string table = first_line();
    for (const std::string& line : apply_waited(statistics, &selection)) {
        fmt::print(stderr, "{}\n", line);
        table += "# " + line + "\n";
    }
    if (statistics.calls.empty())
        fmt::print(stderr, "longshore tune: no nonblocking call was carried by Longshore in that run\n");
    if (selection == before)
        fmt::print(stderr, "longshore tune: nothing changes: the table is the one it started from\n");
    return write_file(options, table + "\n" + format_selection(selection));
}

// --- the command
// Those that the benchmark knows, of those asked for.
bool choose_collectives(const TuneOptions& options, const std::string& flavour, std::vector<Selected>* out) {
    std::istringstream lines(capture({flavoured_program(kBenchProgram, flavour), "--list"}).text);
    std::vector<std::string> known;
    for (std::string line; std::getline(lines, line);) known.push_back(line);
    const auto is_measured = [&](Selected collective) {
        const auto names = bench_names(collective, options.objective);
        return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
            return std::find(known.begin(), known.end(), name) != known.end();
        });
    };
    for (const std::string& name : options.collectives) {
        const auto collective = find_selected(name);
        if (!collective || !is_measured(*collective)) {
            fmt::print(stderr, "longshore tune: no collective '{}'; there are:", name);
            for (size_t i = 0; i < kSelectedCount; ++i)
                if (is_measured(static_cast<Selected>(i)))
                    fmt::print(stderr, " {}", selected_name(static_cast<Selected>(i)));
            fmt::print(stderr, "\n");
            return false;
        }
        if (std::find(out->begin(), out->end(), *collective) == out->end()) out->push_back(*collective);
    }
    for (size_t i = 0; i < kSelectedCount && options.collectives.empty(); ++i)
        if (is_measured(static_cast<Selected>(i))) out->push_back(static_cast<Selected>(i));
    return true;
}

void fill_in(TuneOptions* options) {
    if (options->ranks == 0) options->ranks = default_ranks();
    if (options->sizes.empty())
        options->sizes = options->quick
                             ? std::vector<uint64_t>{1024, 65536}
                             : std::vector<uint64_t>{64, 1024, 4096, 16384, 65536, 262144, 1048576};
    if (options->nodes.empty()) {
        for (const unsigned nodes : {1u, 2u, 4u})
            if (nodes <= options->ranks && (nodes < 4 || !options->quick)) options->nodes.push_back(nodes);
    }
    if (options->samples == 0) options->samples = options->quick ? 3 : options->check.empty() ? 7 : 8;
    std::sort(options->sizes.begin(), options->sizes.end());
    options->sizes.erase(std::unique(options->sizes.begin(), options->sizes.end()), options->sizes.end());
    std::sort(options->nodes.begin(), options->nodes.end());
    options->nodes.erase(std::unique(options->nodes.begin(), options->nodes.end()), options->nodes.end());
}

int run(TuneOptions options) {
    fill_in(&options);
    if (!can_write("-o", options.output)) return kUsage;
    if (options.nodes.back() > options.ranks) {
        fmt::print(stderr, "longshore tune: {} nodes need at least as many ranks (-n {})\n",
                   options.nodes.back(), options.nodes.back());
        return kUsage;
    }
    const std::string flavour = choose_flavour("tune", kBenchProgram, options.mpi);
    if (flavour.empty()) return kNotReady;
    LaunchOptions launch;
    launch.service = options.service;
    launch.settings = options.settings;
    if (const int code = export_settings(launch); code != kOk) return code;
    std::vector<Selected> collectives;
    if (!choose_collectives(options, flavour, &collectives)) return kUsage;
    if (const int code = export_shim(); code != kOk) return code;
    return options.check.empty() ? tune(options, flavour, collectives)
                                 : check_table(options, flavour, collectives);
}

}  // namespace

void add_tune(CLI::App& app, const Words*, int* exit_code) {
    const auto options = std::make_shared<TuneOptions>();
    CLI::App* command = app.add_subcommand(
        "tune", "Measure which algorithm carries which call best, and write it as a table");
    set_usage(command, "longshore tune [OPTIONS]");
    command->add_option("--mpi", options->mpi, "openmpi or mpich (default: the first that is there)")
        ->check(CLI::IsMember({"openmpi", "mpich"}))
        ->type_name("MPI");
    command
        ->add_option("-n,--ranks", options->ranks, "number of ranks (default: one for each core, at least 2)")
        ->check(CLI::Range(2, 4096))
        ->type_name("RANKS");
    command->add_option("--nodes", options->nodes, "numbers of emulated nodes (default: 1,2,4)")
        ->delimiter(',')
        ->check(CLI::Range(1, 1024))
        ->type_name("LIST");
    command->add_option("--collectives", options->collectives, "which, as bcast,alltoall (default: all)")
        ->delimiter(',')
        ->type_name("LIST");
    command
        ->add_option("--sizes", options->sizes,
                     "block sizes (bcast: of the message), as 1K,64K (default: 64 to 1M)")
        ->delimiter(',')
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 30))
        ->option_text("LIST");
    command->add_option("--samples", options->samples, "turns, and medians, of each algorithm (default: 7)")
        ->check(CLI::Range(1, 1000))
        ->type_name("N");
    static const std::map<std::string, Objective> objectives = {{"latency", Objective::kLatency},
                                                                {"overlap", Objective::kOverlap}};
    command
        ->add_option("--objective", options->objective,
                     "latency (default), of blocking and nonblocking calls; or overlap")
        ->transform(CLI::CheckedTransformer(objectives))
        ->option_text("latency|overlap");
    command->add_option("--service", options->service, "service processes per node")->type_name("N");
    add_set_option(command, &options->settings);
    CLI::Option* output =
        command->add_option("-o,--output", options->output, "also write the table here")->type_name("FILE");
    command
        ->add_option("--check", options->check,
                     "instead: compare the choices of this table with every algorithm forced")
        ->type_name("FILE")
        ->excludes(output);
    CLI::Option* from_stats =
        command
            ->add_option(
                "--from-stats", options->from_stats,
                "instead: a table by the statistics of a run, for the next one (see the manual page)")
            ->type_name("FILE");
    command
        ->add_option("--algorithms", options->algorithms,
                     "with --from-stats: the table of that run (default: the built-in one)")
        ->type_name("FILE")
        ->needs(from_stats);
    from_stats->excludes(command->get_option("--check"));
    command->add_flag("--quick", options->quick, "few sizes and samples: to try it, not to keep");
    command->add_flag("--sharing", options->sharing,
                      "instead: what it costs to share memory between ranks, and when it has paid");
    command->footer(
        R"(The table goes to stdout, progress and every figure to stderr. docs/selection.md explains both.

Examples:
  longshore tune -n 4 --nodes 1,2 -o algorithms
  longshore run --algorithms algorithms mpirun -np 4 ./program
  longshore tune -n 4 --nodes 1,2 --check algorithms
  longshore run --stats stats mpirun -np 4 ./program && longshore tune --from-stats stats -o algorithms
  longshore tune --sharing

Exit code: 0; 1 if nothing could be measured or written, or --check misses its goals; 2 bad option, setting or
file; 125 an MPI, the benchmark or the shim is missing.)");
    command->callback([=] {
        *exit_code = options->sharing               ? tune_sharing()
                     : !options->from_stats.empty() ? tune_from_stats(*options)
                                                    : run(*options);
    });
}

}  // namespace longshore::tools
