// longshore simulate dpu-bench: what 'longshore dpu-bench' measures, on a machine that a file describes.
#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/output_file.h"
#include "base/text.h"
#include "model/machine_file.h"
#include "model/machine_path.h"
#include "model/plan.h"
#include "model/progress_bar.h"
#include "model/staged.h"
#include "model/subcommands.h"
#include "tools/run/launch.h"

namespace longshore::tools {
namespace {

struct Options {
    std::string machine = "thor-bf2", json;
    std::vector<std::string> set;
    int nodes = 8, hosts = 64;
    std::vector<int> workers{1, 2, 4, 8, 16, 32, 48, 64};
    std::vector<uint64_t> sizes{1024, 65536, 1 << 20};
};

int refuse(const std::string& what) {
    fmt::print(stderr, "longshore simulate dpu-bench: {}\n", what);
    return kUsage;
}

std::vector<StagedJob> jobs_of(const Options& options) {
    std::vector<StagedJob> jobs;
    for (const dpu_bench::Pattern pattern : dpu_bench::kPatterns)
        for (const dpu_bench::Assignment assignment : dpu_bench::kAssignments) {
            if (!has_assignment(pattern, assignment)) continue;
            for (const int workers : options.workers)
                for (const uint64_t bytes : options.sizes)
                    jobs.push_back({{options.hosts, workers}, options.nodes, pattern, assignment, bytes, 1});
        }
    return jobs;
}

int run(const Options& options) {
    timed::Machine machine;
    if (const std::string wrong = timed::read_machine(machine_path(options.machine), &machine);
        !wrong.empty())
        return refuse(wrong);
    for (const std::string& one : options.set)
        if (const std::string wrong = timed::set_value(&machine, one); !wrong.empty())
            return refuse("--set " + wrong);
    if (options.nodes < 1 || options.hosts < options.nodes)
        return refuse("--nodes: at least one, and not more than --hosts");
    const std::vector<StagedJob> jobs = jobs_of(options);
    for (const StagedJob& job : jobs)
        if (const std::string wrong = refusal(job, machine); !wrong.empty()) return refuse(wrong);
    Need need;
    std::vector<double> seconds;  // of each job
    for (const StagedJob& job : jobs) {
        const Need one = need_of(job);
        need.memory_bytes = std::max(need.memory_bytes, one.memory_bytes);
        need.seconds += one.seconds;
        seconds.push_back(one.seconds);
    }
    if (!can_write("--json", options.json)) return kFailed;
    if (!check_need("longshore simulate dpu-bench", need)) return kFailed;
    ProgressBar bar(seconds);
    fmt::print("# {} ({})\n# {} hosts on {} nodes; times in us\n", machine.name, machine.title, options.hosts,
               options.nodes);
    fmt::print("{:>18} {:>10} {:>8} {:>8} {:>12} {:>12} {:>6}\n", "pattern", "assignment", "workers", "bytes",
               "reference", "pure comm", "eff %");
    nlohmann::json results = {{"machine", machine.name},
                              {"nodes", options.nodes},
                              {"hosts", options.hosts},
                              {"rows", nlohmann::json::array()}};
    for (size_t i = 0; i < jobs.size(); ++i) {
        const StagedJob& job = jobs[i];
        bar.begin(i,
                  fmt::format("{}, {} workers, {} B", to_string(job.pattern), job.shape.workers, job.bytes));
        const StagedTimes times = simulate_staged(job, machine);
        bar.clear();
        const auto us = [](timed::Time time) { return static_cast<double>(time) / 1e6; };
        fmt::print("{:>18} {:>10} {:>8} {:>8} {:>12.1f} {:>12.1f} {:>6.1f}\n", to_string(job.pattern),
                   to_string(job.assignment), job.shape.workers, show_size(job.bytes), us(times.reference),
                   us(times.communication), times.efficiency());
        results["rows"].push_back({{"pattern", to_string(job.pattern)},
                                   {"assignment", to_string(job.assignment)},
                                   {"workers", job.shape.workers},
                                   {"bytes", job.bytes},
                                   {"reference_us", us(times.reference)},
                                   {"pure_comm_us", us(times.communication)},
                                   {"efficiency_percent", times.efficiency()}});
    }
    if (options.json.empty()) return kOk;
    std::string error;
    if (write_output_file(options.json, results.dump(1) + "\n", &error)) return kOk;
    fmt::print(stderr, "longshore simulate dpu-bench: cannot write {}\n", error);
    return kFailed;
}

}  // namespace

void add_simulate_staged(CLI::App& simulate, int* exit_code) {
    const auto o = std::make_shared<Options>();
    CLI::App* command =
        simulate.add_subcommand("dpu-bench", "What 'longshore dpu-bench' would measure there");
    set_usage(command, "longshore simulate dpu-bench [OPTIONS]");
    command->footer(
        R"(Hosts move the blocks of a collective themselves (reference), or workers on the DPUs through memory of their own
(pure comm) while hosts compute for as long: docs/dpu-bench.md. All patterns and assignments are run.

Exit code: 0 done; 1 not enough memory, or a file cannot be written; 2 bad option or machine file.)");
    command->add_option("--machine", o->machine, "a machine file, or one that is known (default: thor-bf2)")
        ->type_name("MACHINE");
    command->add_option("--nodes", o->nodes, "with a DPU each (default: 8)")->type_name("N");
    command->add_option("--hosts", o->hosts, "processes that compute, of all nodes (default: 64)")
        ->type_name("N");
    command->add_option("--workers", o->workers, "of all nodes (default: 1,2,4,8,16,32,48,64)")
        ->delimiter(',')
        ->type_name("LIST");
    command->add_option("--sizes", o->sizes, "bytes of a block (default: 1K,64K,1M)")
        ->delimiter(',')
        ->transform(CLI::AsSizeValue(false).description(""))
        ->type_name("LIST");
    command->add_option("--set", o->set, "another value of the machine; may be repeated")
        ->type_name("KEY=VALUE");
    command->add_option("--json", o->json, "write all results into this file")->type_name("FILE");
    command->callback([=] { *exit_code = run(*o); });
}

}  // namespace longshore::tools
