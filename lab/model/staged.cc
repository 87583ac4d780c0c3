#include "model/staged.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "base/prng.h"
#include "model/wires.h"

namespace longshore::tools {
namespace {

using dpu_bench::Transfer;
using timed::Machine;
using timed::Place;
using timed::Side;
using timed::Time;

constexpr size_t kUnderWayMax = 64;  // as dpu-bench's movers have it

class Run;

// One that moves blocks: its core starts one transfer after the other and takes in their ends.
class Mover final : public timed::Actor, public timed::Arrivals {
  public:
    Mover(Run& run, int rank, dpu_bench::Work work) : run_(run), rank_(rank), work_(std::move(work)) {}
    void begin();
    void meet();  // all workers have come as far
    void on_event(uint64_t) override {
        busy_ = false;
        step();
    }
    void on_arrival(uint64_t) override {
        ++arrived_;
        step();
    }
    Time ended() const { return ended_; }

  private:
    void step();
    void start(const Transfer& transfer, Time cost);
    void next_phase();

    Run& run_;
    const int rank_;
    const dpu_bench::Work work_;
    size_t phase_ = 0, started_ = 0, arrived_ = 0, taken_ = 0;  // transfers of this phase
    bool busy_ = false, meets_ = false;
    Time ended_ = 0;
};

// All hosts or all workers, once.
class Run {
  public:
    Run(const StagedJob& job, const Machine& machine, bool workers)
        : job_(job),
          machine_(machine),
          wires_(machine, static_cast<uint32_t>(job.nodes), queue_, timed::Sharing::kFifo),
          prng_(mix64(job.seed)) {
        const int first = workers ? job.shape.hosts : 0;
        const int end = workers ? job.shape.ranks() : job.shape.hosts;
        for (int r = first; r < end; ++r) {
            dpu_bench::Work work =
                workers ? worker_work(job.pattern, job.assignment, job.shape, r - first, job.bytes)
                        : host_work(job.pattern, job.shape, r, job.bytes);
            movers_.push_back(std::make_unique<Mover>(*this, r, std::move(work)));
        }
    }

    Time slowest() {
        for (auto& mover : movers_) mover->begin();
        while (!queue_.empty()) queue_.step();
        Time most = 0;
        for (const auto& mover : movers_) most = std::max(most, mover->ended());
        return most;
    }

    timed::EventQueue& queue() { return queue_; }
    timed::Wires& wires() { return wires_; }
    bool is_worker(int rank) const { return job_.shape.is_worker(rank); }
    Place place_of(int rank) const {
        return {static_cast<uint32_t>(node_of(job_.shape, job_.nodes, rank)),
                is_worker(rank) ? Side::kDpu : Side::kHost};
    }
    // Starting a transfer, and taking in its end, on a host's core or a DPU's.
    Time start_cost(int rank) { return draw(is_worker(rank) ? machine_.dpu_message : machine_.mpi_send); }
    Time take_cost(int rank) { return draw(is_worker(rank) ? machine_.dpu_message : machine_.mpi_take); }

    void come_to_meeting() {
        if (++met_ < movers_.size()) return;
        met_ = 0;
        for (auto& mover : movers_) mover->meet();
    }

  private:
    Time draw(Time mean) {
        const Time most = mean * machine_.jitter_cost / 1'000'000;
        return mean - std::min(mean, most) + prng_.below(2 * most + 1);
    }

    const StagedJob& job_;
    const Machine& machine_;
    timed::EventQueue queue_;
    timed::Wires wires_;
    Prng prng_;
    std::vector<std::unique_ptr<Mover>> movers_;
    size_t met_ = 0;
};

void Mover::begin() {
    if (work_.empty()) return;
    if (work_[0].workers_meet_first) {
        meets_ = true;
        run_.come_to_meeting();
    } else {
        step();
    }
}

void Mover::meet() {
    meets_ = false;
    busy_ = true;  // until what others do at this time is done
    run_.queue().after(0, *this, 0);
}

void Mover::step() {
    if (busy_ || meets_ || phase_ == work_.size()) return;
    const std::vector<Transfer>& transfers = work_[phase_].transfers;
    if (started_ < transfers.size() && started_ - taken_ < kUnderWayMax) {
        const Time cost = run_.start_cost(rank_);
        start(transfers[started_++], cost);
        busy_ = true;
        run_.queue().after(cost, *this, 0);
    } else if (taken_ < arrived_) {
        ++taken_;
        busy_ = true;
        run_.queue().after(run_.take_cost(rank_), *this, 0);
    } else if (taken_ == transfers.size()) {
        next_phase();
    }
}

void Mover::start(const Transfer& transfer, Time cost) {
    const Place here = run_.place_of(rank_), there = run_.place_of(transfer.peer);
    if (transfer.kind == Transfer::Kind::kRead) {
        run_.wires().read(here, there, here, transfer.bytes, cost, this, 0);
    } else {
        run_.wires().send(here, there, transfer.bytes, cost, this, 0);
    }
}

void Mover::next_phase() {
    ended_ = run_.queue().now();
    started_ = arrived_ = taken_ = 0;
    if (++phase_ == work_.size()) return;
    if (work_[phase_].workers_meet_first) {
        meets_ = true;
        run_.come_to_meeting();
    } else {
        step();
    }
}

int most_on_a_node(const StagedJob& job, bool workers) {
    std::vector<int> count(static_cast<size_t>(job.nodes));
    for (int r = workers ? job.shape.hosts : 0; r < (workers ? job.shape.ranks() : job.shape.hosts); ++r)
        ++count[static_cast<size_t>(node_of(job.shape, job.nodes, r))];
    return *std::max_element(count.begin(), count.end());
}

}  // namespace

double StagedTimes::efficiency() const {
    return 100 * static_cast<double>(reference) / static_cast<double>(std::max(reference, communication));
}

std::string refusal(const StagedJob& job, const Machine& m) {
    if (std::string reason = dpu_bench::refusal(job.shape, true); !reason.empty()) return reason;
    if (static_cast<uint64_t>(job.nodes) > m.switch_ports)
        return fmt::format("the switch of {} has {} ports, and {} nodes are asked for", m.name,
                           m.switch_ports, job.nodes);
    if (const int most = most_on_a_node(job, false); static_cast<uint64_t>(most) > m.cores)
        return fmt::format("a node of {} has {} cores, and {} ranks are asked for", m.name, m.cores, most);
    if (!m.has_dpu() && most_on_a_node(job, true) != 0)
        return fmt::format("{} has no DPU for workers to run on (--workers)", m.name);
    if (const int most = most_on_a_node(job, true); static_cast<uint64_t>(most) > m.dpu_cores)
        return fmt::format("a DPU of {} has {} cores, and {} workers are asked for", m.name, m.dpu_cores,
                           most);
    return "";
}

Need need_of(const StagedJob& job) {
    constexpr double kSecondsOfTransfer = 1e-6;
    const uint64_t hosts = static_cast<uint64_t>(job.shape.hosts),
                   workers = static_cast<uint64_t>(job.shape.workers);
    // Transfers of the hosts alone, and of the workers, which read what each host gives and write what it
    // gets.
    uint64_t alone = hosts, staged = 2 * hosts + workers;
    if (job.pattern == dpu_bench::Pattern::kAllgatherLeader) alone = hosts * hosts, staged = 3 * hosts;
    if (job.pattern == dpu_bench::Pattern::kAllgatherMulti)
        alone = hosts * hosts, staged = hosts + (workers == 1 ? hosts : hosts * hosts);
    return {kSecondsOfTransfer * static_cast<double>(alone + staged),
            (16 << 20) + std::max(alone, staged) * sizeof(Transfer) * 2};  // as vectors grow
}

StagedTimes simulate_staged(const StagedJob& job, const Machine& machine) {
    return {Run(job, machine, false).slowest(), Run(job, machine, true).slowest()};
}

}  // namespace longshore::tools
