// What a stand-in lets its rank ask for. The engine, the service processes and the network trust what has
// come through here: every field of an operation is checked against its collective and against the region
// that it names.
#pragma once

#include <span>

#include "base/types.h"
#include "dpu/session/session.h"

namespace longshore {

// Of the group's rank `rank`, which has `size` members. `region_bytes`: of each region that the rank has
// opened, by its number; 0: it has not. False: no rank of ours sends this.
bool is_sound(const SessionPost& post, Rank rank, uint32_t size, std::span<const uint64_t> region_bytes);

}  // namespace longshore
