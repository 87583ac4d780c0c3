// A fabric moves control messages between service processes, and bytes between ranks' memory on their behalf.
// Polled completions, no callbacks, one thread. The contracts are tests (tests/conformance), run on every
// fabric:
//   - every accepted read, write or copy yields exactly one event;
//   - messages between two members arrive once, in order; one sent after a completion is seen after the
//   bytes;
//   - `again` changes nothing; zero-byte transfers complete; a poll never blocks longer than it was told;
//   - after a peer is reported lost, every operation to it still completes, with an error.
#pragma once

#include <span>
#include <string>

#include "engine/service_engine.h"

namespace longshore {

enum class Post : uint8_t { kAccepted, kAgain };

struct FabricEvent {
    // kImported: of an ImportingFabric alone.
    enum class Kind : uint8_t { kMessage, kMoved, kImported, kPeerLost };
    Kind kind = Kind::kMessage;
    uint64_t id = 0;                         // kMoved, kImported: as posted
    MoveResult result = MoveResult::kMoved;  // kMoved
    uint64_t region = 0;                     // kImported: by which it is read; 0: it could not be imported
    ServiceAddress peer;                     // kMessage: from; kPeerLost
    std::span<const std::byte> message;      // kMessage: valid until the next poll

    static FabricEvent moved(uint64_t id, MoveResult result) {
        FabricEvent event;
        event.kind = Kind::kMoved;
        event.id = id;
        event.result = result;
        return event;
    }
    static FabricEvent imported(uint64_t id, uint64_t region) {
        FabricEvent event;
        event.kind = Kind::kImported;
        event.id = id;
        event.region = region;
        return event;
    }
    static FabricEvent lost(ServiceAddress peer) {
        FabricEvent event;
        event.kind = Kind::kPeerLost;
        event.peer = peer;
        return event;
    }
};

struct FabricCounters {
    uint64_t messages_sent = 0, messages_received = 0;
    uint64_t refused = 0;  // connections, messages and moves that were out of bounds or not entitled
    uint64_t dropped = 0;  // messages to lost or unknown peers
    // Of ranks' memory, by how it was reached: mapped here, by way of the system, through a chunk of our own.
    uint64_t bytes_mapped = 0, bytes_peer_copied = 0, bytes_bounced = 0;
    uint64_t bytes_to_host = 0;  // of a DPU: into memory of ranks, which is on its host
};

// All of a fabric but how it reads memory of other nodes.
class FabricBase {
  public:
    virtual ~FabricBase() = default;

    // A control message of at most kFrameBytesMax bytes; the fabric has copied it when this returns. A peer
    // that is not connected yet is connected on the way (kAgain meanwhile).
    virtual Post send(ServiceAddress to, std::span<const std::byte> message) = 0;
    // Between two ranks of this node, or one of them and the staging memory of this member (kStaging).
    // `working_set`: bytes that the operation reads and writes on this node, 0: not known; for the choice of
    // how to copy.
    virtual Post copy(const MemoryRef& from, const MemoryRef& to, uint64_t bytes, uint64_t id,
                      uint64_t working_set = 0) = 0;
    // Whether send_along() does anything.
    virtual bool sends_along() const { return false; }
    // A block of a rank of this node will be read at `to`, which the next message there says: it goes behind
    // that, and need not wait to be asked for. A hint: a read whose block does not come so asks all the same.
    // What a read gets is as the bytes are while the block has not been read.
    virtual void send_along(ServiceAddress to, const BlockName& block, const RegionName& region,
                            uint64_t offset, uint64_t bytes) {
        (void)to, (void)block, (void)region, (void)offset, (void)bytes;
    }
    // From this process into a rank of this node; the bytes are borrowed until the event.
    virtual Post write(std::span<const std::byte> from, const MemoryRef& to, uint64_t id) = 0;
    // At most events.size() events; waits up to wait_ns for the first, or for a ring of this member's
    // doorbell.
    virtual size_t poll(std::span<FabricEvent> events, uint64_t wait_ns) = 0;
    // Wakes sleepers of this node.
    virtual void wake(const WakeSet& sleepers) = 0;
    // About every 50 ms, while anything posted has not ended: what got no answer may be asked for again.
    virtual void on_tick() {}

    virtual FabricCounters counters() const { return {}; }
    // What went wrong since the last call, for the user; empty if nothing did. Each cause is told once.
    virtual std::string take_problem() { return {}; }
};

class Fabric : public FabricBase {
  public:
    // From a region of another node, of a rank or staging memory, into a rank of this node, or into staging
    // memory. Where ranks are on another machine, from staging memory into such alone. `owner`: a service
    // process of that node; of staging memory the one whose it is. A region that is gone, or never was, or
    // whose owner is lost makes the read fail. `part`: what these bytes are of a block that its source may
    // have sent along; null: of none.
    virtual Post read(ServiceAddress owner, const RegionName& region, uint64_t offset, const MemoryRef& to,
                      uint64_t bytes, uint64_t id, const AlongPart* part = nullptr) = 0;
};

}  // namespace longshore
