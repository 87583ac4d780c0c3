// longshore simulate steps: a program of exchanges and computing on a machine that a file describes.
#include <fmt/core.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/output_file.h"
#include "model/machine_file.h"
#include "model/machine_path.h"
#include "model/need.h"
#include "model/plan.h"
#include "model/progress_bar.h"
#include "model/step_loop.h"
#include "model/subcommands.h"
#include "tools/run/launch.h"

namespace longshore::tools {
namespace {

using timed::StepLoop;
using timed::StepTimes;
using timed::Time;

struct StepsOptions {
    std::string machine = "mpcdf-bf3", placement = "contiguous", handover = "as-built", services_on, json;
    std::vector<std::string> set, against{"ring/pairwise"};
    uint32_t nodes = 32, ranks_per_node = 8, services = 4, reads = 64;
    uint32_t steps = 3, halos = 4, allgathers = 1, alltoalls = 2;
    uint64_t halo_bytes = 1 << 20, allgather_bytes = 1 << 20, alltoall_bytes = 64 * 1024,
             allreduce_bytes = 64, chunk_bytes = 64 * 1024;
    double compute_us = 10'000, imbalance_percent = 0, late_percent = 0, late_nodes_percent = 0;
    std::vector<double> late_by_us{0, 0};
    std::vector<uint64_t> seeds{1};
};

int refuse_steps(const std::string& what) {
    fmt::print(stderr, "longshore simulate steps: {}\nSee 'longshore simulate steps --help'.\n", what);
    return kUsage;
}

Time time_of_us(double us) {
    return static_cast<Time>(std::llround(us * timed::kMicrosecond));
}

StepLoop loop_of(const StepsOptions& o, const timed::Machine& machine) {
    StepLoop loop;
    loop.job.machine = machine;
    loop.job.service_place = service_place(o.services_on, machine);
    loop.job.nodes = o.nodes;
    loop.job.ranks_per_node = o.ranks_per_node;
    loop.job.services = o.services;
    loop.job.reads_max = o.reads;
    loop.allgather_chunk_bytes = o.chunk_bytes;
    loop.job.placement =
        o.placement == "strided" ? timed::Placement::kStrided : timed::Placement::kContiguous;
    loop.job.handover = o.handover == "once"  ? timed::Handover::kOnce
                        : o.handover == "dpu" ? timed::Handover::kDpu
                                              : timed::Handover::kAsBuilt;
    loop.steps = o.steps;
    loop.halos = o.halos, loop.allgathers = o.allgathers, loop.alltoalls = o.alltoalls;
    loop.halo_bytes = o.halo_bytes, loop.allgather_bytes = o.allgather_bytes;
    loop.alltoall_bytes = o.alltoall_bytes, loop.allreduce_bytes = o.allreduce_bytes;
    loop.compute = time_of_us(o.compute_us);
    const auto share = [](double percent) { return static_cast<uint64_t>(std::llround(percent * 1e4)); };
    loop.imbalance = share(o.imbalance_percent);
    loop.late = share(o.late_percent);
    loop.late_nodes = share(o.late_nodes_percent);
    loop.late_least = time_of_us(o.late_by_us[0]);
    loop.late_most = time_of_us(o.late_by_us[1]);
    return loop;
}

// As "ring/pairwise".
std::string find_contender(const std::string& name, timed::StepContender* out) {
    const size_t slash = name.find('/');
    if (slash == std::string::npos) return "an allgather and an alltoall are named, as ring/pairwise";
    out->allgather = timed::find_host_algorithm(name.substr(0, slash));
    out->alltoall = timed::find_host_algorithm(name.substr(slash + 1));
    if (out->allgather == nullptr || !timed::fits(*out->allgather, Collective::kAllgatherv))
        return name.substr(0, slash) + " is no allgather";
    if (out->alltoall == nullptr || !timed::fits(*out->alltoall, Collective::kAlltoall))
        return name.substr(slash + 1) + " is no alltoall";
    return "";
}

std::string prepare(const StepsOptions& options, StepLoop* loop,
                    std::vector<std::pair<std::string, timed::StepContender>>* who) {
    timed::Machine machine;
    if (std::string wrong = timed::read_machine(machine_path(options.machine), &machine); !wrong.empty())
        return wrong;
    for (const std::string& one : options.set)
        if (std::string wrong = timed::set_value(&machine, one); !wrong.empty()) return "--set " + wrong;
    *loop = loop_of(options, machine);
    if (std::string wrong = timed::refusal(*loop); !wrong.empty()) return wrong;
    who->push_back({"longshore", {}});
    for (const std::string& name : options.against) {
        timed::StepContender one;
        if (std::string wrong = find_contender(name, &one); !wrong.empty()) return "--against: " + wrong;
        if (!one.allgather->possible(loop->job) || !one.alltoall->possible(loop->job))
            return fmt::format("--against {}: not with {} ranks", name, loop->job.ranks());
        who->push_back({name, one});
    }
    return "";
}

nlohmann::json to_json(const StepTimes& times) {
    const auto ms = [](Time time) { return static_cast<double>(time) / 1e9; };
    nlohmann::json one;
    for (size_t p = 0; p < timed::kStepParts; ++p)
        one["parts_ms"][name_of(timed::StepPart(p))] = ms(times.parts[p]);
    one["wall_ms"] = ms(times.wall);
    one["mpi_ms"] = ms(times.in_mpi());
    one["first_alltoall_ms"] = ms(times.first_alltoall);
    one["allgather_alone_ms"] = ms(times.allgather_alone);
    one["exits_ms"] = ms(times.exits);
    one["bytes_between_nodes"] = times.bytes_between_nodes;
    return one;
}

size_t part_width(size_t part) {
    return std::max<size_t>(9, std::string_view(name_of(timed::StepPart(part))).size() + 1);
}

void print_row(const std::string& who, uint64_t seed, const StepTimes& times) {
    const auto ms = [](Time time) { return fmt::format("{:>9.2f}", static_cast<double>(time) / 1e9); };
    std::string line = fmt::format("{:>18} {:>4}", who, seed);
    for (size_t p = 0; p < timed::kStepParts; ++p)
        line += fmt::format("{:>{}}", ms(times.parts[p]), part_width(p));
    line += fmt::format("\n{:>23}", "");  // of 80 columns
    line += ms(times.in_mpi()) + ms(times.wall) + ms(times.first_alltoall) + ms(times.allgather_alone) +
            ms(times.exits);
    fmt::print("{}\n", line);
    fflush(stdout);
}

void print_head(const StepsOptions& o, const timed::Machine& machine) {
    fmt::print("# {} ({})\n# {} nodes x {} ranks; of a step, ms, means over ranks and {} steps\n",
               machine.name, machine.title, o.nodes, o.ranks_per_node, o.steps);
    fmt::print("{:>18} {:>4}", "who", "seed");
    for (size_t p = 0; p < timed::kStepParts; ++p)
        fmt::print("{:>{}}", name_of(timed::StepPart(p)), part_width(p));
    fmt::print("\n{:>23}{:>9}{:>9}{:>9}{:>9}{:>9}\n", "", "all MPI", "wall", "1st a2a", "alone", "exits");
}

int run(const StepsOptions& options) {
    if (options.late_by_us.size() != 2)
        return refuse_steps("--late-by: the least and the most, as 30000,100000");
    StepLoop loop;
    std::vector<std::pair<std::string, timed::StepContender>> who;
    if (const std::string wrong = prepare(options, &loop, &who); !wrong.empty()) return refuse_steps(wrong);
    Need need;
    std::vector<double> seconds;  // of each run
    for (const auto& [name, contender] : who) {
        need.memory_bytes = std::max(need.memory_bytes, timed::memory_needed(loop, contender));
        seconds.insert(seconds.end(), options.seeds.size(), timed::seconds_expected(loop, contender));
    }
    for (const double one : seconds) need.seconds += one;
    if (!can_write("--json", options.json)) return kFailed;
    if (!check_need("longshore simulate steps", need)) return kFailed;
    ProgressBar bar(seconds);
    size_t number = 0;
    print_head(options, loop.job.machine);
    nlohmann::json results = {{"machine", loop.job.machine.name},
                              {"nodes", options.nodes},
                              {"ranks_per_node", options.ranks_per_node},
                              {"steps", options.steps},
                              {"rows", nlohmann::json::array()}};
    for (const auto& [name, contender] : who) {
        for (const uint64_t seed : options.seeds) {
            loop.seed = seed;
            bar.begin(number++, fmt::format("{}, seed {}", name, seed));
            const StepTimes times = timed::simulate_steps(loop, contender, &bar);
            bar.clear();
            print_row(name, seed, times);
            nlohmann::json row = to_json(times);
            row["who"] = name;
            row["seed"] = seed;
            results["rows"].push_back(row);
        }
    }
    if (options.json.empty()) return kOk;
    std::string error;
    if (write_output_file(options.json, results.dump(1) + "\n", &error)) return kOk;
    fmt::print(stderr, "longshore simulate steps: cannot write {}\n", error);
    return kFailed;
}

void add_job_options(CLI::App* command, StepsOptions* o) {
    command->add_option("--machine", o->machine, "a machine file, or one that is known (default: mpcdf-bf3)")
        ->type_name("MACHINE");
    command->add_option("--nodes", o->nodes, "nodes (default: 32)")->type_name("N");
    command->add_option("--ranks-per-node", o->ranks_per_node, "ranks of each (default: 8)")->type_name("N");
    command->add_option("--services", o->services, "service processes of each node (default: 4)")
        ->type_name("N");
    command
        ->add_option("--services-on", o->services_on,
                     "where they run: dpu, or host, on spare cores or ranks' own (default: dpu, if any)")
        ->check(CLI::IsMember({"dpu", "host"}).description(""))
        ->type_name("WHERE");
    command->add_option("--placement", o->placement, "contiguous or strided")
        ->check(CLI::IsMember({"contiguous", "strided"}).description(""))
        ->type_name("HOW");
    command->add_option("--handover", o->handover, "who copies on a host: as-built, once or dpu")
        ->check(CLI::IsMember({"as-built", "once", "dpu"}).description(""))
        ->type_name("WHO");
    command->add_option("--reads", o->reads, "reads of a service process under way, at most (default: 64)")
        ->type_name("N");
    command->add_option("--chunk", o->chunk_bytes, "pieces of what is gathered (default: 64K, the product's)")
        ->transform(CLI::AsSizeValue(false).description(""))
        ->type_name("BYTES");
    command
        ->add_option("--against", o->against,
                     "the host's allgather and alltoall, as ring/pairwise (default), doubling/linear")
        ->delimiter(',')
        ->type_name("LIST");
}

void add_size(CLI::App* command, const char* name, uint64_t* at, const char* what) {
    command->add_option(name, *at, what)
        ->transform(CLI::AsSizeValue(false).description(""))
        ->type_name("BYTES");
}

void add_program_options(CLI::App* command, StepsOptions* o) {
    command->add_option("--steps", o->steps, "that are simulated (default: 3)")->type_name("N");
    command->add_option("--halos", o->halos, "of a step (default: 4)")->type_name("N");
    add_size(command, "--halo", &o->halo_bytes, "with each of up to six neighbours (default: 1M)");
    command->add_option("--allgathers", o->allgathers, "of a step (default: 1)")->type_name("N");
    add_size(command, "--allgather", &o->allgather_bytes, "that a rank gives (default: 1M)");
    command->add_option("--alltoalls", o->alltoalls, "of a step (default: 2)")->type_name("N");
    add_size(command, "--alltoall", &o->alltoall_bytes, "for each rank (default: 64K)");
    add_size(command, "--allreduce", &o->allreduce_bytes, "of the one at a step's end (default: 64)");
    const auto share = [&](const char* name, double* at, const char* what) {
        command->add_option(name, *at, what)
            ->check(CLI::Range(0.0, 100.0).description(""))
            ->type_name("PERCENT");
    };
    command
        ->add_option("--compute", o->compute_us,
                     "microseconds that a rank computes in a step (default: 10000)")
        ->check(CLI::Range(0.0, 1e9).description(""))
        ->type_name("US");
    share("--imbalance", &o->imbalance_percent, "computing takes so much more or less, at most (default: 0)");
    share("--late", &o->late_percent, "of all ranks and allgathers, so many come late (default: 0)");
    share("--late-nodes", &o->late_nodes_percent, "... so many of those with all of their node (default: 0)");
    command->add_option("--late-by", o->late_by_us, "... by at least and at most so many microseconds")
        ->delimiter(',')
        ->type_name("US,US");
}

}  // namespace

void add_simulate_steps(CLI::App& simulate, int* exit_code) {
    const auto o = std::make_shared<StepsOptions>();
    CLI::App* command = simulate.add_subcommand("steps", "A program of exchanges and computing there");
    set_usage(command, "longshore simulate steps [OPTIONS]");
    add_job_options(command, o.get());
    add_program_options(command, o.get());
    command->add_option("--set", o->set, "another value of the machine; may be repeated")
        ->type_name("KEY=VALUE");
    command->add_option("--seeds", o->seeds, "a run for each (default: 1)")
        ->delimiter(',')
        ->type_name("LIST");
    command->add_option("--json", o->json, "write all results into this file")->type_name("FILE");
    command->footer(
        R"(A step computes and exchanges halos in turn, then gathers, with late ranks, transposes (alltoall), and reduces.
Each exchange is simulated by itself; ranks enter it when they are done with the one before: docs/simulation.md.
Columns: ms of a step, means over ranks; 1st a2a: the alltoall that follows the allgathers at once; alone: an
allgather after its last rank has entered; exits: between the first and last rank that leave one.

Exit code: 0 done; 1 not enough memory, or a file cannot be written; 2 bad option or machine file.)");
    command->callback([=] { *exit_code = run(*o); });
}

}  // namespace longshore::tools
