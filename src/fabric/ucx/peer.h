// What a UcxFabric knows about another service process, and about what is read there and from here.
#pragma once

#include "fabric/ucx/ucx_fabric.h"

namespace longshore {

// A piece of a read that was offered, and is on its way.
struct UcxFabric::Taking {
    ServiceAddress owner;
    uint64_t read = 0;  // as asked for
    uint64_t offset = 0, bytes = 0;
    uint32_t piece = kNoPiece;  // to where, if the rank's memory is not mapped here
    static constexpr uint32_t kNoPiece = UINT32_MAX;
};

// Bytes that another service process reads here.
struct UcxFabric::Request {
    uint64_t id = 0;
    RegionName region;
    uint64_t offset = 0, bytes = 0, sent = 0;
    uint32_t lending = kNone;  // of its open pieces
    static constexpr uint32_t kNone = UINT32_MAX;
};

// Pieces of a read that are sent from a rank's own memory, which it may withdraw meanwhile.
struct UcxFabric::Lending {
    ServiceAddress to;
    uint32_t incarnation = 0;  // of the reader
    uint64_t id = 0;
    RegionUse use;
    uint32_t pieces = 0;  // that UCX has
    bool all = false;     // there will be no more
    bool said = false;    // the reader knows that the read has failed, or is gone
};

struct UcxFabric::Peer {
    // kDown: broken; its successor may come within the limit.
    enum class State : uint8_t { kNone, kConnected, kDown, kLost };
    State state = State::kNone;
    ServiceAddress at;
    UcxEndpoint *talk = nullptr, *data = nullptr;
    bool broken = false;  // said by UCX, to be looked at
    std::vector<std::byte> address;
    uint32_t incarnation = 1;  // of the newest that has greeted, or is in the book
    bool greeted = false;
    uint32_t sent = 0, looked_at = 0;            // our frames: sent, and looked at over there
    uint32_t expected = 0, taken = 0, told = 0;  // its frames: come, handed out here, and said to be
    uint64_t heard_ns = 0, asked_ns = 0, down_since_ns = 0;
    std::deque<Request> requests;
};

}  // namespace longshore
