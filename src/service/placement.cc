#include "service/placement.h"

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "fabric/shm/seat.h"

namespace longshore {
namespace {

std::vector<int> cpus_near(const std::vector<pid_t>& ranks, uint32_t services, const std::vector<int>& open) {
    std::vector<Seat> seats;
    for (const pid_t rank : ranks) seats.push_back(rank == 0 ? Seat{} : seat_of_process(rank));
    std::vector<SpareCpu> spare;
    for (const int cpu : open) spare.push_back({cpu, seat_of_cpu(cpu)});
    return choose_cpus(seats, services, spare);
}

}  // namespace

std::vector<int> reset_affinity() {
    const CpuMask all = CpuMask::allowed();
    all.set();
    std::vector<int> cpus;
    for (int cpu = 0; cpu < CpuMask::kCpusMax; ++cpu) {
        if (all.has(cpu)) cpus.push_back(cpu);
    }
    return cpus;
}

RankCpus look_at_ranks(const std::vector<pid_t>& ranks, const std::vector<int>& cpus) {
    RankCpus found;
    for (const pid_t rank : ranks) {
        CpuMask mask;
        if (rank == 0 || !mask.get(rank)) continue;
        size_t many = 0;
        for (const int cpu : cpus) {
            if (!mask.has(cpu)) continue;
            found.taken.add(cpu);
            ++many;
        }
        if (many >= cpus.size()) found.all_bound = false;
    }
    return found;
}

size_t count_spare_cpus(const std::vector<pid_t>& ranks, const std::vector<int>& cpus) {
    const RankCpus found = look_at_ranks(ranks, cpus);
    const auto open =
        std::count_if(cpus.begin(), cpus.end(), [&](const int cpu) { return !found.taken.has(cpu); });
    const size_t unneeded = cpus.size() > ranks.size() ? cpus.size() - ranks.size() : 0;
    return found.all_bound && !ranks.empty() ? std::max(unneeded, static_cast<size_t>(open)) : unneeded;
}

std::vector<PlaceService> place_services(const ServiceParameters& parameters, const std::vector<int>& cpus,
                                         const std::vector<pid_t>& ranks) {
    std::vector<PlaceService> places(parameters.service_count);
    const size_t ours = parameters.services_before;
    const std::vector<int> listed = parse_cpu_list(parameters.cores);
    const bool ranks_elsewhere = parameters.host_agents != 0;  // what stands in for them here sleeps
    const RankCpus found = ranks_elsewhere ? RankCpus{} : look_at_ranks(ranks, cpus);
    std::vector<int> open;
    for (auto cpu = cpus.rbegin(); cpu != cpus.rend(); ++cpu) {
        if (!ranks.empty() && found.all_bound && !found.taken.has(*cpu)) open.push_back(*cpu);
    }
    // Supervisors of emulated nodes do not see each other's ranks: each takes the next ones.
    const bool alone = parameters.machine_ranks == parameters.rank_count;
    // Ranks that are bound leave the other cores to us, however many share theirs.
    const size_t needed = ranks_elsewhere ? 0 : parameters.machine_ranks;
    const size_t unneeded = cpus.size() > needed ? cpus.size() - needed : 0;
    const size_t spare = alone ? std::max(unneeded, open.size()) : unneeded;
    const std::vector<int> near =
        alone ? cpus_near(ranks, parameters.service_count, open) : std::vector<int>{};
    for (size_t s = 0; s < places.size(); ++s) {
        PlaceService& place = places[s];
        place.may_spin = ours + s < spare;
        place.only_idle = !place.may_spin && parameters.node_count == 1;
        place.crowded = needed > cpus.size();
        if (!listed.empty()) {
            place.core = listed[(ours + s) % listed.size()];
            place.only_idle = 0;
        } else if (strcmp(parameters.cores, "none") != 0 && place.may_spin && ours + s < open.size()) {
            place.core = alone ? near[s] : open[ours + s];
        }
    }
    return places;
}

namespace {

// Of a core that ranks use, too, a service process wants little at a time, but soon: the kernel takes who
// asks for short turns first (Linux 6.12; before, it takes no notice). What share of the core it gets in the
// end stays the same.
void ask_for_short_turns() {
    struct {
        uint32_t size = 48, policy = SCHED_OTHER;
        uint64_t flags = 0;
        int32_t nice = 0;
        uint32_t priority = 0;
        uint64_t turn_ns = 200'000, deadline = 0, period = 0;
    } attributes;
    static_assert(sizeof attributes == 48);
    errno = 0;
    attributes.nice = getpriority(PRIO_PROCESS, 0);
    if (errno == 0) syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

void take_place(const PlaceService& place) {
    if (place.core >= 0 && place.core < CpuMask::kCpusMax) {
        CpuMask mask;
        mask.add(place.core);
        mask.set();
    }
    const sched_param none{};
    sched_setscheduler(0, place.only_idle ? SCHED_IDLE : SCHED_OTHER, &none);
    if (!place.only_idle) ask_for_short_turns();
}

}  // namespace longshore
