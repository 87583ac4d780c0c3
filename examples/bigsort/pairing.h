// Who sorts and who writes for whom: decided alike by all processes from what all have told.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "messages.h"

namespace bigsort {

struct Pairing {
    std::vector<int> peer_of;  // of each process of the world; -1: it has none
    std::string problem;       // empty: everybody who needs one has a partner
};

// Collective over the world. `role`: of this process.
std::vector<Role> exchange_roles(MPI_Comm world, Role role);

// Whether ranks and peers are paired: with --offload mpmd always, with auto where there are peers.
bool needs_peers(Offload offload, const std::vector<Role>& roles);

// Collective over the world. Each rank gets a peer of its own where `placement` wants it.
Pairing pair(MPI_Comm world, const std::vector<Role>& roles, Placement placement);

// Collective over the world: returns when all have called it, and takes no core meanwhile.
void meet(MPI_Comm world);

}  // namespace bigsort
