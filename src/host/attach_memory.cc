// A rank's part of its node's shared memory, once the supervisor has let it in.
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "host/context.h"
#include "host/role.h"

namespace longshore {

void attach_to_memory(ls_context& c, const AttachAnswer& answer, std::vector<Fd> descriptors) {
    const uint32_t services = c.options.service_count;
    if (answer.services != services || descriptors.size() != 2 + services ||
        !is_memory_file(descriptors[0].get(), answer.memory_bytes, nullptr) ||
        !is_memory_file(descriptors[1].get(), answer.sight_bytes, nullptr)) {
        c.problem = "the supervisor of the service processes does not keep to the protocol";
        return;
    }
    c.memory_file = std::move(descriptors[0]);
    c.mapping = Mapping::window(c.memory_file.get(), 0, answer.memory_bytes);
    c.sight = Mapping::window(descriptors[1].get(), 0, answer.sight_bytes);
    if (!c.mapping || !c.sight || !NodeMemory::open(c.mapping.data(), answer.memory_bytes, &c.memory)) {
        c.problem = std::string("cannot map the node's memory: ") + strerror(errno);
        return;
    }
    c.engine_block = Mapping::anonymous(RankEngine::bytes_needed(c.memory.limits()));
    if (!c.engine_block) {
        c.problem = "no memory";
        return;
    }
    std::vector<Fd> eventfds;
    for (uint32_t s = 0; s < services; ++s) eventfds.push_back(std::move(descriptors[2 + s]));
    const LocalRank self{static_cast<uint16_t>(c.local)};
    const auto pid = static_cast<uint32_t>(getpid());
    RankSlot& slot = c.memory.rank(self);
    slot.service = c.places[c.rank].service;
    c.regions = RegionCache(c.memory, self, pid, process_start_time(pid), c.options.shared);
    c.doorbell = std::make_unique<Doorbell>(c.memory, std::move(eventfds));
    c.copier = std::make_unique<NodeCopier>(
        c.memory, NodeCopier::Options{true, self, c.options.memory_inaccessible != 0});
    c.engine = std::make_unique<RankEngine>(c.engine_block.data(), c.memory, self);
    c.lives.resize(services);
    c.service_trace_taken.resize(services);
    if (c.options.trace) c.trace.resize(kTraceEntries);
    c.role->prepare_memory();
    show_rank(c);
}

}  // namespace longshore
