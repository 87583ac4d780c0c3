// What 'longshore simulate' runs: each size with each number of service processes and each placement, then
// each contender, and what came of it.
#pragma once

#include <string>
#include <vector>

#include "model/host_mpi.h"
#include "model/need.h"

namespace longshore::tools {

struct SimulateOptions {
    std::string machine = "mpcdf-bf3", collective = "ialltoallv", handover = "as-built", sharing = "fifo",
                progress = "calls", memory = "alias", algorithm = "direct", groups = "world",
                services_on;  // empty: dpu, where the machine has one, else host
    std::vector<uint64_t> sizes{65536};
    std::vector<uint32_t> services;  // none: 4, or as many as a node has ranks
    std::vector<std::string> placements{"contiguous"}, against, set;
    uint32_t nodes = 32, ranks_per_node = 32, reads = 64, warm_up = 1, iterations = 3;
    std::vector<uint64_t> seeds{1};
    double test_every_us = 100, compute_us = 0;
    bool overlap = false, mirrored = false;
    std::string json, plot;
};

// One run, and with --overlap another one whose ranks compute as long as the first took.
struct SimulatedRow {
    std::string who;  // "longshore" or the name of a contender's algorithm
    std::string placement;
    uint32_t services = 0;  // 0: a contender
    uint64_t bytes = 0, seed = 1;
    timed::Outcome pure;
    double overlap_percent = -1;  // -1: not asked for
    timed::Time together = 0;     // of the run whose ranks compute, as mean
    double wall_seconds = 0;
};

// "" or why the options make no sense. Fills in the machine.
std::string prepare(const SimulateOptions& options, timed::Machine* machine);

// How many service processes a node has, in each of the runs.
std::vector<uint32_t> services_of(const SimulateOptions& options);

// "dpu" or "host"; empty: on DPUs, where the machine has them.
timed::ServicePlace service_place(const std::string& name, const timed::Machine& machine);

class SimulatePlan {
  public:
    SimulatePlan(const SimulateOptions& options, const timed::Machine& machine);
    // "" or what is wrong with the first of the runs that cannot be.
    std::string refusal() const;
    // Memory of the largest of the runs, time of all.
    Need need() const;
    // About how many seconds of a core each of them takes.
    std::vector<double> seconds_expected() const;
    size_t size() const { return runs_.size(); }
    // Carries out one run; `watcher` hears of its progress.
    SimulatedRow run(size_t number, timed::Watcher* watcher) const;
    std::string label(size_t number) const;

  private:
    struct Run {
        timed::Job job;
        const timed::HostAlgorithm* contender = nullptr;
    };
    void add(const timed::Job& job, const SimulateOptions& options);
    std::vector<Run> runs_;
    bool overlap_;
    timed::Time compute_ = 0;  // of each rank; 0: as long as it took alone
};

}  // namespace longshore::tools
