// Allgather(v): every rank gives one block to all. MPI_IN_PLACE: it stands where it belongs already.
#include "engine/collectives/families.h"

namespace longshore {

constinit const CollectiveRules kAllgatherRules = {
    .name = "allgather",
    .givers = Who::kAll,
    .takers = Who::kAll,
    .given = Blocks::kOne,
    .taken = Blocks::kPerRank,
    .by_vector = false,
    .is_shared = true,
};

constinit const CollectiveRules kAllgathervRules = {
    .name = "allgatherv",
    .givers = Who::kAll,
    .takers = Who::kAll,
    .given = Blocks::kOne,
    .taken = Blocks::kPerRank,
    .by_vector = true,
    .is_shared = true,
};

}  // namespace longshore
