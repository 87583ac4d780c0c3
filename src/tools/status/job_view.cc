#include "tools/status/job_view.h"

#include <time.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace longshore::tools {
namespace {

// Operations that are over sooner are not worth a line.
constexpr uint64_t kPauseNs = 50'000'000;

struct SeenRecord {
    const NodeView* view;
    const NodeState* node;
    OpenRecord record;
};

Worker rank_worker_of(const NodeState& node, uint32_t local, uint32_t group_rank) {
    Worker worker{false, node.node, local, {}, group_rank, 0};
    if (local < node.ranks.size()) {
        worker.rank = node.ranks[local].rank;
        worker.pid = node.ranks[local].pid;
    }
    return worker;
}

void add_holders(const SeenRecord& seen, std::vector<Worker>* holders) {
    for (const uint32_t index : seen.record.holders) {
        Worker worker;
        if (index >= kFirstRankWorker) {
            worker = rank_worker_of(*seen.node, index - kFirstRankWorker, 0);
        } else {
            worker = {true, seen.node->node, index, {}, 0, 0};
            if (index < seen.node->services.size()) worker.pid = seen.node->services[index].pid;
        }
        const bool known = std::any_of(holders->begin(), holders->end(), [&](const Worker& other) {
            return other.is_service == worker.is_service && other.node == worker.node &&
                   other.index == worker.index;
        });
        if (!known) holders->push_back(worker);
    }
}

std::vector<SeenRecord> read_records(const std::vector<const NodeView*>& views, const JobState& job,
                                     uint64_t pause_ns) {
    std::vector<SeenRecord> seen;
    for (size_t i = 0; i < views.size(); ++i) {
        for (OpenRecord& record : views[i]->open_records())
            seen.push_back({views[i], &job.nodes[i], std::move(record)});
    }
    if (seen.empty()) return seen;
    const timespec pause{0, static_cast<long>(pause_ns)};
    nanosleep(&pause, nullptr);
    std::erase_if(seen, [](const SeenRecord& one) { return !one.view->still_open(one.record); });
    return seen;
}

}  // namespace

JobState join_nodes(const std::vector<const NodeView*>& views, const std::vector<int>& supervisors,
                    uint64_t pause_ns) {
    JobState job;
    for (size_t i = 0; i < views.size(); ++i) {
        const NodeView& view = *views[i];
        if (i == 0) {
            job.id = view.job();
            job.size = view.job_size();
            job.node_count = view.node_count();
            job.wait_report_s = view.wait_report_s();
        }
        job.nodes.push_back({supervisors[i], view.node(), view.services(), view.ranks(), {}});
    }
    using Key = std::tuple<uint64_t, uint64_t>;
    std::map<Key, OperationState> operations;
    const uint64_t now = now_ns();
    for (const SeenRecord& seen : read_records(views, job, pause_ns)) {
        const RecordLook& look = seen.record.look;
        OperationState& op = operations[{seen.record.group, look.sequence}];
        op.collective = look.collective;
        op.group = seen.record.group;
        op.sequence = look.sequence;
        op.size = look.size;
        add_holders(seen, &op.holders);
        if (!seen.record.started_ns || *seen.record.started_ns > now) continue;
        const double open_s = static_cast<double>(now - *seen.record.started_ns) * 1e-9;
        op.open_s = std::max(op.open_s.value_or(0), open_s);
        op.late = job.wait_report_s != 0 && *op.open_s > job.wait_report_s;
    }
    for (auto& [key, op] : operations) {
        for (size_t i = 0; i < views.size(); ++i) {
            for (const MemberView& member : views[i]->members(op.group, op.sequence))
                (member.entered ? op.entered : op.missing)
                    .push_back(rank_worker_of(job.nodes[i], member.local, member.group_rank));
        }
        job.operations.push_back(std::move(op));
    }
    std::stable_sort(job.operations.begin(), job.operations.end(), [](const auto& a, const auto& b) {
        return a.open_s.value_or(0) > b.open_s.value_or(0);
    });
    return job;
}

std::vector<JobState> find_jobs(const std::vector<int>& supervisors) {
    std::vector<std::unique_ptr<NodeView>> views;
    std::map<std::tuple<uint64_t, int>, std::vector<std::pair<const NodeView*, int>>> jobs;
    for (const int pid : supervisors) {
        auto view = NodeView::open(pid);
        if (!view) continue;
        const uint64_t id = view->job();
        jobs[{id, id == 0 ? pid : 0}].emplace_back(view.get(), pid);
        views.push_back(std::move(view));
    }
    std::vector<JobState> found;
    for (auto& [key, nodes] : jobs) {
        std::sort(nodes.begin(), nodes.end(),
                  [](const auto& a, const auto& b) { return a.first->node() < b.first->node(); });
        std::vector<const NodeView*> of_job;
        std::vector<int> pids;
        for (const auto& [view, pid] : nodes) of_job.push_back(view), pids.push_back(pid);
        found.push_back(join_nodes(of_job, pids, kPauseNs));
        for (NodeState& node : found.back().nodes) node.files = find_files(node.supervisor);
    }
    return found;
}

}  // namespace longshore::tools
