// The rows of the table in table.cc.
#pragma once

#include "engine/collective.h"

namespace longshore {

extern const CollectiveRules kAlltoallRules, kAlltoallvRules;
extern const CollectiveRules kAllgatherRules, kAllgathervRules;
extern const CollectiveRules kBcastRules;
extern const CollectiveRules kGatherRules, kGathervRules;
extern const CollectiveRules kScatterRules, kScattervRules;

}  // namespace longshore
