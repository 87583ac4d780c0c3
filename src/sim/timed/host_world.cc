#include "sim/timed/host_world.h"

#include "sim/timed/host_rank.h"

namespace longshore::timed {

HostWorld::HostWorld(const Job& job, const HostAlgorithm& algorithm, Watcher* watcher)
    : job_(job),
      algorithm_(algorithm),
      rounds_(algorithm.rounds(job)),
      wires_(job_.machine, job.nodes, queue_, job.sharing),
      timing_(job_, queue_, wires_, watcher) {
    for (uint32_t r = 0; r < job_.ranks(); ++r) ranks_.push_back(std::make_unique<HostRank>(*this, r));
}

HostWorld::~HostWorld() = default;

uint64_t HostWorld::messages_of_all() const {
    uint64_t count = 0;
    Round round;
    for (uint32_t r = 0; r < job_.ranks(); ++r) {
        for (uint32_t n = 0; n < rounds_; ++n) {
            round.sends.clear();
            round.receives.clear();
            algorithm_.round(job_, r, n, &round);
            count += round.receives.size();
        }
    }
    return count;
}

Outcome HostWorld::run() {
    Timing::Hooks hooks;
    hooks.enter = [this](uint32_t rank, Time at, uint64_t) { ranks_[rank]->enter_at(at); };
    const auto expected = static_cast<double>(messages_of_all());
    hooks.work_done = [this, expected] { return static_cast<double>(messages_) / expected; };
    hooks.begin_counting = [] {};
    return timing_.run(hooks);
}

Outcome simulate_host(const Job& job, const HostAlgorithm& algorithm, Watcher* watcher) {
    LONGSHORE_CHECK(refusal(job).empty() && fits(algorithm, job.collective) && algorithm.possible(job));
    return HostWorld(job, algorithm, watcher).run();
}

}  // namespace longshore::timed
