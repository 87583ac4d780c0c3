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

// A small block that has come before its row. It is kept until it is written or its row is over.
struct SmallBytes {
    uint32_t next = kNone;
    uint32_t chain = kNone;  // in its hash chain
    OperationId operation;
    Rank source;
    uint32_t destination = 0;
    ServiceAddress origin;
    uint32_t count = 0;
    std::byte bytes[kEagerBytesMax];
};

// An operation that ranks of this service process have entered, or that other nodes have told of.
struct Share {
    uint32_t next = kNone;   // in its class
    uint32_t chain = kNone;  // in its hash chain
    OperationId operation;
    // Its turns (service_turns.cc).
    bool sorted = false;        // in the list of its class
    uint64_t bytes = 0;         // that our ranks receive in it
    uint32_t its_class = 0;     // by them
    uint32_t watch = kNone;     // in the ring of its watches: to look at next
    uint32_t watch_count = 0;   // of them,
    uint32_t own_count = 0;     // of ranks of this service process
    uint32_t queued_count = 0;  // entries in the read queue
    List ready;                 // blocks to be read, in order
    List landed;                // shared blocks to be given to others of the node
    // What is to be told of it (service_tell.cc).
    uint32_t due_count = 0;  // pairs of a watch and a peer
    uint32_t due_next = 0;   // the peer to go on with
    // What others have told of it (service_told.cc).
    uint32_t rows_head = kNone, rows_tail = kNone;  // those that are whole, in the order of their arrival
    uint32_t row_count = 0;                         // whole or not
    uint32_t to_place = kNone;                      // the first shared row that may have no reader yet
    uint32_t unpulled = 0;                          // own watches that have rows to look at
    uint32_t pull_watch = kNone;                    // whose turn it is to look
    uint32_t waits_next = kNone;                    // in the list of shares that wait for a rank to enter
    bool waits = false;                             // in that list
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
    uint32_t due_count = 0;       // peers to be told
    uint32_t small_peer = kNone;  // the peer that small blocks are being sent to, or were last,
    uint32_t small_next = 0;      // ... and which of its ranks comes next
    uint32_t row_peer = kNone;    // the peer that has been told a part of a row,
    uint32_t spans_told = 0;      // ... so many spans of it
    uint32_t own_index = 0;       // among the ranks of this service process in the group
    uint32_t row_next = kNone;    // to look at next, of the rows that are no shared blocks
    uint32_t queued_count = 0;    // entries in the read queue
    uint32_t resend_ticks = 0, resend_after = 0;
    bool unacknowledged = false;  // something was told and not acknowledged yet
    bool repeats = false;         // ... and perhaps not for the first time
};

// A block that is to be read: it has been told of, and its destination rank has entered.
struct QueuedRead {
    // waiting for its region; in the ready list; chunks to come from its relay's parent; all chunks taken;
    // chunks held by others
    enum class Place : uint8_t { kWaiting, kReady, kAwaiting, kIssued, kStalled };
    uint32_t next = kNone;
    Place place = Place::kWaiting;
    uint32_t watch = kNone;
    uint32_t row = kNone;     // which it belongs to; kNone: it was lent to us
    LocalRank local;          // whose operation the watch is of
    uint64_t generation = 0;  // of the record
    RemoteBlock n;
    uint32_t import = kNone;  // the region to read from; kNone: small
    uint32_t chunk = 0;       // to look at next
    uint32_t in_flight = 0;
    bool failed = false;
    bool cancelled = false;  // its operation is over already, its watch gone
    bool lent = false;       // another service process has been told of it, too
    uint32_t small = kNone;  // the block itself, where it came before its row
    uint32_t relay = kNone;
};

// A row that another service process has told of, and of which not all blocks have been read.
struct RowEntry {
    uint32_t next = kNone;                   // in its batch, when it is over
    uint32_t before = kNone, after = kNone;  // in its share
    uint32_t chain = kNone;                  // in its hash chain
    uint32_t share = kNone, batch = kNone;
    uint64_t serial = 0;  // later rows have greater ones
    Row row;
    Collective collective = Collective::kAlltoall;
    LocalRank owner;         // the source, on its node
    uint32_t spans = kNone;  // kSpans: the first of its SpanChunks
    uint32_t left = 0;       // blocks of it that have not been settled
    uint32_t queued = 0;     // of those, in the read queue
    uint64_t since_ns = 0;   // when it began to wait for a rank to enter
    bool used = false;
    bool shared = false;   // of a shared block
    bool whole = false;    // all its parts have come
    bool waiting = false;  // no rank of the node has entered
    bool failed = false;   // some block of it could not be read
    bool over = false;     // to be acknowledged
};

constexpr uint32_t kSpansPerChunk = 16;
struct SpanChunk {
    uint32_t next = kNone;
    BlockSpan spans[kSpansPerChunk];
};

// What one service process has told of one operation: its rows are acknowledged together, if they are over at
// about the same time.
struct Batch {
    uint32_t next = kNone;   // of those with something to acknowledge
    uint32_t chain = kNone;  // of the same peer
    OperationId operation;
    ServiceAddress origin;
    uint32_t rows = 0;        // not over
    uint32_t queued = 0;      // blocks in the read queue
    uint32_t in_flight = 0;   // reads of its blocks
    List over;                // rows to be acknowledged
    uint64_t since_step = 0;  // when the first of those came
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
        uint64_t ticket;
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
    ServiceAddress parent_first;  // of its service processes, to be asked first
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

// A block of one of our ranks that goes out behind its row.
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
    bool again_due = false;    // something it has told was dropped for want of room
    uint32_t batches = kNone;  // what it has told of operations
    uint32_t pins = 0;         // slots of ours that it may still read
    bool open = false;         // a frame has been begun
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
    uint32_t* watch_of;  // [ranks_max][records_max]: watch + 1
    uint64_t* due;       // [watches_max][words]: peers of the group to be told
    uint32_t words;      // per watch
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
    Pool<HeldWant> wants;  // that came before their block was told of
    List held_wants;
    Pool<Offered> offered;
    List offers;  // to be taken, or over
    Pool<DuePass> passes;
    List due_passes;
    uint32_t ticket_count = 0;
    uint64_t* node_bits;  // [words] of relay_tree()
    uint32_t staging_descriptor_bytes = 0;
    std::byte staging_descriptor[kDescriptorBytesMax];
    Pool<Landed> landed_pool;

    Pool<RowEntry> rows;
    uint32_t* row_buckets;
    uint32_t row_bucket_count;
    uint64_t row_serial = 0;
    uint32_t evict_clock = 0;
    Pool<SpanChunk> spans;
    Pool<Batch> batches;
    List acknowledgements_due;  // batches
    Pool<SmallBytes> small;
    uint32_t* small_buckets;
    uint32_t small_bucket_count;
    uint32_t small_clock = 0;
    uint32_t waiting_shares = kNone;  // with shared rows that no rank of ours can read
    bool waiting_blocked = false;     // one of them could not be handed on for want of room in a frame
    bool ask_again = false;           // there may be room for what was dropped
    uint32_t again_count = 0;         // peers that have told what was dropped
    uint64_t steps = 0;               // actions so far

    Import* imports;
    uint32_t* import_buckets;
    uint32_t import_bucket_count;
    uint32_t import_clock = 0;
    Link* import_links;  // through the two lists of imports:
    List to_request, arrived;
    Pool<DescriptorBytes> descriptors;
    uint32_t imports_used = 0;       // named by a queued read
    uint32_t imports_requested = 0;  // asked for and not yet imported
    ImportHandle forget = 0;         // evicted, to be told to the fabric
    bool forget_pending = false;

    Pool<DueAlong> alongs;
    List due_alongs;
    Pool<RegionReply> replies;
    List due_replies;

    Peer* peers;            // [nodes_max][services_per_node_max]
    uint16_t* services_of;  // [nodes_max]
    uint32_t flush_round = 0;
    uint64_t* unsent;  // [words]: peers with a frame that has been begun, or to be greeted
    bool frames_pending = false;
    bool frame_full = false;   // somebody had to stop for want of room
    uint32_t since_frame = 0;  // actions since the last one
    std::byte* frames;         // [peers][frame_bytes], and one more: the one being sent
    bool any_lost = false;
    uint32_t reader_round = 0;
    uint64_t now_ns = 0;  // what the driver said last

    struct CachedGroup {
        uint64_t id;
        uint32_t slot;
    };
    CachedGroup* group_cache;  // direct mapped

    // --- service_engine.cc
    Peer& peer(ServiceAddress a) const { return peers[index_of(a)]; }
    uint32_t index_of(ServiceAddress a) const {
        return a.node.value * limits.services_per_node_max + a.service.value;
    }
    bool known(ServiceAddress a) const {
        return a.node.value < limits.nodes_max && a.service.value < limits.services_per_node_max;
    }
    ServiceAddress address(uint32_t p) const {
        return {NodeId{static_cast<uint16_t>(p / limits.services_per_node_max)},
                ServiceId{static_cast<uint16_t>(p % limits.services_per_node_max)}};
    }
    ServiceAddress here() const { return {memory.node(), self}; }
    FrameWriter& frame_to(ServiceAddress to);
    bool add(ServiceAddress to, const Message& m);  // false: no room until a frame has gone
    uint32_t add_row(ServiceAddress to, MessageKind kind, const Told& told, const Row& row,
                     std::span<const BlockSpan> spans);  // as FrameWriter::add_row
    bool next_frame(Action* out);
    const GroupEntry* find_group(GroupId id, GroupSlot* slot);
    void scan(ServiceId of, WakeSet* wake);
    void tell_completions();
    void lose(uint32_t w, ServiceAddress lost, WakeSet* wake);
    uint32_t watch_record(LocalRank local, RecordId record, WakeSet* wake);
    void drop_watch(uint32_t w);
    bool still(const Watch& w) const;
    uint64_t* due_bits(uint32_t w) { return due + uint64_t{w} * words; }

    // --- service_turns.cc: whose turn it is
    uint32_t find_share(const OperationId& operation) const;
    uint32_t share_for(const OperationId& operation);
    void join_share(uint32_t w);
    void leave_share(uint32_t w);
    void sort_in(uint32_t share);
    void unsort(uint32_t share);
    void drop_share_if_over(uint32_t share);
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
    void on_lent(const RemoteBlock& n, WakeSet* wake);
    bool help(Action* out, uint32_t events, WakeSet* wake);

    // --- service_tell.cc: our ranks' blocks, told to others
    void plan_telling(uint32_t w);
    void rearm(uint32_t w, const ServiceAddress* only);
    bool tell(Share& s);
    bool tell_peer(Share& s, uint32_t peer, uint32_t* told);
    void forget_due(uint32_t w);
    uint32_t find_peer(const GroupEntry& group, ServiceAddress at) const;
    ServiceAddress teller_for(const GroupEntry& group, uint32_t node_first, Rank source) const;
    bool send_small(uint32_t w, uint32_t peer);
    bool tell_row(uint32_t w, uint32_t peer);
    bool is_uniform(const Block* blocks, std::span<const uint32_t> members) const;
    bool goes_along(const Watch& w, ServiceAddress to) const;
    void send_along(ServiceAddress to, const BlockName& name, const RegionName& region, const Block& block);
    bool next_along(Action* out);
    void on_acknowledge(ServiceAddress from, const Acknowledgement& a, WakeSet* wake);
    void settle_peer(LocalRank local, RecordId record, const RecordLook& seen, uint32_t peer, bool failed,
                     WakeSet* wake);
    void on_region_request(ServiceAddress from, const RegionMessage& m);
    bool send_replies();
    void retell(ServiceAddress to);
    void resync(ServiceAddress with);

    // --- service_rows.cc: what others have told, and what of it is to be acknowledged
    uint32_t find_row(const OperationId& operation, Rank source) const;
    void hash_in(uint32_t row);
    void ask_for_dropped();
    uint32_t make_row(const OperationId& operation, ServiceAddress origin, bool readable);
    bool evict();
    bool passed(const RowEntry& r) const;
    void drop_row(uint32_t row);
    void unlink_row(uint32_t row);
    void drop_parts(ServiceAddress of);
    bool add_spans(RowEntry& r, const Row& part);
    BlockSpan block_in(const RowEntry& r, Rank rank, uint32_t own_index) const;
    void block_over(uint32_t row, bool failed);
    void row_over(uint32_t row);
    enum class Awaited : uint8_t { kQueued, kInFlight, kNothing };  // blocks in the read queue, reads, none
    void send_acknowledgements(Awaited until);
    bool acknowledge(Batch& b);
    void answer(const OperationId& operation, ServiceAddress origin, uint16_t local_index, bool failed);
    void owe(ServiceAddress origin);
    void keep_small(ServiceAddress from, const SmallBlock& block);
    uint32_t take_small(const OperationId& operation, Rank source, uint32_t destination);
    void drop_small(const OperationId& operation, Rank source);
    void drop_small_of(ServiceAddress origin);
    void drop_stray_small();

    // --- service_told.cc: rows as they come, and the blocks of them that can be read
    void on_told(const Told& told, ServiceAddress sender, bool handed_on, WakeSet* wake);
    bool plausible(const GroupEntry& group, const Told& told, const Row& row) const;
    void on_row(GroupSlot slot, const Told& told, const Row& row, bool handed_on, WakeSet* wake);
    void begin_row(GroupSlot slot, uint32_t row, bool handed_on, WakeSet* wake);
    void on_small(ServiceAddress from, const SmallBlock& block);
    std::span<const uint32_t> own_members(const GroupEntry& group) const;
    void join_rows(uint32_t w);
    void leave_rows(uint32_t w);
    void pull(Share& s, WakeSet* wake);
    bool pull_row(uint32_t w, WakeSet* wake);
    uint32_t next_plain(uint32_t row) const;
    enum class Worth : uint8_t { kAwaited, kLater, kNothing };
    Worth worth_of(const GroupEntry& group, const Told& told, const Row& row) const;
    bool lacks(const GroupEntry& group, uint32_t local_index, uint64_t sequence, Rank source) const;
    bool has_entered(const GroupEntry& group, uint64_t sequence) const;
    RemoteBlock remote_block(const RowEntry& r, const BlockSpan& span, uint32_t destination) const;
    void place_rows(Share& s, WakeSet* wake);
    void wait_for_ranks(Share& s);
    bool place(uint32_t row, WakeSet* wake);
    uint32_t choose_reader(const GroupEntry& group, uint64_t sequence, ServiceId* other);
    bool hand_on(uint32_t row, ServiceId to);
    void begin_waiting(RowEntry& r);
    void look_at_waiting(WakeSet* wake);
    void stop_waiting(RowEntry& r);
    void sweep_rows();

    // --- service_receive.cc: ... and read them
    enum class Queued : uint8_t { kQueued, kOver, kFailed, kNoRoom };
    Queued queue_block(uint32_t w, const RemoteBlock& n, uint32_t row, WakeSet* wake);
    bool next_read(Share& s, Action* out, WakeSet* wake);
    bool take_chunk(uint32_t q, uint32_t chunk, MemoryRef* to, uint64_t* bytes, uint64_t* claim_offset);
    void chunk_over(uint32_t q);
    void give_queued(uint32_t q);
    void finish_queued(uint32_t q, WakeSet* wake);
    void give_to_node(uint32_t w, Rank source, WakeSet* wake);
    bool next_landed(Share& s, Action* out);
    void settle_read(uint32_t q, uint64_t claim_offset, uint64_t bytes, MoveResult result, WakeSet* wake);
    void fail_queued(uint32_t q, OperationError error, WakeSet* wake);
    bool fail_block(uint32_t w, Rank source, OperationError error, WakeSet* wake);
    void retire_queued(uint32_t q, WakeSet* wake);
    void retry_stalled();
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

// The first bit of `count` that is set, from `from` on; `count` if there is none.
inline uint32_t next_bit(const uint64_t* bits, uint32_t count, uint32_t from) {
    while (from < count) {
        const uint64_t rest = bits[from / 64] >> (from % 64);
        if (rest != 0) return from + static_cast<uint32_t>(__builtin_ctzll(rest));
        from = (from | 63) + 1;
    }
    return count;
}

}  // namespace longshore
