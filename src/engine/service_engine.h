// A service process's side: moves blocks between ranks of its node (the same claims as waiting ranks use),
// tells other nodes' service processes what may be read, reads what they tell, at most reads_max at a time,
// and acknowledges. Pure: events in, actions out; no clock, heap, I/O or thread. Everything it knows is soft:
// the records hold the truth, and a restarted service process finds all of it there.
//
// Papers: S0 (notification, receiver-paced ring, late arrivals); see docs/protocol.md.
#pragma once

#include <span>

#include "engine/message.h"
#include "engine/mover.h"

namespace longshore {

struct ServiceLimits {
    uint32_t nodes_max = 1;  // of the job
    uint32_t services_per_node_max = 1;
    // Operations looked at, at once. Not a pool that may run full: at least as many as the ranks served can
    // have open (what is never used is never touched).
    uint32_t watches_max = 1 << 16;
    uint32_t group_size_max = 1024;
    uint32_t reads_max = 64;                // in flight
    uint32_t reads_queued_max = 8192;       // blocks that can be read and wait for their turn
    uint32_t rows_max = 8192;               // told of by others and not all read (RowEntry)
    uint32_t eager_max = 512;               // small blocks kept that came before their rows; others are read
    uint32_t frame_bytes = kFrameBytesMax;  // of a control message, at most kFrameBytesMax
    uint32_t eager_bytes = kEagerBytesMax;
    // A service process that has moved so much without a pause lets idle ones of its node take of its work; a
    // move counts as 4 KiB more than it moves. 0: never.
    uint32_t help_bytes = 512 * 1024;
    // Ticks after which what has been told and not acknowledged is told again; 0: never, as requests and
    // greetings see to all that was lost. Each time twice as many, up to 128.
    uint32_t repeat_ticks = 4;
    // Staging memory of the service process: so many slots of so many bytes; 0: it has none.
    uint32_t staging_slots = 0, staging_slot_bytes = 64 * 1024;
    bool staging_only = false;  // the fabric moves nothing from one rank's memory into another's
    bool sends_along = false;   // it carries out kSendAlong
    uint32_t serial = 0;        // serial numbers of its slots and requests begin after it
};

// A region of a rank of another node in one of its uses, or the staging memory of one of that node's service
// processes (kStaging, its number, its incarnation).
struct RegionName {
    LocalRank rank;
    RegionId region;
    uint32_t generation = 0;
    bool operator==(const RegionName&) const = default;
};

// Where the first byte of a read lies in its block, which was sent along (kSendAlong).
struct AlongPart {
    BlockName block;
    uint64_t offset = 0;
};

struct Action {
    enum class Kind : uint8_t {
        kCopy,       // move a claimed chunk between two ranks of this node; then finish_copy(copy, result)
        kRead,       // read from another node's rank into one of ours; then finish_read(read_id, result)
        kMove,       // between a rank of this node and our staging memory; then finish_read(id, result)
        kWrite,      // a small block that has come into a rank's memory; then finish_read(id, result)
        kSend,       // a frame to another service process
        kSendAlong,  // a block that the next frame to `peer` tells it of: it will be read there. A hint.
    };
    Kind kind = Kind::kCopy;
    Copy copy;                        // kCopy
    uint32_t id = 0;                  // kRead, kMove, kWrite
    MemoryRef from;                   // kMove
    MemoryRef to;                     // kRead (or our staging memory), kMove, kWrite
    uint64_t offset = 0, bytes = 0;   // kRead, kMove, kWrite, kSendAlong
    ServiceAddress peer;              // kSend, kSendAlong: to; kRead: a service process of the region's node
    RegionName name;                  // kRead: from; kSendAlong: of a rank of ours
    AlongPart part;                   // kSendAlong; kRead, where `along`
    bool along = false;               // kRead: the block was to be sent along, and may be here
    std::span<const std::byte> data;  // kSend: valid until the next call of next(); kWrite: until finish_read
};

// What came for ranks that had not entered (paper S0, IV.D-G), of one collective. A late row of the
// alltoall family waits for its ranks; one of the allgather family is handed on to a service process with a
// rank that has entered (rescued), or waits until there is one (parked).
struct LateCounters {
    uint64_t received = 0;  // rows from other nodes, late or not, repeated ones too
    uint64_t late = 0, handed_on = 0, rescued = 0;
    uint64_t parked = 0, parked_ns = 0, parked_longest_ns = 0;  // times: of those that this one took back
    uint64_t readers = 0;  // shared blocks for which this one named the rank of the node that reads them
};

struct ServiceCounters {
    uint64_t copies = 0, reads = 0, unparked = 0, notifications = 0, notifications_resent = 0, dropped = 0,
             stale_messages = 0, malformed_messages = 0, duplicates = 0, eager_blocks = 0, pool_full = 0,
             bytes_between_nodes = 0, bytes_staged = 0, staged_for_others = 0, bytes_relayed = 0,
             relays_refused = 0, relays_overdue = 0;
    // Moves for ranks of other service processes of the node, which had too much to do; of those, from other
    // nodes.
    uint64_t taken = 0, taken_reads = 0;
    uint64_t reads_by_rank_max = 0;
    LateCounters late[kCollectives];

    LateCounters& late_of(Collective c) { return late[static_cast<uint32_t>(c)]; }
    const LateCounters& late_of(Collective c) const { return late[static_cast<uint32_t>(c)]; }
};

class ServiceEngine {
  public:
    static size_t bytes_needed(const NodeLimits& node, const ServiceLimits& limits);
    // `block`: bytes_needed(), 64-aligned. Frees the claims of this service's earlier incarnations
    // and says hello to all peers, so that they tell again what was not acknowledged.
    ServiceEngine(void* block, const NodeMemory& memory, ServiceId self, uint16_t incarnation,
                  const ServiceLimits& limits, WakeSet* wake);

    // Nodes of the job and their service processes: known once, before messages flow. counts[n]: of node n.
    void set_peers(std::span<const uint16_t> services_of_node);

    // The time, before events and next(): only differences count, but those between all service processes of
    // a node. For the counters alone.
    void set_now(uint64_t ns);

    // --- events
    // A frame from a peer. Borrowed for the call.
    void on_frame(std::span<const std::byte> frame, WakeSet* wake);
    void finish_copy(const Copy& copy, MoveResult result, WakeSet* wake);
    void finish_read(uint32_t id, MoveResult result, WakeSet* wake);
    // The fabric lost a peer for good (its node is gone): operations that need it end in kServiceLost.
    void on_peer_lost(ServiceAddress peer, WakeSet* wake);
    // About every 50 ms: tells again what nobody has acknowledged for long (a net, not the mechanism).
    void on_tick(WakeSet* wake);

    // --- actions
    // The next thing to do; false: nothing until an event, a doorbell or a new record. The driver carries it
    // out before it asks again; if the fabric says `again` it keeps the action and tries that one first.
    bool next(Action* out, WakeSet* wake);

    // Bytes of reads in flight, at most; one is posted in any case. Before the first call there is no limit
    // but reads_max.
    void set_read_window(uint64_t bytes);

    // Without a core of its own: blocks of ranks that wait and move them themselves are left to them, as long
    // as they do. After a next() that found nothing else to do, yielded() says that there were such; look
    // again soon.
    void yield_to_waiting_ranks(bool on);
    bool yielded() const;
    // A rank of this node waits for its operations.
    bool somebody_waits() const;

    const ServiceCounters& counters() const { return counters_; }
    // Nothing watched, queued, held or in flight.
    bool idle() const;

  private:
    struct Parts;  // engine/service/parts.h
    Parts* parts_ = nullptr;
    ServiceCounters counters_;
};

}  // namespace longshore
