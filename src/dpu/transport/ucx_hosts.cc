// The part of longshore-ucx.so by which service processes on a DPU reach memory of hosts.
#include "dpu/transport/host_fabric.h"
#include "fabric/described_fabric.h"
#include "fabric/ucx/hosts.h"

namespace longshore {

std::unique_ptr<Fabric> add_hosts(HostsOptions options, std::unique_ptr<Fabric> between, ShmFabric* last,
                                  std::string* error) {
    HostOptions host;
    host.memory = options.memory;
    host.node = options.self.node;
    host.agents = std::move(options.agents);
    host.limit_ns = options.limit_ns;
    host.aliases = options.aliases;
    DescribedOptions described;
    described.memory = options.memory;
    described.self = options.self;
    described.incarnation = options.incarnation;
    auto to_hosts = HostFabric::create(std::move(host), std::move(between), last, error);
    if (!to_hosts) return nullptr;
    return std::make_unique<DescribedFabric>(described, std::move(to_hosts));
}

std::string try_alias(std::span<const std::byte> region) {
    HostRegion some;
    if (!decode_host_region(region, &some)) return "there is no memory to try it with";
    std::string error;
    const auto worker = UcxWorker::create(&error, UcxWorker::Use::kAliases);
    if (worker && worker->import_alias(some.exported, some.address, some.bytes, &error) != nullptr) return "";
    return error;
}

}  // namespace longshore
