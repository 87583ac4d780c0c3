// Whether memory of this machine can have aliases on a DPU: tried with a page of it.
#pragma once

#include "fabric/network.h"

namespace longshore {

// A page that the agent has opened and exported, as `page` and as a region's descriptor (host_region.h).
// Empty: not possible.
std::vector<std::byte> make_export_probe(MemoryAgent& agent, Mapping* page, std::string* error);

}  // namespace longshore
