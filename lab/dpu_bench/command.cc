// longshore dpu-bench: launches the benchmark of staged collectives once for each number of workers, sums up,
// draws.
#include "tools/command.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/text.h"
#include "dpu_bench/options.h"
#include "tools/other_programs.h"
#include "tools/paths.h"
#include "tools/pictures.h"
#include "tools/run/launch.h"
#include "tools/run/mpirun.h"
#include "tools/tools.h"

namespace longshore::tools {
namespace {

constexpr const char* kProgram = "longshore-dpu-bench";
constexpr const char* kPlotScript = "dpu_bench.py";
constexpr int kBarWidth = 30;

struct DpuBenchOptions {
    dpu_bench::Options shared;
    std::string mpi, plot, from, formula = "paper";
    int hosts = 8;
    std::vector<int> workers, per_node;
    // Machines, one for each node: of the hosts, and of the workers where they are on others. Empty: this
    // one.
    std::vector<std::string> host_list, worker_list;
    bool quick = false;
};

int usage_error(const std::string& what) {
    fmt::print(stderr, "longshore dpu-bench: {}\nSee 'longshore dpu-bench --help'.\n", what);
    return kUsage;
}

// A smoke run of seconds: it shows that all works and measures next to nothing. What was given stays.
void make_quick(const CLI::App& command, DpuBenchOptions* options) {
    const auto left_out = [&](const char* name) { return command.count(name) == 0; };
    dpu_bench::Options& shared = options->shared;
    if (left_out("--hosts")) options->hosts = 4;
    if (left_out("--workers") && left_out("--wpn")) options->workers = {1, 2};
    if (left_out("--sizes")) shared.sizes = {std::size_t(64) << 10, std::size_t(256) << 10};
    if (left_out("--iterations")) shared.iterations = 5;
    if (left_out("--warmup")) shared.warmup = 1;
    if (left_out("--runs")) shared.runs = 1;
}

// As the paper goes: doubling up to a worker per node, then 2, 4, 6 and 8 per node, as far as the rule
// allows.
std::vector<int> default_workers(const DpuBenchOptions& options) {
    std::vector<int> counts;
    const int nodes = options.shared.nodes;
    for (int count = 1; count < nodes; count *= 2) counts.push_back(count);
    for (const int each : {1, 2, 4, 6, 8}) counts.push_back(each * nodes);
    std::erase_if(counts, [&](int count) {
        return !dpu_bench::refusal({options.hosts, count}, options.shared.allow_equal).empty();
    });
    return counts;
}

// A host list says how many nodes there are, and that data goes from one machine to another.
std::string take_lists(const CLI::App& command, DpuBenchOptions* options) {
    dpu_bench::Options& shared = options->shared;
    const size_t count = options->host_list.size();
    if (count == 0) return "";
    if (command.count("--nodes") != 0 && shared.nodes != int(count))
        return fmt::format("--nodes {}: the host list has {}", shared.nodes, count);
    if (!options->worker_list.empty() && options->worker_list.size() != count)
        return fmt::format("--worker-list: it has {} machines, and --host-list {}; each node has one of both",
                           options->worker_list.size(), count);
    if (shared.json.empty())
        return "--host-list: --json FILE is needed, too, in a folder that the first machine shares with this "
               "one";
    shared.nodes = int(count);
    if (command.count("--mover") == 0) shared.mover = dpu_bench::MoverKind::kTcp;
    if (shared.mover == dpu_bench::MoverKind::kProcessVm)
        return "--mover process_vm moves data within one machine; with a host list tcp and verbs are "
               "possible";
    return "";
}

// Completes the options. Returns kOk, or says what is wrong and returns an exit code.
int complete(const CLI::App& command, DpuBenchOptions* options) {
    if (options->quick) make_quick(command, options);
    if (const std::string wrong = take_lists(command, options); !wrong.empty()) return usage_error(wrong);
    try {
        dpu_bench::finish_options(&options->shared);
    } catch (const CLI::ValidationError& error) {
        return usage_error(error.what());
    }
    if (const std::string reason = dpu_bench::why_not_built(options->shared.mover); !reason.empty()) {
        fmt::print(stderr, "longshore dpu-bench: {}\n", reason);
        return kNotReady;
    }
    if (options->shared.nodes > options->hosts)
        return usage_error(
            fmt::format("--nodes {}: there are only {} hosts", options->shared.nodes, options->hosts));
    for (const int each : options->per_node) options->workers.push_back(each * options->shared.nodes);
    if (options->workers.empty()) options->workers = default_workers(*options);
    std::sort(options->workers.begin(), options->workers.end());
    options->workers.erase(std::unique(options->workers.begin(), options->workers.end()),
                           options->workers.end());
    for (const int workers : options->workers) {
        const std::string reason = dpu_bench::refusal({options->hosts, workers}, options->shared.allow_equal);
        if (!reason.empty()) return usage_error(reason);
    }
    return kOk;
}

// One line on the terminal that is overwritten.
void show_progress(const std::string& label, const std::string& text) {
    std::istringstream words(text);
    int row = 0, rows = 0;
    std::string what;
    words >> row >> rows >> std::ws;
    std::getline(words, what);
    const int filled = rows > 0 ? kBarWidth * (row - 1) / rows : 0;
    fmt::print(stderr, "\r\x1b[K[{:#<{}}{:.<{}}] {}, row {} of {}: {}", "", filled, "", kBarWidth - filled,
               label, row, rows, what);
    fflush(stderr);
}

// Hands the lines of a launch on to stdout, all but those that tell its progress.
void pass_on(int input, const std::string& label) {
    FILE* lines = fdopen(input, "r");
    char* line = nullptr;
    size_t size = 0;
    bool shown = false;
    const auto clear = [&] {
        if (std::exchange(shown, false)) fmt::print(stderr, "\r\x1b[K");
    };
    while (lines != nullptr && getline(&line, &size, lines) >= 0) {
        clear();
        const std::string_view text(line);
        if (text.starts_with(dpu_bench::kProgressMark)) {
            show_progress(label, std::string(text.substr(sizeof dpu_bench::kProgressMark - 1)));
            shown = true;
        } else {
            fputs(line, stdout);
            fflush(stdout);
        }
    }
    clear();
    free(line);
    if (lines != nullptr) fclose(lines);
}

// The machine that a rank is to be on.
std::string machine_of(const DpuBenchOptions& options, const dpu_bench::Shape& shape, int rank) {
    const std::vector<std::string>& list =
        shape.is_worker(rank) && !options.worker_list.empty() ? options.worker_list : options.host_list;
    return list.at(size_t(dpu_bench::node_of(shape, options.shared.nodes, rank)));
}

// mpirun and the program, on this machine or where the lists say; ranks are counted in the order of the
// parts.
std::vector<std::string> launch_words(const std::string& flavour, const DpuBenchOptions& options, int workers,
                                      const std::vector<std::string>& program) {
    const dpu_bench::Shape shape{options.hosts, workers};
    std::vector<std::string> launch = mpirun_words(flavour);
    if (options.host_list.empty()) {
        launch.insert(launch.end(), {"-np", std::to_string(shape.ranks())});
        launch.insert(launch.end(), program.begin(), program.end());
        return launch;
    }
    for (int first = 0, end = 0; first < shape.ranks(); first = end) {
        const std::string machine = machine_of(options, shape, first);
        while (end < shape.ranks() && machine_of(options, shape, end) == machine) ++end;
        const std::string count = std::to_string(end - first);
        if (first > 0) launch.emplace_back(":");
        launch.insert(launch.end(), {"-np", count});
        if (flavour == "openmpi")
            launch.insert(launch.end(), {"--host", machine + ":" + count});
        else
            launch.insert(launch.end(), {"-host", machine});
        launch.insert(launch.end(), program.begin(), program.end());
    }
    return launch;
}

int run_with_progress(const std::string& flavour, const DpuBenchOptions& options, int workers,
                      std::vector<std::string> program, const std::string& label) {
    int ends[2];
    if (!isatty(STDERR_FILENO) || pipe2(ends, O_CLOEXEC) != 0)
        return run_and_wait(launch_words(flavour, options, workers, program));
    program.emplace_back("--progress");
    return run_and_wait(launch_words(flavour, options, workers, program), ends[1],
                        [&] { pass_on(ends[0], label); });
}

int measure_all(const std::string& flavour, const DpuBenchOptions& options) {
    for (std::size_t i = 0; i < options.workers.size(); ++i) {
        const int workers = options.workers[i];
        std::vector<std::string> program = {flavoured_program(kProgram, flavour)};
        const std::vector<std::string> shared = dpu_bench::to_arguments(options.shared);
        program.insert(program.end(), shared.begin(), shared.end());
        program.insert(program.end(), {"--workers", std::to_string(workers)});
        if (i > 0) program.emplace_back("--append");
        if (i > 0) fmt::print("\n");
        const std::string label = fmt::format("launch {} of {}", i + 1, options.workers.size());
        if (const int code = run_with_progress(flavour, options, workers, program, label); code != kOk) {
            fmt::print(stderr, "longshore dpu-bench: the launch with --workers {} failed\n", workers);
            return code;
        }
    }
    return kOk;
}

// Efficiency by size and number of workers, a table for each pattern and assignment.
int print_summary(const std::string& file_name, const std::string& formula) {
    std::vector<std::string> titles;  // in the order of the results
    std::map<std::string, std::map<std::size_t, std::map<int, double>>> tables;
    std::map<std::string, std::map<int, double>> per_node;
    std::ifstream file(file_name);
    try {
        for (std::string line; std::getline(file, line);) {
            const nlohmann::json row = nlohmann::json::parse(line);
            if (row.at("type") != "row") continue;
            const std::string title = fmt::format("{}, {}", row.at("pattern").get<std::string>(),
                                                  row.at("assignment").get<std::string>());
            const int workers = row.at("workers");
            if (!tables.contains(title)) titles.push_back(title);
            tables[title][row.at("bytes")][workers] = row.at("efficiency_" + formula);
            per_node[title][workers] = row.at("workers_per_node");
        }
    } catch (const nlohmann::json::exception& error) {
        fmt::print(stderr, "longshore dpu-bench: {}: not results of this benchmark: {}\n", file_name,
                   error.what());
        return kFailed;
    }
    if (tables.empty()) {
        fmt::print(stderr, "longshore dpu-bench: {}: no results in it\n", file_name);
        return kFailed;
    }
    for (const std::string& title : titles) {
        fmt::print("\n# offload efficiency in %, {} formula: {}\n{:>16}", formula, title, "workers");
        for (const auto& [workers, each] : per_node[title]) fmt::print(" {:>7}", workers);
        fmt::print("\n{:>16}", "per node");
        for (const auto& [workers, each] : per_node[title]) fmt::print(" {:>7.3g}", each);
        fmt::print("\n");
        for (const auto& [bytes, values] : tables[title]) {
            fmt::print("{:>16}", show_size(bytes));
            for (const auto& [workers, each] : per_node[title])
                fmt::print(" {:>7}",
                           values.contains(workers) ? fmt::format("{:.1f}", values.at(workers)) : "-");
            fmt::print("\n");
        }
    }
    return kOk;
}

int sum_up(const std::string& results, const DpuBenchOptions& options) {
    const int code = print_summary(results, options.formula);
    if (code != kOk || options.plot.empty()) return code;
    return run_and_wait({find_python(), script_path(kPlotScript), results, "--output", options.plot,
                         "--formula", options.formula});
}

int run_dpu_bench(const CLI::App& command, DpuBenchOptions options) {
    if (!options.plot.empty())
        if (const int code = can_draw("dpu-bench", script_path(kPlotScript)); code != kOk) return code;
    if (!options.from.empty()) {
        if (is_file(options.from)) return sum_up(options.from, options);
        fmt::print(stderr, "longshore dpu-bench: {}: no such file; --json FILE writes one\n", options.from);
        return kFailed;
    }
    if (const int code = complete(command, &options); code != kOk) return code;
    const std::string flavour = choose_flavour("dpu-bench", kProgram, options.mpi);
    if (flavour.empty()) return kNotReady;
    const ResultsFile results(options.shared.json);
    options.shared.json = results.name();
    if (const int code = measure_all(flavour, options); code != kOk) return code;
    return sum_up(results.name(), options);
}

void add_dpu_bench(CLI::App& app, const Words*, int* exit_code) {
    const auto options = std::make_shared<DpuBenchOptions>();
    CLI::App* command = app.add_subcommand("dpu-bench", about("dpu-bench"));
    set_usage(command, "longshore dpu-bench [OPTIONS]");
    command->add_option("--mpi", options->mpi, "openmpi or mpich (default: the first that is there)")
        ->check(CLI::IsMember({"openmpi", "mpich"}))
        ->type_name("MPI");
    command->add_option("--hosts", options->hosts, "processes that compute (default: 8)")
        ->check(CLI::Range(2, 4096))
        ->type_name("N");
    auto* workers =
        command
            ->add_option("--workers", options->workers, "processes that move data, a launch for each number")
            ->delimiter(',')
            ->check(CLI::Range(1, 4096).description(""))
            ->type_name("LIST");
    command->add_option("--wpn", options->per_node, "the same as workers per node")
        ->delimiter(',')
        ->check(CLI::Range(1, 4096).description(""))
        ->type_name("LIST")
        ->excludes(workers);
    add_options(command, &options->shared);
    auto* machines =
        command
            ->add_option("--host-list", options->host_list,
                         "the machines of the hosts, one for each node (default: all on this one)")
            ->delimiter(',')
            ->type_name("LIST");
    command
        ->add_option("--worker-list", options->worker_list,
                     "those of the workers, as the nodes' DPUs (default: the hosts')")
        ->delimiter(',')
        ->type_name("LIST")
        ->needs(machines);
    command->add_flag("--quick", options->quick, "a smoke run of seconds: few, small, short");
    command->add_option("--plot", options->plot, "draw the results into this folder (PNG)")
        ->type_name("FOLDER");
    command
        ->add_option("--formula", options->formula, "efficiency summed up and drawn: paper, code or median")
        ->check(CLI::IsMember({"paper", "code", "median"}))
        ->type_name("WHICH");
    command->add_option("--from", options->from, "sum up and draw earlier results instead of measuring")
        ->type_name("FILE");
    command->footer(R"(Examples:
  longshore dpu-bench --quick
  longshore dpu-bench --hosts 8 --nodes 2 --wpn 1,2 --json results.jsonl --plot pictures
  longshore dpu-bench --mpi mpich --workers 1,2,3 --hosts 4 --patterns bcast --sizes 1M
  longshore dpu-bench --quick --mover verbs --device mlx5_0:1
  longshore dpu-bench --hosts 16 --host-list node1,node2 --worker-list dpu1,dpu2 --wpn 1,2,4
  longshore dpu-bench --from results.jsonl --plot pictures --formula median

Workers are the highest ranks: at most half of all, and fewer than the hosts. docs/dpu-bench.md tells what is
measured and gives the formulas; the paper's runs are --hosts 64 --nodes 8 --time-limit 0.

Exit code: 0 done; 1 wrong data or no results; 2 bad option or number of workers; 125 a part is missing
(matplotlib for --plot, an RDMA device for --mover verbs); otherwise that of mpirun.)");
    command->callback([=] { *exit_code = run_dpu_bench(*command, *options); });
}

}  // namespace
}  // namespace longshore::tools

int main(int argc, char** argv) {
    using namespace longshore::tools;
    const Subcommand command{"dpu-bench", add_dpu_bench};
    return run_command({&command, 1}, argc, argv);
}
