#include "engine/collectives/families.h"

namespace longshore {

// In the order of Collective.
const CollectiveRules* const kCollectiveRules[kCollectives] = {
    &kAlltoallRules, &kAlltoallvRules, &kAllgatherRules, &kAllgathervRules, &kBcastRules,
    &kGatherRules,   &kGathervRules,   &kScatterRules,   &kScattervRules,
};

}  // namespace longshore
