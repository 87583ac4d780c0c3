#include "dpu/transport/probe.h"

#include "dpu/transport/host_region.h"

namespace longshore {
namespace {
constexpr size_t kProbeBytes = 4096;
}  // namespace

std::vector<std::byte> make_export_probe(MemoryAgent& agent, Mapping* page, std::string* error) {
    const Fd file = make_memory_file("longshore-probe", kProbeBytes);  // as ranks' memory is
    *page = Mapping::shared(file.get(), kProbeBytes);
    if (!*page) {
        *error = "there is no memory to try it with";
        return {};
    }
    HostRegion region;
    region.address = reinterpret_cast<uint64_t>(page->data());
    region.bytes = kProbeBytes;
    const UcxOpening* const opening = agent.open_memory({page->data(), kProbeBytes}, &region.key, error);
    if (opening == nullptr || !agent.export_memory(opening, &region.exported, error)) return {};
    std::vector<std::byte> descriptor = encode_host_region(region);
    if (descriptor.empty())
        *error = "the network's keys are too long; use fewer devices (LONGSHORE_UCX_NET_DEVICES)";
    return descriptor;
}

}  // namespace longshore
