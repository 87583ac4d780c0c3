#include "model/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "model/machine_file.h"
#include "model/machine_path.h"

namespace longshore::tools {
namespace {

using timed::Handover;
using timed::HostAlgorithm;
using timed::Job;
using timed::Machine;
using timed::Outcome;
using timed::Placement;
using timed::Time;

// As "ialltoallv" or "alltoallv": both are the same here, as ranks wait at once unless they compute.
bool find_collective(std::string name, Collective* out) {
    if (name.starts_with("i")) name.erase(0, 1);
    for (const Collective c : {Collective::kAlltoall, Collective::kAlltoallv, Collective::kAllgather,
                               Collective::kAllgatherv, Collective::kBcast}) {
        *out = c;
        if (name == rules_of(c).name) return true;
    }
    return false;
}

// What of the carrying ranks do not notice, as the OSU benchmarks say it: each rank computes as long as it
// took alone, or so long, and means over ranks are compared.
double overlap_of(Time pure, Time together, Time compute) {
    const double left = static_cast<double>(together) - static_cast<double>(compute != 0 ? compute : pure);
    return std::max(0.0, 100 - 100 * left / static_cast<double>(pure));
}

Outcome carry_out(const Job& job, const HostAlgorithm* contender, timed::Watcher* watcher) {
    return contender != nullptr ? timed::simulate_host(job, *contender, watcher)
                                : timed::simulate_offloaded(job, watcher);
}

// The second half of a run is the one in which ranks compute.
class HalfWatcher final : public timed::Watcher {
  public:
    HalfWatcher(timed::Watcher* to, double begin, double share) : to_(to), begin_(begin), share_(share) {}
    void on_progress(double part) override {
        if (to_ != nullptr) to_->on_progress(begin_ + share_ * part);
    }

  private:
    timed::Watcher* to_;
    double begin_, share_;
};

}  // namespace

std::string prepare(const SimulateOptions& options, Machine* machine) {
    const std::string path = machine_path(options.machine);
    if (!is_file(path))
        return fmt::format("{}: neither a file nor a machine that is known here ({})", options.machine,
                           known_machines());
    if (std::string wrong = timed::read_machine(path, machine); !wrong.empty()) return wrong;
    for (const std::string& one : options.set)
        if (std::string wrong = timed::set_value(machine, one); !wrong.empty()) return "--set " + wrong;
    Collective collective;
    if (!find_collective(options.collective, &collective))
        return fmt::format(
            "--collective {}: expected is alltoall, alltoallv, allgather, allgatherv or bcast, with or "
            "without an i before it",
            options.collective);
    for (const std::string& name : options.against) {
        const HostAlgorithm* one = timed::find_host_algorithm(name);
        if (name != "host" && one == nullptr) return fmt::format("--against {}: not known", name);
        if (one != nullptr && !timed::fits(*one, collective))
            return fmt::format("--against {}: it is not for {}; 'host' takes all that are", name,
                               options.collective);
    }
    if (options.memory == "staging" && options.handover == "once")
        return "--handover once: with --memory staging nothing is copied between ranks but by the DPU";
    return "";
}

timed::ServicePlace service_place(const std::string& name, const Machine& machine) {
    const bool on_dpu = name.empty() ? machine.has_dpu() : name == "dpu";
    return on_dpu ? timed::ServicePlace::kDpu : timed::ServicePlace::kHost;
}

SimulatePlan::SimulatePlan(const SimulateOptions& options, const Machine& machine)
    : overlap_(options.overlap || options.compute_us != 0),
      compute_(static_cast<Time>(std::llround(options.compute_us * timed::kMicrosecond))) {
    Job job;
    job.machine = machine;
    job.service_place = service_place(options.services_on, machine);
    job.nodes = options.nodes;
    job.ranks_per_node = options.ranks_per_node;
    find_collective(options.collective, &job.collective);
    job.reads_max = options.reads;
    job.handover = options.handover == "once"  ? Handover::kOnce
                   : options.handover == "dpu" ? Handover::kDpu
                                               : Handover::kAsBuilt;
    job.groups = options.groups == "columns" ? timed::Groups::kColumns : timed::Groups::kWorld;
    job.memory = options.memory == "staging" ? timed::Memory::kStaging : timed::Memory::kAlias;
    job.algorithm = options.algorithm == "staged"                ? Algorithm::kStaged
                    : options.algorithm == "staged-hierarchical" ? Algorithm::kStagedHierarchical
                                                                 : Algorithm::kDirect;
    job.sharing = options.sharing == "fifo" ? timed::Sharing::kFifo : timed::Sharing::kMaxMin;
    job.progress = options.progress == "thread"  ? timed::HostProgress::kThread
                   : options.progress == "tests" ? timed::HostProgress::kTests
                                                 : timed::HostProgress::kInCalls;
    job.test_every = static_cast<Time>(std::llround(options.test_every_us * timed::kMicrosecond));
    job.mirrored = options.mirrored;
    job.warm_up = options.warm_up;
    job.iterations = options.iterations;
    for (const uint64_t bytes : options.sizes) {
        job.block_bytes = bytes;
        for (const std::string& placement : options.placements) {
            job.placement = placement == "strided" ? Placement::kStrided : Placement::kContiguous;
            add(job, options);
        }
    }
}

std::vector<uint32_t> services_of(const SimulateOptions& options) {
    if (!options.services.empty()) return options.services;
    return {std::min(4u, std::max(1u, options.ranks_per_node))};
}

void SimulatePlan::add(const Job& base, const SimulateOptions& options) {
    Job job = base;
    const auto with_seeds = [&](const HostAlgorithm* contender) {
        for (const uint64_t seed : options.seeds) {
            job.seed = seed;
            runs_.push_back({job, contender});
        }
    };
    for (const uint32_t services : services_of(options)) {
        job.services = services;
        with_seeds(nullptr);
    }
    job.services = 1;
    job.mirrored = false;  // the host's ranks are all simulated
    for (const HostAlgorithm& one : timed::host_algorithms()) {
        const bool asked_for =
            std::any_of(options.against.begin(), options.against.end(),
                        [&](const auto& name) { return name == "host" || name == one.name; });
        const bool by_name =
            std::find(options.against.begin(), options.against.end(), one.name) != options.against.end();
        // 'host' leaves out what cannot be with so many ranks.
        if (asked_for && timed::fits(one, job.collective) && (by_name || one.possible(job))) with_seeds(&one);
    }
}

std::string SimulatePlan::refusal() const {
    for (const Run& run : runs_)
        if (std::string wrong = timed::refusal(run.job); !wrong.empty()) {
            return wrong;
        } else if (run.contender != nullptr && !run.contender->possible(run.job)) {
            return fmt::format("--against {}: not with {} ranks; {}", run.contender->name, run.job.ranks(),
                               run.contender->meaning);
        }
    return "";
}

Need SimulatePlan::need() const {
    Need need;
    for (const Run& run : runs_)
        need.memory_bytes = std::max(
            need.memory_bytes, run.contender != nullptr ? timed::host_memory_needed(run.job, *run.contender)
                                                        : timed::memory_needed(run.job));
    for (const double seconds : seconds_expected()) need.seconds += seconds;
    return need;
}

std::vector<double> SimulatePlan::seconds_expected() const {
    std::vector<double> seconds;
    for (const Run& run : runs_)
        seconds.push_back((run.contender != nullptr ? timed::host_seconds_expected(run.job, *run.contender)
                                                    : timed::seconds_expected(run.job)) *
                          (overlap_ ? 2 : 1));
    return seconds;
}

std::string SimulatePlan::label(size_t number) const {
    const Run& run = runs_[number];
    const std::string who = run.contender != nullptr
                                ? std::string(run.contender->name)
                                : fmt::format("longshore, {} service processes", run.job.services);
    return fmt::format("{}, {} B, {}", who, run.job.block_bytes,
                       run.job.placement == Placement::kStrided ? "strided" : "contiguous");
}

SimulatedRow SimulatePlan::run(size_t number, timed::Watcher* watcher) const {
    const Run& run = runs_[number];
    const auto begin = std::chrono::steady_clock::now();
    SimulatedRow row;
    row.who = run.contender != nullptr ? run.contender->name : "longshore";
    row.placement = run.job.placement == Placement::kStrided ? "strided" : "contiguous";
    row.services = run.contender != nullptr ? 0 : run.job.services;
    row.bytes = run.job.block_bytes;
    row.seed = run.job.seed;
    HalfWatcher first(watcher, 0, overlap_ ? 0.5 : 1), second(watcher, 0.5, 0.5);
    row.pure = carry_out(run.job, run.contender, &first);
    if (overlap_) {
        Job job = run.job;
        job.compute = row.pure.latency.ranks;
        if (compute_ != 0) job.compute.assign(job.ranks(), compute_);
        const Outcome together = carry_out(job, run.contender, &second);
        row.together = together.latency.mean;
        row.overlap_percent = overlap_of(row.pure.latency.mean, together.latency.mean, compute_);
    }
    row.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return row;
}

}  // namespace longshore::tools
