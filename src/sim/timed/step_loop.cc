#include "sim/timed/step_loop.h"

#include <algorithm>
#include <numeric>

#include "base/prng.h"

namespace longshore::timed {
namespace {

constexpr uint64_t kMillion = 1'000'000;

class Run {
  public:
    Run(const StepLoop& loop, const StepContender& host)
        : loop_(loop), host_(host), at_(loop.job.ranks(), 0), prng_(mix64(loop.seed)) {}

    StepTimes run(Watcher* watcher) {
        for (uint32_t step = 0; step < loop_.steps; ++step) {
            this->step();
            if (watcher != nullptr) watcher->on_progress((step + 1.0) / loop_.steps);
        }
        return means();
    }

  private:
    void step();
    void exchange(StepPart part, const HostAlgorithm& algorithm, uint64_t bytes);
    // By the product, where no algorithm is given.
    void collective(StepPart part, Collective collective, const HostAlgorithm* algorithm, uint64_t bytes);
    void take(StepPart part, const Outcome& out);
    void compute();
    void come_late();
    void add(StepPart part, uint64_t time) { sums_[static_cast<size_t>(part)] += time; }
    Job job_of(uint64_t bytes);
    StepTimes means() const;

    const StepLoop& loop_;
    const StepContender host_;
    std::vector<Time> at_;  // by rank
    Prng prng_;
    uint64_t exchanges_ = 0;
    // Of all ranks.
    std::array<uint64_t, kStepParts> sums_{};
    uint64_t first_alltoall_ = 0;
    // Of all allgathers.
    uint64_t alone_ = 0, exits_ = 0;
    uint64_t bytes_ = 0;
};

void Run::step() {
    const HostAlgorithm& halo = *find_host_algorithm("halo");
    for (uint32_t i = 0; i < loop_.halos; ++i) {
        compute();
        exchange(StepPart::kHalo, halo, loop_.halo_bytes);
    }
    for (uint32_t i = 0; i < loop_.allgathers; ++i) {
        come_late();
        const Time last = *std::max_element(at_.begin(), at_.end());
        collective(StepPart::kAllgather, Collective::kAllgatherv, host_.allgather, loop_.allgather_bytes);
        const auto [first_out, last_out] = std::minmax_element(at_.begin(), at_.end());
        exits_ += *last_out - *first_out;
        for (const Time out : at_) alone_ += (out - std::min(out, last)) / at_.size();
    }
    for (uint32_t i = 0; i < loop_.alltoalls; ++i) {
        const uint64_t before = sums_[static_cast<size_t>(StepPart::kAlltoall)];
        collective(StepPart::kAlltoall, Collective::kAlltoall, host_.alltoall, loop_.alltoall_bytes);
        if (i != 0) continue;
        first_alltoall_ += sums_[static_cast<size_t>(StepPart::kAlltoall)] - before;
        compute();
    }
    exchange(StepPart::kAllreduce, *find_host_algorithm("dissemination"), loop_.allreduce_bytes);
}

// A part of a step's computing: one before each halo and one after the first alltoall.
void Run::compute() {
    const Time part = loop_.compute / (loop_.halos + (loop_.alltoalls != 0 ? 1 : 0));
    const Time most = part / kMillion * loop_.imbalance;
    for (Time& at : at_) {
        const Time time = part - most + prng_.below(2 * most + 1);
        at += time;
        add(StepPart::kCompute, time);
    }
}

// Some nodes, and some ranks of the others, so that a rank is late in `late` of all allgathers.
void Run::come_late() {
    const Job& job = loop_.job;
    const uint64_t nodes = loop_.late * loop_.late_nodes / kMillion;
    const uint64_t alone = nodes < kMillion ? (loop_.late - nodes) * kMillion / (kMillion - nodes) : 0;
    const auto draw = [&](uint64_t share) -> Time {
        const Time time = prng_.between(loop_.late_least, loop_.late_most);
        return prng_.below(kMillion) < share ? time : 0;
    };
    for (uint32_t n = 0; n < job.nodes; ++n) {
        const Time of_node = draw(nodes);
        for (uint32_t l = 0; l < job.ranks_per_node; ++l) {
            const Time own = draw(alone), time = of_node != 0 ? of_node : own;
            at_[job.rank_at(n, l)] += time;
            add(StepPart::kLate, time);
        }
    }
}

// One iteration, into which ranks come as they are there, the first one at once.
Job Run::job_of(uint64_t bytes) {
    Job job = loop_.job;
    job.block_bytes = bytes;
    job.warm_up = 0;
    job.iterations = 1;
    job.compute.clear();
    job.seed = mix64(loop_.seed + ++exchanges_);
    const Time begin = *std::min_element(at_.begin(), at_.end());
    for (const Time at : at_) job.enter.push_back(at - begin);
    return job;
}

void Run::take(StepPart part, const Outcome& out) {
    for (size_t r = 0; r < at_.size(); ++r) {
        at_[r] += out.latency.ranks[r];
        add(part, out.latency.ranks[r]);
    }
    bytes_ += out.network_bytes;
}

void Run::exchange(StepPart part, const HostAlgorithm& algorithm, uint64_t bytes) {
    take(part, simulate_host(job_of(bytes), algorithm));
}

void Run::collective(StepPart part, Collective collective, const HostAlgorithm* algorithm, uint64_t bytes) {
    Job job = job_of(bytes);
    job.collective = collective;
    if (part == StepPart::kAllgather) job.chunk_bytes = loop_.allgather_chunk_bytes;
    take(part, algorithm != nullptr ? simulate_host(job, *algorithm) : simulate_offloaded(job));
}

StepTimes Run::means() const {
    StepTimes out;
    const uint64_t ranks = at_.size(), all = ranks * loop_.steps;
    for (size_t p = 0; p < kStepParts; ++p) out.parts[p] = sums_[p] / all;
    out.wall = std::accumulate(at_.begin(), at_.end(), Time{0}) / all;
    out.first_alltoall = first_alltoall_ / all;
    const uint64_t allgathers = uint64_t{loop_.steps} * std::max(1u, loop_.allgathers);
    out.allgather_alone = alone_ / allgathers;
    out.exits = exits_ / allgathers;
    out.bytes_between_nodes = bytes_ / loop_.steps;
    return out;
}

}  // namespace

const char* name_of(StepPart part) {
    constexpr const char* kNames[kStepParts] = {"halo",      "allgather", "alltoall",
                                                "allreduce", "late",      "compute"};
    return kNames[static_cast<size_t>(part)];
}

Time StepTimes::in_mpi() const {
    Time sum = 0;
    for (const StepPart part :
         {StepPart::kHalo, StepPart::kAllgather, StepPart::kAlltoall, StepPart::kAllreduce})
        sum += parts[static_cast<size_t>(part)];
    return sum;
}

std::string refusal(const StepLoop& loop) {
    if (loop.steps < 1) return "at least one step has to be counted";
    if (loop.late_least > loop.late_most) return "ranks are late by at least so much, and at most so much";
    if (loop.imbalance > kMillion) return "computing cannot take less than nothing";
    Job job = loop.job;
    for (const uint64_t bytes : {loop.halo_bytes, loop.alltoall_bytes, loop.allreduce_bytes}) {
        job.block_bytes = bytes;
        if (std::string wrong = refusal(job); !wrong.empty()) return wrong;
    }
    if (loop.allgather_chunk_bytes < 4096) return "pieces have at least 4 KiB";
    job.block_bytes = loop.allgather_bytes;
    job.chunk_bytes = loop.allgather_chunk_bytes;
    return refusal(job);
}

StepTimes simulate_steps(const StepLoop& loop, const StepContender& host, Watcher* watcher) {
    LONGSHORE_CHECK(refusal(loop).empty());
    return Run(loop, host).run(watcher);
}

}  // namespace longshore::timed
