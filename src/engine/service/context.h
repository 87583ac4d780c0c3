// What every part of a service process's engine knows: whose it is, the node's memory, its limits, its
// counters, and the groups of the node. The parts change nothing of it but the counters.
#pragma once

#include <span>

#include "engine/mover.h"
#include "engine/service/pool.h"
#include "engine/service_engine.h"

namespace longshore {

struct ServiceContext {
    NodeMemory memory;
    NodeLimits node;
    ServiceLimits limits;
    ServiceId self;
    uint16_t incarnation = 0;
    WorkerId worker;
    ServiceCounters* counters = nullptr;
    uint64_t now_ns = 0;  // as the driver said last
    uint64_t steps = 0;   // actions so far

    ServiceAddress here() const { return {memory.node(), self}; }
    // Whether the blocks of an operation go through staging memory of this service process.
    bool is_staged(Algorithm algorithm) const {
        return limits.staging_slots != 0 && (limits.staging_only || algorithm == Algorithm::kStaged);
    }
};

// The slots of the node's groups, by their ids.
class Groups {
  public:
    explicit Groups(const ServiceContext& context) : context_(context) {}
    void carve(Carver& c);
    // Null: the group is not there (any more).
    const GroupEntry* find(GroupId id, GroupSlot* slot);

  private:
    struct Cached {
        uint64_t id = 0;
        uint32_t slot = 0;
    };
    const ServiceContext& context_;
    Cached* cache_ = nullptr;  // direct mapped
};

// The place of a service process among those that serve a group; group.peer_count: it serves none of its
// members.
uint32_t find_peer(const NodeMemory& memory, const GroupEntry& group, ServiceAddress at);
// Who is told of a shared block of `source` on the node whose first peer is `node_first`: any of its service
// processes can see to it, so the sources are spread over them.
ServiceAddress teller_for(const NodeMemory& memory, const GroupEntry& group, uint32_t node_first,
                          Rank source);
// The ranks of a group that one service process of this node serves, ascending.
std::span<const uint32_t> members_served(const NodeMemory& memory, const GroupEntry& group, ServiceId by);
// For tables of what one rank gives in one operation.
uint64_t hash_of(const OperationId& operation, Rank source);
// Whether a rank of the node takes part in an operation now, and has not got the block of `source`.
bool lacks(const NodeMemory& memory, const GroupEntry& group, uint32_t local_index, uint64_t sequence,
           Rank source);

}  // namespace longshore
