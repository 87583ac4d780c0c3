// longshore simulate: the product's engine on a machine that a file describes, beside the host's MPI on it.
#include <fmt/core.h>
#include <sys/resource.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/output_file.h"
#include "base/text.h"
#include "model/need.h"
#include "model/plan.h"
#include "model/progress_bar.h"
#include "model/subcommands.h"
#include "tools/command.h"
#include "tools/other_programs.h"
#include "tools/paths.h"
#include "tools/pictures.h"
#include "tools/run/launch.h"
#include "tools/tools.h"

namespace longshore::tools {
namespace {

constexpr const char* kSimulateScript = "simulate.py";

int refuse_options(const std::string& what) {
    fmt::print(stderr, "longshore simulate: {}\nSee 'longshore simulate --help'.\n", what);
    return kUsage;
}

// In at most seven characters up to ten seconds.
std::string microseconds(timed::Time time) {
    const double us = static_cast<double>(time) / timed::kMicrosecond;
    return fmt::format("{:.{}f}", us, us < 99'999 ? 1 : 0);
}

std::string percent(double share) {
    return fmt::format("{:.0f}", 100 * share);
}

double share(uint64_t part, uint64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// Of those on hosts, how many have a core that no rank has.
std::string place_on_hosts(const timed::Machine& machine, const SimulateOptions& options) {
    const std::string way = options.algorithm == "direct" ? "" : options.algorithm + ", ";
    const std::string place = way + "service processes on hosts";
    const uint64_t spare = machine.cores - std::min<uint64_t>(machine.cores, options.ranks_per_node);
    const std::vector<uint32_t> services = services_of(options);
    if (*std::max_element(services.begin(), services.end()) <= spare) return place;
    if (spare == 0) return place + ", on cores of ranks";
    return place + fmt::format(", more than {} on cores of ranks", spare);
}

void print_head(const timed::Machine& machine, const SimulateOptions& options) {
    fmt::print("# {} ({})\n", machine.name, machine.title);
    const bool on_dpu = service_place(options.services_on, machine) == timed::ServicePlace::kDpu;
    const std::string place = on_dpu ? fmt::format("{}, memory {}, handover {}", options.algorithm,
                                                   options.memory, options.handover)
                                     : place_on_hosts(machine, options);
    fmt::print("# {}{}, {} nodes x {} ranks, {} reads,\n# {}, {} links; times in us\n", options.collective,
               options.groups == "columns" ? " in columns" : "", options.nodes, options.ranks_per_node,
               options.reads, place, options.sharing);
    if (options.progress == "thread")
        fmt::print("# the host's MPI has a progress thread on each rank's core\n");
    if (options.progress == "tests")
        fmt::print("# ranks call MPI_Test after each {:g} us of computing\n", options.test_every_us);
}

// Rows of at most 80 columns. What all rows have in common is not in them: a placement is a line of its own,
// and the seed is there where there are several.
class Table {
  public:
    explicit Table(const SimulateOptions& options)
        : has_placements_(options.placements.size() > 1), has_seeds_(options.seeds.size() > 1) {
        fmt::print("{:>5} {:>13} {:>3} {}{:>7} {:>7} {:>7} {:>4} {:>4} {:>4} {:>3} {:>3} {:>4}\n", "bytes",
                   "who", "SPs", has_seeds_ ? "seed " : "", "mean", "least", "most", "hid%", "link", "pcie",
                   "mem", "SP", "late");
    }

    void print(const SimulatedRow& row) {
        const timed::Outcome& out = row.pure;
        const bool is_ours = row.services != 0;
        if (has_placements_ && row.placement != placement_) fmt::print("# {}\n", placement_ = row.placement);
        fmt::print("{:>5} {:>13} {:>3} {}{:>7} {:>7} {:>7} {:>4} {:>4} {:>4} {:>3} {:>3} {:>4}\n",
                   show_size(row.bytes), row.who, is_ours ? std::to_string(row.services) : "-",
                   has_seeds_ ? fmt::format("{:>4} ", row.seed) : "", microseconds(out.latency.mean),
                   microseconds(out.latency.least), microseconds(out.latency.most),
                   row.overlap_percent < 0 ? "-" : fmt::format("{:.0f}", row.overlap_percent),
                   percent(out.busiest_link), percent(out.busiest_pcie), percent(out.busiest_memory),
                   is_ours ? percent(out.busiest_service) : "-",
                   is_ours ? percent(share(out.late.late, out.late.entered)) : "-");
        fflush(stdout);
    }

  private:
    const bool has_placements_, has_seeds_;
    std::string placement_;
};

nlohmann::json to_json(const timed::Machine& machine) {
    nlohmann::json all;
    all["name"] = machine.name;
    all["title"] = machine.title;
    for (const timed::MachineValue& value : timed::machine_values())
        if (machine.has_dpu() || !value.is_of_dpu())
            all["values"][value.key] = {{"value", timed::written(value.unit, machine.*(value.at))},
                                        {"source", machine.sources.at(value.key)}};
    return all;
}

nlohmann::json to_json(const SimulatedRow& row, uint32_t iterations) {
    const timed::Outcome& out = row.pure;
    const auto us = [](timed::Time time) { return static_cast<double>(time) / 1e6; };
    nlohmann::json one = {{"who", row.who},
                          {"placement", row.placement},
                          {"bytes", row.bytes},
                          {"seed", row.seed},
                          {"mean_us", us(out.latency.mean)},
                          {"least_us", us(out.latency.least)},
                          {"most_us", us(out.latency.most)},
                          {"bytes_between_nodes", out.network_bytes / iterations},
                          {"busiest_link", out.busiest_link},
                          {"busiest_pcie", out.busiest_pcie},
                          {"busiest_memory", out.busiest_memory},
                          {"events", out.events},
                          {"wall_seconds", row.wall_seconds}};
    for (const timed::Time mean : out.latency.iterations) one["iterations_us"].push_back(us(mean));
    if (row.services != 0) {
        one["services"] = row.services;
        one["busiest_service"] = out.busiest_service;
        one["messages"] = out.messages / iterations;
        one["reads"] = out.reads / iterations;
        one["copies"] = out.copies / iterations;
        one["late"] = {{"ranks", out.late.entered},       {"late", out.late.late},
                       {"covered", out.late.covered},     {"told", out.late.told},
                       {"told_late", out.late.told_late}, {"handed_on", out.late.handed_on},
                       {"rescued", out.late.rescued},     {"parked", out.late.parked}};
    }
    if (row.overlap_percent >= 0) {
        one["overlap_percent"] = row.overlap_percent;
        one["together_us"] = us(row.together);
    }
    return one;
}

nlohmann::json to_json(const SimulateOptions& options, const timed::Machine& machine) {
    nlohmann::json all = {{"machine", to_json(machine)},      {"collective", options.collective},
                          {"nodes", options.nodes},           {"ranks_per_node", options.ranks_per_node},
                          {"reads", options.reads},           {"handover", options.handover},
                          {"sharing", options.sharing},       {"progress", options.progress},
                          {"memory", options.memory},         {"algorithm", options.algorithm},
                          {"groups", options.groups},         {"warm_up", options.warm_up},
                          {"iterations", options.iterations}, {"rows", nlohmann::json::array()}};
    if (service_place(options.services_on, machine) == timed::ServicePlace::kHost)
        all["services_on"] = "host";
    if (options.progress == "tests") all["test_every_us"] = options.test_every_us;
    if (options.compute_us != 0) all["compute_us"] = options.compute_us;
    return all;
}

int simulate(const SimulateOptions& options, const timed::Machine& machine, const SimulatePlan& plan) {
    nlohmann::json results = to_json(options, machine);
    ProgressBar bar(plan.seconds_expected());
    print_head(machine, options);
    Table table(options);
    for (size_t i = 0; i < plan.size(); ++i) {
        bar.begin(i, plan.label(i));
        const SimulatedRow row = plan.run(i, &bar);
        bar.clear();
        table.print(row);
        results["rows"].push_back(to_json(row, options.iterations));
    }
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    results["memory_bytes"] = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
    const ResultsFile file(options.json);
    std::string error;
    if (!write_output_file(file.name(), results.dump(1) + "\n", &error)) {
        fmt::print(stderr, "longshore simulate: cannot write {}\n", error);
        return kFailed;
    }
    if (options.plot.empty()) return kOk;
    return run_and_wait({find_python(), script_path(kSimulateScript), file.name(), options.plot});
}

int run_simulate(const SimulateOptions& options) {
    if (!options.plot.empty())
        if (const int code = can_draw("simulate", script_path(kSimulateScript)); code != kOk) return code;
    timed::Machine machine;
    if (const std::string wrong = prepare(options, &machine); !wrong.empty()) return refuse_options(wrong);
    const SimulatePlan plan(options, machine);
    if (const std::string wrong = plan.refusal(); !wrong.empty()) return refuse_options(wrong);
    if (!can_write("--json", options.json) || !can_write("--plot", options.plot)) return kFailed;
    if (!check_need("longshore simulate", plan.need())) return kFailed;
    return simulate(options, machine, plan);
}

void add_job_options(CLI::App* command, SimulateOptions* o) {
    const auto list = [](CLI::Option* option) { option->delimiter(',')->type_name("LIST"); };
    command
        ->add_option("--machine", o->machine, "a machine file, or the name of one that comes with Longshore")
        ->type_name("MACHINE");
    command
        ->add_option("--collective", o->collective,
                     "alltoall, alltoallv, allgather, allgatherv or bcast, also with an i before it")
        ->type_name("NAME");
    list(command->add_option("--sizes", o->sizes, "bytes of a block, as 16K,64K")
             ->transform(CLI::AsSizeValue(false).description("")));
    command->add_option("--nodes", o->nodes, "nodes (default: 32)")->type_name("N");
    command->add_option("--ranks-per-node", o->ranks_per_node, "ranks of each (default: 32)")->type_name("N");
    list(command->add_option("--services", o->services,
                             "service processes of each node (default: 4, or as many as ranks)"));
    command
        ->add_option("--services-on", o->services_on,
                     "where they run: dpu, or host, on spare cores or ranks' own (default: dpu, if any)")
        ->check(CLI::IsMember({"dpu", "host"}).description(""))
        ->type_name("WHERE");
    list(command->add_option("--placement", o->placements, "contiguous, strided or both")
             ->check(CLI::IsMember({"contiguous", "strided"}).description("")));
    command->add_option("--reads", o->reads, "reads of a service process under way, at most (default: 64)")
        ->type_name("N");
    command
        ->add_option("--handover", o->handover,
                     "who copies shared blocks on a host: as-built or once, ranks that wait; dpu, the DPU")
        ->check(CLI::IsMember({"as-built", "once", "dpu"}).description(""))
        ->type_name("WHO");
    command
        ->add_option("--memory", o->memory,
                     "DPUs reach hosts' memory (alias), or all bytes pass theirs (staging)")
        ->check(CLI::IsMember({"alias", "staging"}).description(""))
        ->type_name("WHAT");
    command
        ->add_option("--algorithm", o->algorithm,
                     "direct, staged (through DPUs' memory) or staged-hierarchical (through hosts')")
        ->check(CLI::IsMember({"direct", "staged", "staged-hierarchical"}).description(""))
        ->type_name("WHICH");
    list(command->add_option("--against", o->against,
                             "algorithms of the host's MPI (see below), or host for all that fit"));
    command
        ->add_option("--progress", o->progress,
                     "the host's MPI while ranks compute: calls (stands still), thread, tests (MPI_Test)")
        ->check(CLI::IsMember({"calls", "thread", "tests"}).description(""))
        ->type_name("WHEN");
    command
        ->add_option("--test-every", o->test_every_us,
                     "microseconds of computing between two tests (default: 100)")
        ->check(CLI::Range(0.001, 1e9).description(""))
        ->type_name("US");
    command
        ->add_option("--groups", o->groups,
                     "world, or columns: one rank of each node, all such groups at once")
        ->check(CLI::IsMember({"world", "columns"}).description(""))
        ->type_name("WHO");
    command->add_flag("--mirrored", o->mirrored,
                      "simulate one node, and take it that all others do the same; no jitter");
    auto* compute = command
                        ->add_option("--compute", o->compute_us,
                                     "run each once more, with so many microseconds of computing")
                        ->check(CLI::Range(0.001, 1e9).description(""))
                        ->type_name("US");
    command->add_flag("--overlap", o->overlap, "run each once more, with computing, and say what was hidden")
        ->excludes(compute);
}

void add_run_options(CLI::App* command, SimulateOptions* o) {
    command
        ->add_option("--set", o->set,
                     "another value of the machine, as pcie.rate=\"25 GB/s\"; may be repeated")
        ->type_name("KEY=VALUE");
    command->add_option("--sharing", o->sharing, "links: fifo, or max-min as a check of at most 128 ranks")
        ->check(CLI::IsMember({"fifo", "max-min"}).description(""))
        ->type_name("RULE");
    command->add_option("--warm-up", o->warm_up, "collectives before those that count (default: 1)")
        ->type_name("N");
    command->add_option("--iterations", o->iterations, "collectives that count (default: 3)")->type_name("N");
    command->add_option("--seeds", o->seeds, "a run for each, of the machine's jitter (default: 1)")
        ->delimiter(',')
        ->type_name("LIST");
    command->add_option("--json", o->json, "write all results, and the machine, into this file")
        ->type_name("FILE");
    command->add_option("--plot", o->plot, "draw latency by size into this file (PNG)")->type_name("FILE");
}

void add_simulate(CLI::App& app, const Words*, int* exit_code) {
    const auto options = std::make_shared<SimulateOptions>();
    CLI::App* command = app.add_subcommand("simulate", about("simulate"));
    set_usage(command, "longshore simulate [OPTIONS] | dpu-bench [OPTIONS] | steps [OPTIONS]");
    add_job_options(command, options.get());
    add_run_options(command, options.get());
    command->footer(R"(Examples:
  longshore simulate --collective ialltoallv --sizes 16K,64K,256K --services 1,2,4,8 --reads 4
  longshore simulate --collective allgatherv --placement contiguous,strided --against host
  longshore simulate --nodes 8 --ranks-per-node 8 --overlap --against linear --json out.json --plot out.png
  longshore simulate --machine my_machine.toml --set pcie.rate="25 GB/s"
  longshore simulate --ranks-per-node 28 --services 4 --services-on host --against pairwise
  longshore simulate dpu-bench --machine thor-bf3 --nodes 8 --hosts 64 --workers 1,2,4,8

The engine is the product's own; links, processors and the host's MPI are a model: docs/simulation.md.
Columns: service processes of a node; times from a rank's entry until it has its result; hid%: what of it is hidden
behind computing (--overlap, --compute); link, pcie, mem and SP: the part of the time in which the busiest of them was
busy, %; late: ranks that came when their service process had been told of what is for them, %. More is in --json.
The host's algorithms: pairwise, linear (alltoall); ring, neighbour, bruck, doubling, leaders (allgather);
binomial, node-binomial, scatter-ring (bcast).

Exit code: 0 done; 1 not enough memory, or a file cannot be written; 2 bad option or machine file; 125
matplotlib is missing (for --plot).)");
    add_simulate_staged(*command, exit_code);
    add_simulate_steps(*command, exit_code);
    command->callback([=] {
        if (command->get_subcommands().empty()) *exit_code = run_simulate(*options);
    });
}

}  // namespace
}  // namespace longshore::tools

int main(int argc, char** argv) {
    using namespace longshore::tools;
    const Subcommand command{"simulate", add_simulate};
    return run_command({&command, 1}, argc, argv);
}
