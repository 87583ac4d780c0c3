#include "model/timing.h"

#include <algorithm>
#include <cmath>

namespace longshore::timed {
namespace {

constexpr Time kHangs = 1'000'000'000 * kMicrosecond;  // of virtual time, in one collective
constexpr uint64_t kEventsPerLook = 1 << 18;           // at the progress; a tenth of a second ...
constexpr uint64_t kSharedEventsPerLook = 1 << 12;     // ... also where each event changes all rates

}  // namespace

void Timing::rank_is_done(uint32_t rank, Time latency) {
    ++ranks_done_;
    sums_[rank] += latency;
    sum_ += latency;
    least_ = std::min(least_, latency);
    most_ = std::max(most_, latency);
}

Time Timing::step_time(Time mean) {
    const uint64_t share = job_.machine.jitter_cost;
    if (share == 0 || mean == 0) return mean;
    const uint64_t most = mean * share / 1'000'000;
    return mean - std::min(mean, most) + prng_.below(2 * most + 1);
}

// How long after the others a rank enters: some, of all ranks and operations, are late by a time that is
// distributed exponentially.
Time Timing::entry_after() {
    const Machine& m = job_.machine;
    const Time after = prng_.below(m.jitter_entry + 1);
    if (m.jitter_late == 0 || prng_.below(1'000'000) >= m.jitter_late) return after;
    constexpr uint64_t kOne = 1ull << 32;
    const double u = static_cast<double>(prng_.below(kOne) + 1) / static_cast<double>(kOne);
    return after + static_cast<Time>(-std::log(u) * static_cast<double>(m.jitter_late_by));
}

void Timing::iterate(const Hooks& hooks, uint32_t number) {
    ranks_done_ = 0;
    sum_ = most_ = 0;
    least_ = kNever;
    const Time begin = queue_.now();
    const uint64_t per_look = job_.sharing == Sharing::kFifo ? kEventsPerLook : kSharedEventsPerLook;
    for (uint32_t r = 0; r < job_.real_ranks(); ++r)
        hooks.enter(r, begin + (job_.enter.empty() ? entry_after() : job_.enter[r]), number + 1);
    while (ranks_done_ < job_.timed_ranks()) {
        LONGSHORE_CHECK(!queue_.empty() && queue_.now() - begin < kHangs);
        queue_.step();
        if (watcher_ != nullptr && queue_.taken() % per_look == 0)
            watcher_->on_progress(std::clamp(hooks.work_done(), double(number), number + 1.0) /
                                  (job_.warm_up + job_.iterations));
    }
}

Outcome Timing::run(const Hooks& hooks) {
    LONGSHORE_CHECK(job_.compute.empty() || job_.compute.size() == job_.ranks());
    LONGSHORE_CHECK(job_.enter.empty() || job_.enter.size() == job_.ranks());
    for (uint32_t i = 0; i < job_.warm_up; ++i) iterate(hooks, i);
    hooks.begin_counting();
    std::fill(sums_.begin(), sums_.end(), 0);
    const Wires::Busy before = wires_.busiest();
    const uint64_t bytes = wires_.bytes_received(), transfers = wires_.transfers();
    const Time begin = queue_.now();
    Outcome out;
    out.latency.least = kNever;
    for (uint32_t i = 0; i < job_.iterations; ++i) {
        iterate(hooks, job_.warm_up + i);
        out.latency.iterations.push_back(sum_ / job_.timed_ranks());
        out.latency.mean += sum_;
        out.latency.least = std::min(out.latency.least, least_);
        out.latency.most = std::max(out.latency.most, most_);
    }
    out.latency.mean /= uint64_t{job_.timed_ranks()} * job_.iterations;
    for (uint32_t r = 0; r < job_.ranks(); ++r)
        out.latency.ranks.push_back(sums_[r % job_.timed_ranks()] / job_.iterations);
    const Wires::Busy busy = wires_.busiest();
    out.span = queue_.now() - begin;
    const auto share = [&](Time part) { return static_cast<double>(part) / static_cast<double>(out.span); };
    out.network_bytes = wires_.bytes_received() - bytes;
    out.transfers = wires_.transfers() - transfers;
    out.busiest_link = share(busy.link - before.link);
    out.busiest_pcie = share(busy.pcie - before.pcie);
    out.busiest_memory = share(busy.memory - before.memory);
    out.events = queue_.taken();
    return out;
}

}  // namespace longshore::timed
