// The other service processes of the job.
// Keeps: how many each node has, the newest incarnation heard of each, and which are lost for good.
// Promises: an address that known() accepts has an index below count(); a lost peer stays lost.
// Asks: nothing of other parts.
#pragma once

#include <span>

#include "engine/service/context.h"

namespace longshore {

class Peers {
  public:
    explicit Peers(const ServiceContext& context) : context_(context) {}
    void carve(Carver& c);
    // counts[n]: service processes of node n.
    void set_counts(std::span<const uint16_t> counts);

    uint32_t count() const { return context_.limits.nodes_max * context_.limits.services_per_node_max; }
    bool known(ServiceAddress a) const {
        return a.node.value < context_.limits.nodes_max &&
               a.service.value < context_.limits.services_per_node_max;
    }
    uint32_t index(ServiceAddress a) const {
        return a.node.value * context_.limits.services_per_node_max + a.service.value;
    }
    ServiceAddress address(uint32_t index) const {
        const uint32_t per_node = context_.limits.services_per_node_max;
        return {NodeId{static_cast<uint16_t>(index / per_node)},
                ServiceId{static_cast<uint16_t>(index % per_node)}};
    }
    uint16_t count_of(NodeId node) const { return services_of_[node.value]; }
    // There is one of that address, and it is not this one.
    bool is_other(ServiceAddress a) const {
        return known(a) && a.service.value < services_of_[a.node.value] && a != context_.here();
    }

    // A frame has come. kStale: of an earlier incarnation than one that was heard of. kNew: the first one
    // heard of. kRestarted: a later one.
    enum class Heard : uint8_t { kStale, kSame, kNew, kRestarted };
    Heard hear(ServiceAddress from, uint32_t incarnation);
    uint32_t incarnation(ServiceAddress a) const { return peers_[index(a)].incarnation; }

    void lose(ServiceAddress a);
    bool is_lost(ServiceAddress a) const { return peers_[index(a)].lost; }
    bool any_lost() const { return any_lost_; }

  private:
    struct Peer {
        uint32_t incarnation = 0;
        bool lost = false;
    };
    const ServiceContext& context_;
    Peer* peers_ = nullptr;            // [count()]
    uint16_t* services_of_ = nullptr;  // [nodes_max]
    bool any_lost_ = false;
};

}  // namespace longshore
