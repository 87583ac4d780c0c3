// The inside of ServiceEngine, shared by its .cc files and nobody else. Everything lies in the caller's
// block.
#pragma once

#include <new>

#include "base/prng.h"
#include "engine/completion.h"
#include "engine/service_engine.h"

namespace longshore {

constexpr uint32_t kNone = UINT32_MAX;
// Regions asked for and not yet imported: the other side keeps a place for each, we a descriptor.
constexpr uint32_t kRequestedMax = 64;
constexpr uint32_t kDroppedMarks = 1u << 12;
// Notifications that were lost for want of room.
struct DroppedMark {
    uint32_t tag = 0;   // of what, by hash; of several: no tag of one
    uint32_t when = 0;  // the last was; 0: none was
};
constexpr uint32_t kRelayChildrenMax = 12;  // a binomial tree of 4,096 nodes
constexpr uint32_t kPinsOfChildMax = 256;   // slots that one service process is offered at once
// In the id of an action: it belongs to a staged move.
constexpr uint32_t kMoveId = 0x80000000u;

// A list threaded through an array of T by T::next. First in, first out.
struct List {
    uint32_t head = kNone, tail = kNone, count = 0;
};
template <class T>
void push_back(T* items, List* list, uint32_t i) {
    items[i].next = kNone;
    if (list->tail == kNone) {
        list->head = i;
    } else {
        items[list->tail].next = i;
    }
    list->tail = i;
    ++list->count;
}
template <class T>
uint32_t pop_front(T* items, List* list) {
    const uint32_t i = list->head;
    if (i == kNone) return kNone;
    list->head = items[i].next;
    if (list->head == kNone) list->tail = kNone;
    --list->count;
    return i;
}

// Items handed out and taken back; the last one given back is the next one taken, and what was never taken
// was never touched: a pool costs what its busiest moment needed.
template <class T>
struct Pool {
    T* items = nullptr;
    List free;
    uint32_t made = 0, max = 0;
    uint32_t take() {
        uint32_t i = free.head;
        if (i != kNone) {
            free.head = items[i].next;
            if (free.head == kNone) free.tail = kNone;
            --free.count;
        } else if (made < max) {
            i = made++;
        } else {
            return kNone;
        }
        new (&items[i]) T;
        return i;
    }
    void give(uint32_t i) {
        items[i].next = free.head;
        free.head = i;
        if (free.tail == kNone) free.tail = i;
        ++free.count;
    }
    uint32_t in_use() const { return made - free.count; }
    uint32_t room() const { return max - in_use(); }
    T& operator[](uint32_t i) const { return items[i]; }
};

struct EagerBytes {
    uint32_t next = kNone;
    std::byte bytes[kEagerBytesMax];
};

// An operation of ranks of this service process, all of them together (service_turns.cc).
struct Share {
    uint32_t next = kNone;   // in State::shares
    uint32_t chain = kNone;  // in its hash chain
    OperationId operation;
    uint64_t bytes = 0;      // that our ranks receive in it
    uint32_t its_class = 0;  // by them
    uint32_t watch = kNone;  // in the ring of its watches: to look at next
    uint32_t watch_count = 0;
    uint32_t queued_count = 0;    // entries in the read queue
    uint32_t request_credit = 0;  // requests to send before the queue is looked at again
    bool requested = false;       // a batch of requests has gone out
    List ready;                   // blocks to be read, in order
    List landed;                  // shared blocks to be given to others of the node
};

// Operations of about one size.
struct ShareClass {
    uint32_t shares = kNone;  // in the order in which they are served
    uint64_t served = 0;      // bytes that all of it have had, counted from the level at which it came
};
constexpr uint32_t kShareClasses = 16;

// An operation of one of this service process's ranks.
struct Watch {
    uint32_t next = kNone;
    uint32_t share = kNone, share_next = kNone, share_previous = kNone;
    bool used = false;
    bool helps = false;  // of a rank of another service process of the node: we only take of its work
    LocalRank local;
    RecordId record;
    RecordLook seen;
    uint32_t local_index = 0;
    MoverCursor incoming;
    uint32_t landing_chunk = 0;  // of the rank's own block, to look at next
    CompletionCursor done;
    bool completed = false;   // ... and the rank told so
    uint32_t lap_events = 0;  // the doorbell count when the present lap over incoming blocks began
    bool lap_over = false;    // ... and nothing was left to do in it
    bool several_nodes = false;
    uint32_t due_count = 0;     // notifications to send
    uint32_t due_next = 0;      // where to go on
    uint32_t queued_count = 0;  // entries in the read queue
    uint32_t request_next = 0;  // of wanted(), all before are clear; size: none is set
    uint32_t resend_ticks = 0, resend_after = 0;
    bool unacknowledged = false;  // something was notified and not acknowledged yet
    bool repeats = false;         // ... and perhaps not for the first time
};

// A notification whose destination rank has entered: its block is to be read.
struct QueuedRead {
    // waiting for its region; in the ready list; chunks to come from its relay's parent; all chunks taken;
    // chunks held by others; acknowledgement to be sent
    enum class Place : uint8_t { kWaiting, kReady, kAwaiting, kIssued, kStalled, kOver };
    uint32_t next = kNone;
    Place place = Place::kWaiting;
    uint32_t watch = kNone;
    uint64_t generation = 0;  // of the record
    Notification n;
    uint32_t import = kNone;  // the region to read from; kNone: eager
    uint32_t chunk = 0;       // to look at next
    uint32_t in_flight = 0;
    bool failed = false;
    bool cancelled = false;  // its operation is over already, its watch gone
    bool lent = false;       // another service process has been told of it, too
    ServiceId keeper;        // who answers for it: us, or who lent it to us
    uint32_t eager = kNone;  // the block itself, where it came along and there was room to keep it
    uint32_t relay = kNone;
};

// A notification that came before its destination entered.
struct Held {
    uint32_t next = kNone;
    Notification n;
    uint32_t eager = kNone;
};

struct Import {
    enum class State : uint8_t { kUnused, kRequest, kRequested, kArrived, kImporting, kReady, kFailed };
    uint32_t next = kNone;  // in its hash chain
    State state = State::kUnused;
    ServiceAddress origin;
    LocalRank owner;
    RegionId region;
    uint32_t generation = 0;
    ImportHandle handle = 0;
    uint32_t users = 0;  // queued reads
    uint32_t attempts = 0;
    bool listed = false;          // in to_request, perhaps since an earlier use
    List waiting;                 // queued reads until it is ready
    uint32_t descriptor = kNone;  // from its arrival until the fabric has made sense of it
};

struct DescriptorBytes {
    uint32_t next = kNone;
    uint32_t count = 0;
    std::byte bytes[kDescriptorBytesMax];
};

struct Link {
    uint32_t next;
};

// A shared block that one of our ranks has read: it is to be given to the others of the node.
struct Landed {
    uint32_t next = kNone;
    GroupSlot group;
    GroupId id;
    uint64_t sequence = 0;
    Rank source;
    uint32_t local_next = 0;  // local member to look at
    uint32_t chunk = 0;
};

struct ReadInFlight {
    uint32_t next = kNone;
    uint32_t queued = kNone;
    uint64_t claim_offset = 0;
    uint64_t bytes = 0;
};

// A chunk on its way through a slot of staging memory, in as many pieces as it takes: fetched, then delivered
// to its destination and, where the block is shared, to the node's other ranks that lack it. One fabric
// operation at a time; several slots keep several in flight.
struct StagedMove {
    uint32_t next = kNone;
    uint32_t queued = kNone;  // whose block this is a chunk of, where it comes from another node
    uint32_t chunk = 0;       // ... and which
    Copy copy;                // from another node: where it goes; else where it comes from, too
    uint64_t done = 0;        // bytes delivered before the present piece
    bool fetched = false;     // the present piece is in the slot
    uint32_t target = kNone;  // local index delivered to; kNone: the destination of `copy`
    bool settled = false;     // that one's chunk is
    uint64_t others[kRanksPerNodeMax / 64] = {};  // local indices whose chunk we hold, too
    bool over = false;                            // ... but for other service processes that read the slot:
    uint32_t offered = kNone;                     // whose slot it is read from; kNone: the source's memory
    uint32_t serial = 0;
    uint32_t pin_count = 0;
    struct Pin {
        ServiceAddress at;
        uint32_t incarnation;
    } pins[kRelayChildrenMax] = {};
};

// Where a node stands in a broadcast from service process to service process: the nodes of the group in order
// of their ids, beginning with the source's. Few chunks go down a binomial tree; many are scattered, and each
// goes round a ring from the node that has read it.
struct RelayTree {
    uint32_t index = 0, count = 0;
    bool ring = false;
    uint32_t parent() const {
        if (!ring) return index & (index - 1);
        return index == 1 ? count - 1 : index - 1;
    }
    uint32_t scattered_to(uint64_t chunk) const { return static_cast<uint32_t>(chunk % (count - 1)) + 1; }
    // Read from the source itself.
    bool is_own(uint64_t chunk) const { return ring ? scattered_to(chunk) == index : parent() == 0; }
};

// A block of a broadcast in our read queue: chunks come from the parent's staging memory, and go on to
// children that asked for them. All this only saves the source work: whoever does not get a chunk so reads it
// at the source, which is told when all have it.
struct Relay {
    uint32_t next = kNone;
    uint32_t queued = kNone;  // kNone: not in use
    OperationId operation;
    Rank source;
    RelayTree tree;
    NodeId parent;
    uint64_t ticket = 0;
    bool asks = false;  // chunks that are not our own come from the parent
    bool want_due = false;
    uint32_t offer_count = 0;  // in `offers`
    bool passed = false;       // there will be no more
    uint32_t ticks = 0;        // since we heard of the parent
    uint32_t import = kNone;   // the parent's staging memory
    uint32_t child_count = 0;
    struct Child {
        ServiceAddress at;
        uint64_t ticket = 0;
        uint32_t index = 0;  // in the tree
    } children[kRelayChildrenMax] = {};
};

struct HeldWant {
    uint32_t next = kNone;
    Relayed want;
    uint32_t ticks = 0;
};

struct Offered {
    uint32_t next = kNone;
    ServiceAddress from;
    uint32_t incarnation = 0;  // of `from`
    Relayed offer;
    bool over = false;  // to be told so
};

struct DuePass {
    uint32_t next = kNone;
    ServiceAddress to;
    uint64_t ticket = 0;
};

// A block of one of our ranks that goes out with its notification.
struct DueAlong {
    uint32_t next = kNone;
    ServiceAddress to;
    BlockName block;
    RegionName region;
    uint64_t offset = 0, bytes = 0;
};

struct RegionReply {
    uint32_t next = kNone;
    ServiceAddress peer;
    LocalRank owner;
    RegionId region;
    uint32_t generation = 0;
};

struct Peer {
    uint32_t incarnation = 0;  // newest heard of
    bool lost = false;
    bool hello_due = false;
    uint32_t pins = 0;  // slots of ours that it may still read
    bool open = false;  // a frame has been begun
    FrameWriter frame;
};

struct ServiceEngine::State {
    NodeMemory memory;
    ServiceId self;
    uint16_t incarnation;
    ServiceLimits limits;
    ServiceCounters* counters;
    Mover mover;
    WorkerId worker;

    Pool<Watch> watches;
    uint32_t* watch_of;     // [ranks_max][records_max]: watch + 1
    uint64_t* due;          // [watches_max][words]: notifications to send, by destination rank or node
    uint64_t* queued_bits;  // [watches_max][words]: sources whose block is in the read queue
    uint64_t* wanted_bits;  // [watches_max][words]: sources whose notification was perhaps dropped
    uint32_t words;         // per watch
    Pool<Share> share_pool;
    ShareClass classes[kShareClasses];
    uint32_t serving = kNone;  // the one at hand
    uint32_t* share_buckets;
    uint32_t share_bucket_count;
    uint64_t level = 0;         // what the class that was served last had had before
    uint32_t watches_used = 0;  // highest in use + 1
    uint32_t watch_count = 0;
    uint32_t help_events = 0;            // doorbell count when there was nothing to do for others' ranks
    bool help_over = false;              // ... if so
    bool helping = false;                // taking turns for others' ranks
    uint64_t run_bytes = 0;              // moved since there was nothing to do
    uint64_t offer_at = 0, ring_at = 0;  // when others are to be asked for help next, or even woken for it
    uint32_t scan_events = 0;            // doorbell count at the last scan for new records
    bool scan_needed = true;
    bool yields = false;        // to ranks that wait
    bool yielded = false;       // in the present lap over the watches
    bool settled_some = false;  // since completions were told

    Pool<QueuedRead> queue;
    List stalled, cancelled;  // blocks to be read are in their share's list
    Pool<ReadInFlight> reads;
    uint64_t reading_bytes = 0;  // of those in use
    uint64_t read_window = UINT64_MAX;
    Pool<StagedMove> moves;  // one for each slot
    List moves_due;          // whose next fabric operation is to be posted
    uint32_t move_serial = 0;
    uint32_t pinned = 0;  // moves whose slot others read
    Pool<Relay> relays;
    Pool<HeldWant> wants;  // that came before their block's notification
    List held_wants;
    Pool<Offered> offered;
    List offers;  // to be taken, or over
    Pool<DuePass> passes;
    List due_passes;
    uint32_t ticket_count = 0;
    uint64_t* node_bits;  // [words] of relay_tree()
    uint32_t staging_descriptor_bytes = 0;
    std::byte staging_descriptor[kDescriptorBytesMax];
    Pool<EagerBytes> eager;
    Pool<Landed> landed_pool;
    List unacknowledged;  // over, acknowledgement not yet in a frame

    Pool<Held> held;
    List* held_buckets;
    uint32_t held_bucket_count;
    DroppedMark* dropped_marks;  // which (operation, rank) lost a notification to a full pool, by hash
    uint32_t dropped_seen = 0;   // the node's dropped_count when our operations last looked

    Import* imports;
    uint32_t* import_buckets;
    uint32_t import_bucket_count;
    uint32_t import_clock = 0;
    Link* import_links;  // through the two lists of imports:
    List to_request, arrived;
    Pool<DescriptorBytes> descriptors;
    uint32_t imports_used = 0;       // named by a queued read
    uint32_t imports_requested = 0;  // asked for and not yet imported
    uint32_t parked_seen = 0;        // the node's parked_events when we last looked
    bool parked_left = false;        // ... and something was there that is not for us yet
    ImportHandle forget = 0;         // evicted, to be told to the fabric
    bool forget_pending = false;

    Pool<DueAlong> alongs;
    List due_alongs;
    Pool<RegionReply> replies;
    List due_replies;

    Peer* peers;            // [nodes_max][services_per_node_max]
    uint16_t* services_of;  // [nodes_max]
    uint32_t flush_round = 0;
    bool frames_pending = false;
    bool frame_full = false;   // somebody had to stop for want of room
    uint32_t since_frame = 0;  // actions since the last one
    std::byte* frames;         // [peers][frame_bytes], and one more: the one being sent
    bool any_lost = false;
    uint32_t reader_round = 0;
    uint64_t now_ns = 0;         // what the driver said last
    bool taking_parked = false;  // the notification at hand was counted when it was parked

    struct CachedGroup {
        uint64_t id;
        uint32_t slot;
    };
    CachedGroup* group_cache;  // direct mapped

    // --- service_engine.cc
    Peer& peer(ServiceAddress a) const {
        return peers[a.node.value * limits.services_per_node_max + a.service.value];
    }
    bool known(ServiceAddress a) const {
        return a.node.value < limits.nodes_max && a.service.value < limits.services_per_node_max;
    }
    ServiceAddress address(uint32_t p) const {
        return {NodeId{static_cast<uint16_t>(p / limits.services_per_node_max)},
                ServiceId{static_cast<uint16_t>(p % limits.services_per_node_max)}};
    }
    ServiceAddress here() const { return {memory.node(), self}; }
    bool add(ServiceAddress to, const Message& m);  // false: no room until a frame has gone
    bool next_frame(Action* out);
    const GroupEntry* find_group(GroupId id, GroupSlot* slot);
    void scan(ServiceId of, WakeSet* wake);
    void tell_completions();
    void lose(uint32_t w, ServiceAddress lost, WakeSet* wake);
    uint32_t watch_record(LocalRank local, RecordId record, WakeSet* wake);
    void drop_watch(uint32_t w);
    bool still(const Watch& w) const;
    uint64_t* due_bits(uint32_t w) { return due + uint64_t{w} * words; }
    uint64_t* queued(uint32_t w) { return queued_bits + uint64_t{w} * words; }
    uint64_t* wanted(uint32_t w) { return wanted_bits + uint64_t{w} * words; }

    // --- service_turns.cc: whose turn it is
    void join_share(uint32_t w);
    void leave_share(uint32_t w);
    void sort_in(uint32_t share);
    void unlink_share(uint32_t share);
    void drop_share(uint32_t share);
    bool next_turn(Action* out, uint32_t events, WakeSet* wake);
    bool serve(Share& s, Action* out, uint32_t events, WakeSet* wake);
    void charge(const Share& s, uint64_t bytes);
    bool next_copy(Share& s, Action* out, uint32_t events);
    bool claim(Watch& w, Copy* out);
    void make_ready(uint32_t q);
    void retire_cancelled(WakeSet* wake);

    // --- service_balance.cc: between the service processes of a node
    ServiceLoad load_of(ServiceId s) const;
    void set_load(ServiceLoad load);
    void note_pause();
    void offer(WakeSet* wake);
    void lend(ServiceId to);
    uint32_t lend_of(Share& s, ServiceId to, uint32_t blocks_max);
    void on_lent(const Notification& n, WakeSet* wake);
    bool help(Action* out, uint32_t events, WakeSet* wake);

    // --- service_notify.cc: our ranks' blocks, told to others
    void plan_notifications(uint32_t w);
    bool send_notifications(uint32_t w);
    bool goes_along(const Watch& w, ServiceAddress to, const Notification& n) const;
    void send_along(ServiceAddress to, const Notification& n);
    bool next_along(Action* out);
    void rearm(uint32_t w, const ServiceAddress* only);
    void on_acknowledge(const Acknowledgement& a, WakeSet* wake);
    void on_request(const Request& r, WakeSet* wake);
    void on_region_request(ServiceAddress from, const RegionMessage& m);
    bool send_replies();
    void resync(ServiceAddress with);

    // --- service_arrival.cc: others' blocks, as we are told of them
    void on_notification(const Notification& n, WakeSet* wake);
    void place_shared(GroupSlot slot, const Notification& n, WakeSet* wake);
    bool ours(uint32_t w, GroupSlot slot, const Notification& n, WakeSet* wake);
    void hold(const Notification& n, WakeSet* wake);
    void take_held(uint32_t w, WakeSet* wake);
    void park(const Notification& n, WakeSet* wake);
    void take_parked(WakeSet* wake);
    void count_unparked(Collective collective, uint64_t since_ns);

    // --- service_receive.cc: ... and read them
    void enqueue(uint32_t w, const Notification& n, WakeSet* wake);
    bool next_read(Share& s, Action* out, WakeSet* wake);
    bool take_chunk(uint32_t q, uint32_t chunk, MemoryRef* to, uint64_t* bytes, uint64_t* claim_offset);
    void finish_queued(uint32_t q, WakeSet* wake);
    void give_to_node(uint32_t w, Rank source, WakeSet* wake);
    bool next_landed(Share& s, Action* out);
    void settle_read(uint32_t q, uint64_t claim_offset, uint64_t bytes, MoveResult result, WakeSet* wake);
    void fail_queued(uint32_t q, OperationError error, WakeSet* wake);
    bool fail_block(uint32_t w, Rank source, OperationError error, WakeSet* wake);
    void retire_queued(uint32_t q, WakeSet* wake);
    void retry_stalled();
    bool elsewhere(const Watch& w, Rank source) const;
    Notification block_for(uint32_t w, Rank source) const;
    bool request(uint32_t w, Rank source);
    void want(uint32_t w, Rank source);
    void want_all(uint32_t w);
    void acknowledge_wanted(uint32_t w);
    void answer(const Notification& n, bool failed);
    bool acknowledge(const Notification& n, bool failed);
    void send_acknowledgements();
    void send_requests(uint32_t w);
    void note_dropped(const Notification& n, WakeSet* wake);
    void request_if_dropped(uint32_t w);
    void cancel_reads(uint32_t w);

    // --- service_staging.cc: through memory of our own
    bool is_staged(const Watch& w) const {
        return limits.staging_slots != 0 && (limits.staging_only || w.seen.algorithm == Algorithm::kStaged);
    }
    uint32_t stage_read(uint32_t q, uint32_t chunk, uint64_t claim_offset, const MemoryRef& to,
                        uint64_t bytes);
    bool staged(Action* copy);
    bool next_move(Action* out);
    void finish_move(uint32_t id, MoveResult result, WakeSet* wake);
    void fail_move(uint32_t id, MoveResult result, WakeSet* wake);
    void end_move(uint32_t id, WakeSet* wake);
    void settle_target(StagedMove& m, MoveResult result, WakeSet* wake);
    void choose_others(StagedMove& m, WakeSet* wake);
    bool other_chunk(const StagedMove& m, uint32_t local_index, bool claim, Copy* copy) const;
    bool next_target(StagedMove& m) const;
    Block block_of(const Copy& copy) const;
    MemoryRef target_of(const StagedMove& m) const;
    uint64_t chunk_offset(const StagedMove& m) const;

    // --- service_relay.cc: broadcasts from service process to service process
    RelayTree relay_tree(const GroupEntry& group, NodeId source, NodeId of, uint64_t chunks);
    NodeId relay_node(NodeId source, uint32_t index) const;
    void begin_relay(uint32_t q);
    void end_relay(uint32_t q);
    void go_alone(Relay* r);
    void leave_parents(NodeId node);
    Relay* find_relay(const OperationId& operation, Rank source);
    bool awaits(const QueuedRead& q, uint32_t chunk) const;
    void on_want(const Relayed& want, uint32_t ticks);
    bool adopt(Relay* r, const Relayed& want);
    void answer_held_wants();
    void offer_chunk(uint32_t move);
    bool offer_to(const Relay::Child& child, uint32_t move);
    bool skip_chunk(const Relay::Child& child, uint64_t offset);
    void dismiss(Relay* r, uint32_t child);
    void dismiss_all(Relay* r);
    void pass(ServiceAddress to, uint64_t ticket);
    void on_offer(ServiceAddress from, uint32_t from_incarnation, const Relayed& offer);
    void on_pass(const Relayed& m);
    void on_taken(ServiceAddress from, const Relayed& m);
    bool next_offered(Action* out);
    enum class Took : uint8_t { kYes, kLater, kNo };
    Took take_offer(Relay* r, uint32_t o);
    Relay* asking(uint64_t ticket);
    void return_offer(uint32_t move);
    void end_offer(uint32_t move);
    void unpin(uint32_t move, uint32_t pin);
    void drop_pins(ServiceAddress of, uint32_t incarnation);
    void send_relay_messages();
    void tick_relays();

    // --- service_imports.cc: regions of other nodes' ranks
    uint32_t import_for(ServiceAddress origin, LocalRank owner, RegionId region, uint32_t generation);
    bool next_import(Action* out, WakeSet* wake);
    void ask_for(uint32_t i);
    void on_region(ServiceAddress from, const RegionMessage& m, WakeSet* wake);
    void import_done(uint32_t i, ImportHandle region, bool ok, WakeSet* wake);
    void unuse_import(uint32_t i);
    void lose_imports(ServiceAddress lost, WakeSet* wake);
    void fail_import(uint32_t i, OperationError error, WakeSet* wake);
    uint32_t keep_eager(std::span<const std::byte> bytes);
    void drop_eager(uint32_t* e);
};

inline bool test_bit(const uint64_t* bits, uint32_t i) {
    return (bits[i / 64] >> (i % 64) & 1) != 0;
}
inline void set_bit(uint64_t* bits, uint32_t i) {
    bits[i / 64] |= uint64_t{1} << (i % 64);
}
inline void clear_bit(uint64_t* bits, uint32_t i) {
    bits[i / 64] &= ~(uint64_t{1} << (i % 64));
}

}  // namespace longshore
