// Gather(v): every rank gives one block to the root. MPI_IN_PLACE at the root: its own stands where it
// belongs already.
#include "engine/collectives/families.h"

namespace longshore {

constinit const CollectiveRules kGatherRules = {
    .name = "gather",
    .givers = Who::kAll,
    .takers = Who::kRoot,
    .given = Blocks::kOne,
    .taken = Blocks::kPerRank,
    .by_vector = false,
    .is_shared = false,
};

constinit const CollectiveRules kGathervRules = {
    .name = "gatherv",
    .givers = Who::kAll,
    .takers = Who::kRoot,
    .given = Blocks::kOne,
    .taken = Blocks::kPerRank,
    .by_vector = true,
    .is_shared = false,
};

}  // namespace longshore
