// Where a job's ranks are: which machine, node, place on it and service process, by what all have told first.
#pragma once

#include <string>

#include "fabric/shm/seat.h"
#include "host/context.h"

namespace longshore {

struct Identity {
    uint64_t machine;   // equal for processes that can reach each other's memory and sockets
    uint64_t computer;  // likewise; where ranks are on other machines, that of those who stand in for them
    uint64_t probe_address, probe_value;
    uint32_t pid, ok;
    Seat seat;
};

uint64_t computer_identity();
// Nodes, slots and service processes of all ranks, the same on all of them, once all identities have been
// received. Empty, or why not.
std::string place_ranks(ls_context& context);

}  // namespace longshore
