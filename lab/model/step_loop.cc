#include "model/step_loop.h"

#include <algorithm>
#include <numeric>

#include "base/prng.h"

namespace longshore::timed {
namespace {

constexpr uint64_t kMillion = 1'000'000;

// One of a step's exchanges: by the product, where no algorithm is given.
struct Exchange {
    StepPart part;
    uint32_t count;  // of a step
    Job job;         // but for when its ranks enter
    const HostAlgorithm* algorithm;

    double seconds() const {
        return algorithm != nullptr ? host_seconds_expected(job, *algorithm) : seconds_expected(job);
    }
    uint64_t memory() const {
        return algorithm != nullptr ? host_memory_needed(job, *algorithm) : memory_needed(job);
    }
};

// All of them, by their parts. Each is one iteration.
std::array<Exchange, 4> exchanges_of(const StepLoop& loop, const StepContender& host) {
    Job job = loop.job;
    job.warm_up = 0;
    job.iterations = 1;
    job.compute.clear();
    const auto of = [&](uint64_t bytes, Collective collective) {
        Job one = job;
        one.block_bytes = bytes;
        one.collective = collective;
        return one;
    };
    std::array<Exchange, 4> all{{
        {StepPart::kHalo, loop.halos, of(loop.halo_bytes, job.collective), find_host_algorithm("halo")},
        {StepPart::kAllgather, loop.allgathers, of(loop.allgather_bytes, Collective::kAllgatherv),
         host.allgather},
        {StepPart::kAlltoall, loop.alltoalls, of(loop.alltoall_bytes, Collective::kAlltoall), host.alltoall},
        {StepPart::kAllreduce, 1, of(loop.allreduce_bytes, job.collective),
         find_host_algorithm("dissemination")},
    }};
    all[static_cast<size_t>(StepPart::kAllgather)].job.chunk_bytes = loop.allgather_chunk_bytes;
    return all;
}

class Run {
  public:
    Run(const StepLoop& loop, const StepContender& host, Watcher* watcher)
        : loop_(loop),
          exchanges_(exchanges_of(loop, host)),
          at_(loop.job.ranks(), 0),
          prng_(mix64(loop.seed)),
          progress_(watcher, seconds_expected(loop, host)) {}

    StepTimes run() {
        for (uint32_t step = 0; step < loop_.steps; ++step) this->step();
        return means();
    }

  private:
    // Tells of the part of all steps that is done, from the part of an exchange.
    class Progress final : public Watcher {
      public:
        Progress(Watcher* to, double all_seconds) : to_(to), all_(all_seconds) {}
        void begin(double seconds) {
            done_ += now_;
            now_ = seconds;
            on_progress(0);
        }
        void on_progress(double part) override {
            if (to_ != nullptr) to_->on_progress((done_ + part * now_) / all_);
        }

      private:
        Watcher* const to_;
        const double all_;
        double done_ = 0, now_ = 0;
    };

    void step();
    void exchange(StepPart part);
    void take(StepPart part, const Outcome& out);
    void compute();
    void come_late();
    void add(StepPart part, uint64_t time) { sums_[static_cast<size_t>(part)] += time; }
    StepTimes means() const;

    const StepLoop& loop_;
    const std::array<Exchange, 4> exchanges_;
    std::vector<Time> at_;  // by rank
    Prng prng_;
    Progress progress_;
    uint64_t begun_ = 0;  // exchanges
    // Of all ranks.
    std::array<uint64_t, kStepParts> sums_{};
    uint64_t first_alltoall_ = 0;
    // Of all allgathers.
    uint64_t alone_ = 0, exits_ = 0;
    uint64_t bytes_ = 0;
};

void Run::step() {
    for (uint32_t i = 0; i < loop_.halos; ++i) {
        compute();
        exchange(StepPart::kHalo);
    }
    for (uint32_t i = 0; i < loop_.allgathers; ++i) {
        come_late();
        const Time last = *std::max_element(at_.begin(), at_.end());
        exchange(StepPart::kAllgather);
        const auto [first_out, last_out] = std::minmax_element(at_.begin(), at_.end());
        exits_ += *last_out - *first_out;
        for (const Time out : at_) alone_ += (out - std::min(out, last)) / at_.size();
    }
    for (uint32_t i = 0; i < loop_.alltoalls; ++i) {
        const uint64_t before = sums_[static_cast<size_t>(StepPart::kAlltoall)];
        exchange(StepPart::kAlltoall);
        if (i != 0) continue;
        first_alltoall_ += sums_[static_cast<size_t>(StepPart::kAlltoall)] - before;
        compute();
    }
    exchange(StepPart::kAllreduce);
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

void Run::take(StepPart part, const Outcome& out) {
    for (size_t r = 0; r < at_.size(); ++r) {
        at_[r] += out.latency.ranks[r];
        add(part, out.latency.ranks[r]);
    }
    bytes_ += out.network_bytes;
}

// Ranks come as they are there, the first one at once.
void Run::exchange(StepPart part) {
    const Exchange& one = exchanges_[static_cast<size_t>(part)];
    Job job = one.job;
    job.seed = mix64(loop_.seed + ++begun_);
    const Time begin = *std::min_element(at_.begin(), at_.end());
    for (const Time at : at_) job.enter.push_back(at - begin);
    progress_.begin(one.seconds());
    take(part, one.algorithm != nullptr ? simulate_host(job, *one.algorithm, &progress_)
                                        : simulate_offloaded(job, &progress_));
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

double seconds_expected(const StepLoop& loop, const StepContender& host) {
    double of_step = 0;
    for (const Exchange& one : exchanges_of(loop, host)) of_step += one.count * one.seconds();
    return of_step * loop.steps;
}

uint64_t memory_needed(const StepLoop& loop, const StepContender& host) {
    uint64_t most = 0;
    for (const Exchange& one : exchanges_of(loop, host))
        if (one.count != 0) most = std::max(most, one.memory());
    return most;
}

StepTimes simulate_steps(const StepLoop& loop, const StepContender& host, Watcher* watcher) {
    LONGSHORE_CHECK(refusal(loop).empty());
    return Run(loop, host, watcher).run();
}

}  // namespace longshore::timed
