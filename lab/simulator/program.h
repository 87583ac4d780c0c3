// What the ranks of a world do: groups, collectives, and the exact bytes that must come out.
#pragma once

#include <vector>

#include "engine/node_memory.h"
#include "simulator/options.h"

namespace longshore::sim {

struct Place {
    NodeId node;
    ServiceId service;
    LocalRank local;
};

struct Group {
    uint64_t id = 0;
    std::vector<uint32_t> members;  // ranks of the world, in the group's order
    std::vector<int32_t> index_of;  // of a rank of the world, or -1
    uint64_t sequence = 0;          // of the last operation
};

struct Operation {
    uint32_t index = 0, group = 0;
    uint64_t sequence = 0, key = 0;
    Collective collective = Collective::kAlltoall;
    uint32_t root = 0;
    Algorithm algorithm = Algorithm::kDirect;
    bool in_place = false, blocking = false;
    uint32_t size = 0;
    uint32_t uniform_bytes = 0;
    uint32_t zero = 0, bytes_max = 0, chunk_bytes = 0, eager_bytes = 0;

    // What MPI says of the collective: the oracle, which asks the engine's table for nothing.
    // Bytes from group rank `source` to group rank `destination`.
    uint32_t bytes(uint32_t source, uint32_t destination) const;
    // The buffer's blocks have sizes and places of their own.
    bool by_blocks(bool receive) const;
    // The send buffer of a rank that gives something holds one block, whoever gets it.
    bool sends_one() const;
    // Everybody gets the same from a rank: it crosses to a node once.
    bool sends_same() const;
    bool receives_one() const;
    bool may_be_in_place() const { return collective != Collective::kBcast; }
    // In place: the rank's own block is not moved, it stands in the receive buffer, or stays in the send
    // buffer.
    bool own_in_recv(uint32_t rank) const;
    bool own_in_send(uint32_t rank) const;

    // Blocks in the send or receive buffer of `rank`, and how large the buffer is.
    uint64_t layout(uint32_t rank, bool receive, std::vector<BlockSpan>* blocks) const;
    uint64_t send_key(uint32_t rank) const { return key * 2 + (uint64_t{rank} << 32); }
    uint64_t fill_key(uint32_t rank) const { return key * 2 + 1 + (uint64_t{rank} << 32); }
    // The first block of a layout is that of this rank: they lie in turned order.
    uint32_t turn(uint32_t rank, bool receive) const {
        return by_blocks(receive) ? static_cast<uint32_t>(mix64(key ^ rank * 31 ^ (receive ? 7 : 8)) % size)
                                  : 0;
    }
    uint32_t draw(uint64_t h) const;  // a size from a hash
};

struct Program {
    std::vector<Place> places;  // of every rank
    std::vector<Group> groups;
    std::vector<Operation> operations;  // everybody enters those it belongs to in this order
    uint64_t buffer_bytes = 0;          // that all buffers together need, red zones included
    uint64_t bytes_between_nodes = 0;   // that must cross, each once
    static Program draw(const WorldOptions& options);
};

}  // namespace longshore::sim
