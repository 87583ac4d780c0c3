// Where service processes run: on a core that no rank needs, where there is one.
#pragma once

#include <sys/types.h>

#include <vector>

#include "fabric/shm/control.h"
#include "fabric/shm/cpu_mask.h"

namespace longshore {

// All CPUs this process may use, whatever the mask it was started with; its own mask afterwards.
std::vector<int> reset_affinity();

// Which of `cpus` these ranks may run on (0: gone), and whether each of them is bound to some: one that may
// run anywhere shows nothing, one that is bound shows which cores are taken.
struct RankCpus {
    CpuMask taken;
    bool all_bound = true;
};
RankCpus look_at_ranks(const std::vector<pid_t>& ranks, const std::vector<int>& cpus);

// How many of `cpus` these ranks leave to others: each that is bound has its own, any other one of all.
size_t count_spare_cpus(const std::vector<pid_t>& ranks, const std::vector<int>& cpus);

// `cpus`: from reset_affinity(). `ranks`: those of this node, by local rank; 0: gone. For all service
// processes of the node, in order. Where the node has the machine to itself each runs near its ranks.
std::vector<PlaceService> place_services(const ServiceParameters& parameters, const std::vector<int>& cpus,
                                         const std::vector<pid_t>& ranks);

// The calling process goes where it is told.
void take_place(const PlaceService& place);

}  // namespace longshore
