// Alltoall(v): every rank gives a block of its own to each. MPI_IN_PLACE: the blocks given are what stood in
// the receive buffer, so the host library copies them first.
#include "engine/collectives/families.h"

namespace longshore {

constinit const CollectiveRules kAlltoallRules = {
    .name = "alltoall",
    .givers = Who::kAll,
    .takers = Who::kAll,
    .given = Blocks::kPerRank,
    .taken = Blocks::kPerRank,
    .by_vector = false,
    .is_shared = false,
};

constinit const CollectiveRules kAlltoallvRules = {
    .name = "alltoallv",
    .givers = Who::kAll,
    .takers = Who::kAll,
    .given = Blocks::kPerRank,
    .taken = Blocks::kPerRank,
    .by_vector = true,
    .is_shared = false,
};

}  // namespace longshore
