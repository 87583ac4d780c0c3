// Bcast: the root gives its one block to all others.
#include "engine/collectives/families.h"

namespace longshore {

constinit const CollectiveRules kBcastRules = {
    .name = "bcast",
    .givers = Who::kRoot,
    .takers = Who::kOthers,
    .given = Blocks::kOne,
    .taken = Blocks::kOne,
    .by_vector = false,
    .is_shared = true,
};

}  // namespace longshore
