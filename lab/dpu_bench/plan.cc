#include "dpu_bench/plan.h"

#include <algorithm>
#include <cstdint>

namespace longshore::dpu_bench {
namespace {

constexpr int kRoot = 0;
constexpr int kLeader = 0;  // a worker's number, not a rank

bool has_root(Pattern pattern) {
    return pattern == Pattern::kBcast || pattern == Pattern::kGather;
}

Transfer read(int peer, std::size_t remote, std::size_t local, std::size_t bytes) {
    return {Transfer::Kind::kRead, peer, remote, local, bytes};
}

Transfer write(int peer, std::size_t remote, std::size_t local, std::size_t bytes) {
    return {Transfer::Kind::kWrite, peer, remote, local, bytes};
}

// A run of neighbouring slots.
struct Run {
    int first, count;
};

std::vector<Run> runs_of(const std::vector<int>& slots) {
    std::vector<Run> runs;
    for (const int slot : slots) {
        if (!runs.empty() && runs.back().first + runs.back().count == slot)
            ++runs.back().count;
        else
            runs.push_back({slot, 1});
    }
    return runs;
}

// One worker's view of a pattern: where its slots lie, and where those of others do.
class Staging {
  public:
    Staging(const Shape& shape, int worker, std::size_t bytes, std::vector<int> served)
        : shape_(shape), worker_(worker), bytes_(bytes), served_(std::move(served)) {}

    const std::vector<int>& served() const { return served_; }
    std::size_t mine(int slot) const {
        return slot_offset(shape_, shape_.worker_rank(worker_), slot, bytes_);
    }
    std::size_t at(int rank, int slot) const { return slot_offset(shape_, rank, slot, bytes_); }

    Phase read_blocks_given(const std::vector<int>& hosts) const {
        Phase phase;
        for (const int host : hosts) phase.transfers.push_back(read(host, 0, mine(host), bytes_));
        return phase;
    }

    // Neighbouring blocks go in one write.
    void write_blocks(int rank, const std::vector<int>& blocks, Phase* phase) const {
        for (const Run& run : runs_of(blocks))
            phase->transfers.push_back(
                write(rank, at(rank, run.first), mine(run.first), bytes_ * std::size_t(run.count)));
    }

  private:
    Shape shape_;
    int worker_;
    std::size_t bytes_;
    std::vector<int> served_;
};

std::vector<int> all_hosts(const Shape& shape) {
    std::vector<int> hosts;
    for (int host = 0; host < shape.hosts; ++host) hosts.push_back(host);
    return hosts;
}

Work bcast_work(const Staging& staging) {
    Phase deliver;
    for (const int host : staging.served()) staging.write_blocks(host, {kRoot}, &deliver);
    return {staging.read_blocks_given({kRoot}), deliver};
}

Work gather_work(const Staging& staging) {
    Phase deliver;
    for (const int host : staging.served()) staging.write_blocks(kRoot, {host}, &deliver);
    return {staging.read_blocks_given(staging.served()), deliver};
}

Work leader_work(const Staging& staging, const Shape& shape, int worker) {
    Phase hand_in, deliver;
    if (worker != kLeader) {
        for (const int host : staging.served())
            staging.write_blocks(shape.worker_rank(kLeader), {host}, &hand_in);
    } else {
        for (const int host : all_hosts(shape)) staging.write_blocks(host, all_hosts(shape), &deliver);
    }
    deliver.workers_meet_first = shape.workers > 1;
    return {staging.read_blocks_given(staging.served()), hand_in, deliver};
}

Work multi_work(const Staging& staging, const Shape& shape) {
    Phase deliver;
    for (const int host : all_hosts(shape)) staging.write_blocks(host, staging.served(), &deliver);
    return {staging.read_blocks_given(staging.served()), deliver};
}

}  // namespace

const char* to_string(Pattern pattern) {
    switch (pattern) {
        case Pattern::kBcast:
            return "bcast";
        case Pattern::kGather:
            return "gather";
        case Pattern::kAllgatherLeader:
            return "allgather-leader";
        case Pattern::kAllgatherMulti:
            return "allgather-multi";
    }
    return "?";
}

const char* to_string(Assignment assignment) {
    return assignment == Assignment::kCyclic ? "cyclic" : "block";
}

std::string refusal(const Shape& shape, bool allow_equal) {
    const bool equal = shape.workers == shape.hosts;
    if (shape.hosts >= 2 && shape.workers >= 1 && (shape.workers < shape.hosts || (allow_equal && equal)))
        return "";
    const std::string numbers = std::to_string(shape.workers) + " of " + std::to_string(shape.ranks()) +
                                " ranks as workers leave " + std::to_string(std::max(0, shape.hosts)) +
                                " as hosts";
    const std::string exception = equal ? " (--allow-equal lets in as many as hosts)" : "";
    return numbers + "; it takes 2 hosts and 1 worker, and workers are at most half of all ranks" +
           " and fewer than the hosts" + exception;
}

bool has_assignment(Pattern pattern, Assignment assignment) {
    return pattern != Pattern::kAllgatherMulti || assignment == Assignment::kCyclic;
}

std::vector<int> hosts_of(Pattern pattern, Assignment assignment, const Shape& shape, int worker) {
    const int first = has_root(pattern) ? kRoot + 1 : 0;
    // The interval counts the root, as in the paper's formula, so a root leaves the last worker one host
    // short.
    const int turn = assignment == Assignment::kCyclic ? 1 : std::max(1, shape.hosts / shape.workers);
    std::vector<int> served;
    for (int host = first; host < shape.hosts; ++host)
        if ((host - first) / turn % shape.workers == worker) served.push_back(host);
    return served;
}

Work worker_work(Pattern pattern, Assignment assignment, const Shape& shape, int worker, std::size_t bytes) {
    const Staging staging(shape, worker, bytes, hosts_of(pattern, assignment, shape, worker));
    switch (pattern) {
        case Pattern::kBcast:
            return bcast_work(staging);
        case Pattern::kGather:
            return gather_work(staging);
        case Pattern::kAllgatherLeader:
            return leader_work(staging, shape, worker);
        case Pattern::kAllgatherMulti:
            return multi_work(staging, shape);
    }
    return {};
}

Work host_work(Pattern pattern, const Shape& shape, int host, std::size_t bytes) {
    Phase phase;
    for (const int other : all_hosts(shape)) {
        if (pattern == Pattern::kGather) {
            if (host == kRoot && other != kRoot)
                phase.transfers.push_back(read(other, 0, slot_offset(shape, host, other, bytes), bytes));
        } else if (pattern != Pattern::kBcast || (host == kRoot && other != kRoot)) {
            phase.transfers.push_back(write(other, slot_offset(shape, other, host, bytes), 0, bytes));
        }
    }
    return {phase};
}

std::size_t region_bytes(Pattern pattern, const Shape& shape, int rank, std::size_t bytes) {
    if (pattern == Pattern::kBcast) return shape.is_worker(rank) ? bytes : 2 * bytes;
    if (shape.is_worker(rank)) return bytes * std::size_t(shape.hosts);
    if (pattern == Pattern::kGather && rank != kRoot) return bytes;
    return bytes * std::size_t(shape.hosts + 1);
}

std::size_t slot_offset(const Shape& shape, int rank, int slot, std::size_t bytes) {
    return bytes * std::size_t(slot + (shape.is_worker(rank) ? 0 : 1));
}

std::vector<int> filled_slots(Pattern pattern, const Shape& shape, int rank) {
    if (shape.is_worker(rank)) return {};
    if (pattern == Pattern::kBcast) return rank == kRoot ? std::vector<int>{} : std::vector<int>{kRoot};
    if (pattern == Pattern::kGather && rank != kRoot) return {};
    std::vector<int> slots = all_hosts(shape);
    if (pattern == Pattern::kGather) slots.erase(slots.begin());
    return slots;
}

int node_of(const Shape& shape, int nodes, int rank) {
    if (!shape.is_worker(rank)) return static_cast<int>(int64_t{rank} * nodes / shape.hosts);
    const int worker = rank - shape.hosts;
    return shape.workers <= nodes ? worker : static_cast<int>(int64_t{worker} * nodes / shape.workers);
}

double share_between_nodes(Pattern pattern, Assignment assignment, const Shape& shape, int nodes) {
    double all = 0, between = 0;
    for (int worker = 0; worker < shape.workers; ++worker) {
        const int home = node_of(shape, nodes, shape.worker_rank(worker));
        for (const Phase& phase : worker_work(pattern, assignment, shape, worker, 1)) {
            for (const Transfer& transfer : phase.transfers) {
                all += double(transfer.bytes);
                if (node_of(shape, nodes, transfer.peer) != home) between += double(transfer.bytes);
            }
        }
    }
    return all > 0 ? between / all : 0;
}

}  // namespace longshore::dpu_bench
