// Where the task processes of a pool run. Pure: what the node looks like is told.
#pragma once

#include <string>
#include <vector>

#include "base/locality.h"
#include "tasks/pools.h"

namespace longshore {

// The node's CPUs that this job may use, and who has which.
struct NodeCpus {
    struct Cpu {
        int number = -1;
        Seat seat;
        bool of_rank = false;     // a rank is bound to it, alone or among others
        bool of_service = false;  // a service process is
    };
    std::vector<Cpu> all;
    bool ranks_are_bound = false;  // otherwise they may be anywhere
};

// `cores`: as LONGSHORE_TASK_CORES has it. auto: cores that neither ranks nor service processes have, so many
// for each process as it has threads; where there are none, those of service processes, and otherwise
// wherever the system puts them. Empty, with the reason: there are no such cores.
std::vector<tasks::TaskPlace> place_tasks(const NodeCpus& node, const char* cores, uint32_t processes,
                                          uint32_t threads, std::string* error);

}  // namespace longshore
