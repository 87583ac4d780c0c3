// Streams between nodes that are of no service process: those of tasks. Both ends prove that they are of the
// job as service processes do; what goes over a stream then is its owners' own, in the clear. A part of the
// network (network.h) has them.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "fabric/shm/shm_fabric.h"

namespace longshore {

// An end: by number and name it is the service process behind the last one of its node.
struct StreamEnd {
    NodeId node;
    NodeAddress address;
};

// Where such streams come in, of which the other end has proven who it is. One thread.
class StreamDoor {
  public:
    virtual ~StreamDoor() = default;
    // Readable when there is something to do.
    virtual int fd() const = 0;
    virtual void turn() = 0;
    // A stream, and the node that it comes from. Empty: there is none now.
    virtual Fd take(NodeId* from) = 0;
};

struct NodeStreams {
    // `streams`: on which connections come, as a PortShare has them. `nodes`: by NodeId. Null: `error` says
    // why.
    std::unique_ptr<StreamDoor> (*open_door)(NodeId self, std::span<const NodeAddress> nodes, Fd streams,
                                             uint64_t limit_ns, std::string* error);
    // Waits for at most limit_ns. `addresses`: of the other node's port (tcp/addresses.h). Empty: `error`
    // says why.
    Fd (*connect)(const StreamEnd& self, const StreamEnd& to, std::span<const std::byte> addresses,
                  uint64_t limit_ns, std::string* error);
};

}  // namespace longshore
