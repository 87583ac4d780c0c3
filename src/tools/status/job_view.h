// The jobs of this user on this machine, put together from the memory of their nodes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/status/files_view.h"
#include "tools/status/node_view.h"

namespace longshore::tools {

struct NodeState {
    int supervisor = 0;  // pid
    uint32_t node = 0;
    std::vector<ServiceView> services;
    std::vector<RankView> ranks;
    std::vector<FilesView> files;  // of ranks whose files are written behind
};

// A rank of the job or (service) a service process.
struct Worker {
    bool is_service = false;
    uint32_t node = 0, index = 0;  // service process, or rank on its node
    std::optional<uint32_t> rank;  // in the job
    uint32_t group_rank = 0;
    uint32_t pid = 0;
};

struct OperationState {
    Collective collective = Collective::kAlltoall;
    uint64_t group = 0, sequence = 0;
    uint32_t size = 0;
    std::vector<Worker> entered, missing;  // members, as far as their nodes are seen
    std::vector<Worker> holders;           // of claims on its chunks
    std::optional<double> open_s;          // since the first rank entered that has waited for it
    bool late = false;                     // longer than LONGSHORE_WAIT_REPORT_S
};

struct JobState {
    uint64_t id = 0;  // 0: still starting
    uint32_t size = 0, node_count = 0, wait_report_s = 0;
    std::vector<NodeState> nodes;
    std::vector<OperationState> operations;  // open for a moment at least, the oldest first
};

// `supervisors`: pids; those without a readable node are left out.
std::vector<JobState> find_jobs(const std::vector<int>& supervisors);

// What find_jobs does for the nodes of one job; operations are those that are open before and after pause_ns.
JobState join_nodes(const std::vector<const NodeView*>& views, const std::vector<int>& supervisors,
                    uint64_t pause_ns);

}  // namespace longshore::tools
