// What a stand-in on a DPU does beyond host.h: regions of its rank's memory, and operations that are planned
// already.
#pragma once

#include <vector>

#include "fabric/dpu/host_region.h"
#include "host/context.h"

namespace longshore {

// Describes a region of the rank's memory, or does so anew; no open operation uses it. The node is set here.
// False: there is no such region, or its key is too long.
bool publish_region_of_rank(ls_context& context, RegionId region, HostRegion description);

// As ls_operation_start. Buffers are in published regions; `data`: what is sent, if it is small. Group, rank
// and sequence of the arguments are set here, and pointers to blocks, which are the plan's.
int start_for_rank(ls_group* group, const OperationArguments& arguments, Plan plan,
                   std::vector<std::byte> data, ls_operation** out);

}  // namespace longshore
