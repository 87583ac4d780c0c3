#include "model/host_world.h"

#include <algorithm>

#include "model/host_rank.h"

namespace longshore::timed {

namespace {

Job one_group(Job job) {
    if (job.groups == Groups::kWorld) return job;
    job.groups = Groups::kWorld;
    job.placement = Placement::kContiguous;
    job.ranks_per_node = job.services = 1;
    return job;
}

}  // namespace

HostWorld::HostWorld(const Job& job, const HostAlgorithm& algorithm, Watcher* watcher)
    : job_(job),
      group_(one_group(job)),
      algorithm_(algorithm),
      rounds_(algorithm.rounds(group_)),
      wires_(job_.machine, job.nodes, queue_, job.sharing),
      timing_(job_, queue_, wires_, watcher) {
    for (uint32_t r = 0; r < job_.ranks(); ++r) ranks_.push_back(std::make_unique<HostRank>(*this, r));
}

HostWorld::~HostWorld() = default;

void HostWorld::round(uint32_t rank, uint32_t number, Round* out) const {
    out->sends.clear();
    out->receives.clear();
    algorithm_.round(group_, job_.rank_in_group(rank), number, out);
    if (job_.groups == Groups::kWorld) return;
    for (auto* messages : {&out->sends, &out->receives})
        for (Message& message : *messages)
            message.peer = job_.rank_of_group(job_.group_of(rank), message.peer);
}

uint64_t HostWorld::messages_of_all() const {
    uint64_t count = 0;
    Round messages;
    for (uint32_t r = 0; r < job_.ranks(); ++r) {
        for (uint32_t n = 0; n < rounds_; ++n) {
            this->round(r, n, &messages);
            count += messages.receives.size();
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

namespace {

// As if each rank had as many messages as the first and the last one on average.
struct Expected {
    uint64_t events = 0;
    uint64_t of_round = 0;  // messages that a rank sends and receives in one round, at most
};

Expected expected_of(const Job& job, const HostAlgorithm& algorithm) {
    constexpr uint64_t kOfRank = 3, kOfShort = 5, kOfLong = 14;
    const Job group = one_group(job);
    Expected out;
    for (const uint32_t rank : {0u, group.ranks() - 1}) {
        Round messages;
        for (uint32_t n = 0; n < algorithm.rounds(group); ++n) {
            messages.sends.clear(), messages.receives.clear();
            algorithm.round(group, rank, n, &messages);
            for (const Message& one : messages.receives)
                out.events += one.bytes <= job.machine.mpi_eager ? kOfShort : kOfLong;
            out.of_round = std::max<uint64_t>(out.of_round, messages.sends.size() + messages.receives.size());
        }
    }
    out.events = (out.events / 2 + kOfRank) * job.ranks() * (job.warm_up + job.iterations);
    return out;
}

}  // namespace

uint64_t host_events_expected(const Job& job, const HostAlgorithm& algorithm) {
    return expected_of(job, algorithm).events;
}

double host_seconds_expected(const Job& job, const HostAlgorithm& algorithm) {
    const Expected found = expected_of(job, algorithm);
    return seconds_of(job, found.events, job.ranks() * found.of_round / 2);  // each is sent and received
}

// Fitted to what runs were seen to touch.
uint64_t host_memory_needed(const Job& job, const HostAlgorithm& algorithm) {
    constexpr uint64_t kOfRank = 3072, kOfMessage = 128, kOfAll = 8 << 20;
    return kOfAll + job.ranks() * (kOfRank + kOfMessage * expected_of(job, algorithm).of_round);
}

Outcome simulate_host(const Job& job, const HostAlgorithm& algorithm, Watcher* watcher) {
    const bool is_of_step = algorithm.carries == HostAlgorithm::Carries::kStep;
    LONGSHORE_CHECK(is_of_step || fits(algorithm, job.collective));
    LONGSHORE_CHECK(refusal(job).empty() && algorithm.possible(job));
    return HostWorld(job, algorithm, watcher).run();
}

}  // namespace longshore::timed
