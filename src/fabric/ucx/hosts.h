// What a service process on a DPU has beyond the network between nodes: memory of hosts. dpu/transport has
// it; a build without DPUs has none (no_hosts.cc).
#pragma once

#include "fabric/network.h"

namespace longshore {

// As in NetworkOptions.
struct HostsOptions {
    NodeMemory memory;
    ServiceAddress self;
    uint32_t incarnation = 1;
    uint64_t limit_ns = 0;
    std::vector<std::vector<std::byte>> agents;
    bool aliases = false;
};

// A fabric that reaches hosts' memory, too, over `between`, whose last part is `last`. Null: `error` says
// why.
std::unique_ptr<Fabric> add_hosts(HostsOptions options, std::unique_ptr<Fabric> between, ShmFabric* last,
                                  std::string* error);

// NetworkPart::try_alias.
std::string try_alias(std::span<const std::byte> region);

}  // namespace longshore
