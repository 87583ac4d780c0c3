// Scatter(v): the root gives each rank a block of its own. MPI_IN_PLACE at the root: it keeps its own where
// it is.
#include "engine/collectives/families.h"

namespace longshore {

constinit const CollectiveRules kScatterRules = {
    .name = "scatter",
    .givers = Who::kRoot,
    .takers = Who::kAll,
    .given = Blocks::kPerRank,
    .taken = Blocks::kOne,
    .by_vector = false,
    .is_shared = false,
};

constinit const CollectiveRules kScattervRules = {
    .name = "scatterv",
    .givers = Who::kRoot,
    .takers = Who::kAll,
    .given = Blocks::kPerRank,
    .taken = Blocks::kOne,
    .by_vector = true,
    .is_shared = false,
};

}  // namespace longshore
