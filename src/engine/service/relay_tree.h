// Where a node stands in a broadcast from service process to service process (paper S1: binomial tree for few
// chunks, scatter and allgather for many): the nodes of the group in order of their ids, beginning with the
// source's. Few chunks go down the tree; many are scattered, and each goes round a ring from the node that
// has read it.
#pragma once

#include "engine/service/read_queue.h"

namespace longshore {

constexpr uint32_t kRelaysMax = 64;         // blocks that are relayed at a time
constexpr uint32_t kRelayChildrenMax = 12;  // a binomial tree of 4,096 nodes
constexpr uint32_t kPinsOfChildMax = 256;   // slots that one service process is offered at once

struct RelayTree {
    uint32_t index = 0, count = 0;
    bool ring = false;

    // Of a group, seen from `of`, for a block of so many chunks.
    static RelayTree in_group(const NodeMemory& memory, const GroupEntry& group, NodeId source, NodeId of,
                              uint64_t chunks);
    uint32_t parent() const {
        if (!ring) return index & (index - 1);
        return index == 1 ? count - 1 : index - 1;
    }
    uint32_t scattered_to(uint64_t chunk) const { return static_cast<uint32_t>(chunk % (count - 1)) + 1; }
    // Chunks that the node reads from the source itself.
    OwnChunks own() const {
        if (ring) return {index - 1, count - 1};
        return parent() == 0 ? OwnChunks{} : OwnChunks{0, 0};
    }
};

// The first peer of a group on the node of that index in the tree.
uint32_t relay_peer(const NodeMemory& memory, const GroupEntry& group, NodeId source, uint32_t index);

// Whether a queued block is relayed at all: a broadcast through staging memory, over more than two nodes.
bool is_relayed(const ServiceContext& context, const Watch& watch, const QueuedRead& queued, RelayTree* tree);

// A ticket names one request of one incarnation of a service process.
inline uint32_t incarnation_of(uint64_t ticket) {
    return static_cast<uint32_t>(ticket >> 32);
}

}  // namespace longshore
