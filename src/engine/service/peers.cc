#include "engine/service/peers.h"

namespace longshore {

void Peers::carve(Carver& c) {
    peers_ = c.filled<Peer>(count(), {});
    services_of_ = c.filled<uint16_t>(context_.limits.nodes_max, 1);
}

void Peers::set_counts(std::span<const uint16_t> counts) {
    LONGSHORE_CHECK(counts.size() <= context_.limits.nodes_max);
    for (size_t n = 0; n < counts.size(); ++n) {
        LONGSHORE_CHECK(counts[n] >= 1 && counts[n] <= context_.limits.services_per_node_max);
        services_of_[n] = counts[n];
    }
}

Peers::Heard Peers::hear(ServiceAddress from, uint32_t incarnation) {
    Peer& p = peers_[index(from)];
    if (incarnation < p.incarnation) return Heard::kStale;
    if (incarnation == p.incarnation) return Heard::kSame;
    const bool first = p.incarnation == 0;
    p.incarnation = incarnation;
    return first ? Heard::kNew : Heard::kRestarted;
}

void Peers::lose(ServiceAddress a) {
    peers_[index(a)].lost = true;
    any_lost_ = true;
}

}  // namespace longshore
