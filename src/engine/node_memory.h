// The shared memory of one node, as the engine sees it: a header, the node's service processes, its ranks
// with their records, claim words and arenas, and its groups. The same bytes lie in a memfd (shm fabric) or
// in a vector (simulator). Offsets only: it is mapped at another address in every process.
//
// Who writes what: a rank its own slot, records, arena; the control plane (supervisor or simulator) the
// header, the service table and the groups; everybody claim words, ring entries of their own, acknowledgement
// bits.
#pragma once

#include <cstddef>
#include <span>

#include "base/atomic.h"
#include "base/check.h"
#include "base/types.h"
#include "engine/claim.h"
#include "engine/collective.h"

namespace longshore {

// How much of everything. All counts are per node or per rank of it.
struct NodeLimits {
    uint32_t ranks_max = 1;
    uint32_t services_max = 1;
    uint32_t groups_max = 512;          // open at once on a node
    uint32_t operations_ahead_max = 8;  // of one rank in one group, power of two
    uint32_t records_max = 4096;        // per rank; groups of a rank * operations_ahead_max never run out
    uint32_t regions_max = 8192;        // per rank: two for each operation that it can have open
    uint32_t chunk_bytes = 64 * 1024;
    uint64_t claims_bytes = 16u << 20;  // per rank; also the bound on one operation's chunks
    uint64_t arena_bytes = 128u << 20;  // per rank: half for data, half for what its records point to
    uint64_t groups_bytes = 64u << 20;  // for members, rings and readers of all groups
};

// Where everything lies, computed from the limits alone; bytes from the start of the node's memory.
struct NodeLayout {
    uint64_t services, ranks, groups, group_data, rank_areas, rank_area_bytes, total_bytes;
    // within a rank's area
    uint64_t regions, records, claims, arena;
    static NodeLayout of(const NodeLimits& limits);
};

constexpr uint64_t kNodeMagic = 0x32314552304853ull;  // changes with the layout

struct alignas(64) NodeHeader {
    uint64_t magic;
    NodeLimits limits;
    uint16_t node, node_count, rank_count,
        service_count;  // this node's id; nodes of the job; used on this node
};

// ServiceEngine's LateCounters, for others to read.
struct LateWords {
    Atomic<uint64_t> received, late, handed_on, rescued, parked, parked_ns, parked_longest_ns, readers;
};

// What a service process tells the others of its node.
enum class ServiceLoad : uint32_t {
    kIdle,    // it has nothing to do
    kBusy,    // it has, for a moment
    kLoaded,  // it has had for longer: others may take of it
};

struct alignas(64) ServiceSlot {
    Atomic<uint32_t> events;       // counts doorbell rings
    Atomic<uint32_t> sleeping;     // 1 while it blocks for its doorbell
    Atomic<uint32_t> incarnation;  // 0 before the first start
    Atomic<uint32_t> pid;
    Atomic<uint64_t> heartbeat;  // steps taken, for observers
    Atomic<uint32_t> load;       // a ServiceLoad
    // What it did, for statistics. `told` is odd while it has done more than that, and goes on whenever it
    // says what it has done.
    Atomic<uint32_t> told;
    Atomic<uint64_t> busy_ns, copy_ns, network_ns, idle_ns, cpu_ns, sleeps, copies, reads, messages_sent,
        messages_refused, stale_messages, notifications_resent, bytes_mapped, bytes_peer_copied,
        bytes_bounced, bytes_between_nodes, bytes_staged, bytes_relayed, taken, bytes_to_host;
    LateWords late[kCollectives];
};

// How an operation's data move; the same on all of its ranks.
enum class Algorithm : uint8_t {
    kDirect,              // from the source's memory into the destination's
    kStaged,              // through memory of the service processes
    kStagedHierarchical,  // into shared memory of the node; its ranks copy from there
};
constexpr uint32_t kAlgorithms = 3;

// What peers write for every block, what the rank alone writes, and what nobody writes lie in cache lines of
// their own: a small operation takes no longer than a few lines need from core to core.
enum : uint32_t { kRankAttached = 1, kRankLeaves = 2 };
struct alignas(64) RankSlot {
    Atomic<uint32_t> events;  // futex word: counts what this rank may be waiting for
    Atomic<uint32_t> sleeping;
    // kRankAttached while the process is there, kRankLeaves once it has said that it goes; 0: it is not
    // there.
    alignas(64) Atomic<uint32_t> attached;
    Atomic<uint32_t> pid;
    uint16_t service;  // which of the node's service processes serves it; set with its first group
    // By this rank alone:
    alignas(64) Atomic<uint32_t> waiting;     // not 0: it waits for its operations and moves blocks itself
    alignas(64) Atomic<uint64_t> active[64];  // a bit per record: published and not yet retired
    // Bytes that landed at this rank, self blocks not counted, by collective and by who moved them.
    alignas(64) Atomic<uint64_t> bytes_by_rank[kCollectives];
    alignas(64) Atomic<uint64_t> bytes_by_service[kCollectives];
    // Bytes of landings in this rank's arena: written by service processes, to be copied by ranks, and then
    // counted above.
    Atomic<uint64_t> bytes_landed[kCollectives];
};
constexpr uint32_t kRecordsMax = 64 * 64;

constexpr uint32_t kDescriptorBytesMax = 544;
// Region 0 is the rank's own arena in this memory. Others are spans of the process's memory; the descriptor
// is made and read by the fabric alone.
struct RegionEntry {
    Atomic<uint32_t> generation;  // odd while in use
    uint32_t descriptor_bytes;
    uint64_t bytes;
    uint8_t descriptor[kDescriptorBytesMax];
};
constexpr RegionId kArenaRegion{0};

struct BlockSpan {
    uint64_t offset = 0, bytes = 0;
};

// What a rank tells about one operation. Its arrays lie in the rank's arena. A stale worker may look at it
// while the owner writes it anew: fields and arrays are read and written relaxed, look() tells whether what
// was read belongs together, and a claim of the generation it saw proves that it still holds.
struct alignas(64) OperationRecord {
    Atomic<uint64_t> generation;     // of the present use; 0: none. Written last, cleared first.
    Atomic<uint64_t> completed;      // the generation for which somebody saw the operation complete
    Atomic<uint64_t> claims_offset;  // of the first claim word, from the start of the node's memory
    Atomic<uint32_t> chunk_count;
    Atomic<uint32_t>
        landing_count;  // words behind those: of the landing (kStagedHierarchical); 0: it has none
    Atomic<uint32_t> chunks_per_block;    // uniform blocks; 0: see chunk_first. kOneBlock: only the root's
    Atomic<uint64_t> chunk_first_offset;  // uint32_t[size + 1], from the start of the node's memory
    Atomic<uint32_t> chunk_bytes;
    Atomic<uint64_t> error;  // an error_word(); the first error wins
    uint64_t sequence;
    uint32_t group_slot, rank, size, root;
    Collective collective;
    Algorithm algorithm;
    uint8_t self_in_place;   // own block is where it belongs already
    uint8_t copies_itself;   // kStagedHierarchical: service processes leave its incoming blocks to the rank
    uint8_t send_is_stable;  // send blocks lie in the arena: the caller's buffer is free at once
    uint8_t hands_over;      // its rank copies shared blocks of ranks of the node itself (engine/hand_over.h)
    uint16_t local;          // whose record this is, for observers. Blocks' offsets count from these two:
    uint32_t send_region, recv_region;
    uint64_t send_offset, recv_offset;
    uint64_t landing_offset;                      // in the arena
    uint64_t send_block_bytes, recv_block_bytes;  // uniform blocks
    uint64_t send_blocks_offset,
        recv_blocks_offset;  // BlockSpan[size], from the start of the node's memory; 0: uniform
    // Claim words too, one for each of the group's peers (GroupPeer); of a shared block only a node's first
    // one counts. Settled: all its ranks (the node) have read what this rank gives them, or there is nothing
    // for them. 0: no words, for the rank gives nothing to other nodes.
    uint64_t acknowledged_offset;
};

constexpr uint32_t kOneBlock = 0x80000000u;

// The identity of a record's present use, read consistently.
struct RecordLook {
    uint64_t generation = 0;
    uint64_t sequence = 0;
    GroupSlot group;
    Rank rank;
    uint32_t size = 0;
    Rank root;
    Collective collective = Collective::kAlltoall;
    Algorithm algorithm = Algorithm::kDirect;
};
inline Collective collective_of(const OperationRecord& record) {
    return static_cast<Collective>(load_relaxed(reinterpret_cast<const uint8_t*>(&record.collective)));
}
// False: not in use, or being rewritten.
bool look(const OperationRecord& record, RecordLook* out);

enum class OperationError : uint32_t { kNone = 0, kUnreadable = 1, kTruncated = 2, kServiceLost = 3 };

// The error word of a record: generation 40 | error 8. It names the use that it is of, so that who has looked
// at an operation that is over by now says nothing of the next one.
constexpr uint64_t error_word(uint64_t generation, OperationError error) {
    return generation << 8 | static_cast<uint64_t>(error);
}
constexpr OperationError error_in(uint64_t word) {
    return static_cast<OperationError>(word & 0xff);
}
// The first error of an operation stays, but that what is lost is said in any case: others may still read
// what the rank gives then (giving_up.h).
inline void note_error(OperationRecord& record, uint64_t generation, OperationError error) {
    const uint64_t noted = error_word(generation, error);
    uint64_t before = error_word(generation, OperationError::kNone);
    while (!record.error.compare_exchange_strong(before, noted, std::memory_order_relaxed,
                                                 std::memory_order_relaxed)) {
        if (error != OperationError::kServiceLost || before == noted || before >> 8 != generation) return;
    }
}

// A member of a group: where it is.
struct Member {
    NodeId node;
    ServiceId service;
    LocalRank local;       // slot on its node
    uint16_t local_index;  // among the members on its node
    uint32_t peer = 0;     // which of the group's peers serves it; create_group() fills it in
};

// A service process that serves members of a group. They are in the order of node and service process.
struct GroupPeer {
    ServiceAddress at;
    uint32_t first = 0, count = 0;  // its members, ascending: from here in by_peer()
    uint32_t node_first = 0;        // the first peer of its node
};

struct alignas(64) GroupEntry {
    Atomic<uint64_t> id;      // GroupId; 0: free. Written last.
    Atomic<uint32_t> joined;  // control plane only
    uint32_t size, local_count, peer_count;
    uint64_t members_offset;  // Member[size]
    uint64_t peers_offset;    // GroupPeer[peer_count]
    uint64_t by_peer_offset;  // uint32_t[size]: group ranks, by peer
    uint64_t locals_offset;   // uint32_t[local_count]: group ranks on this node, ascending
    uint64_t rings_offset;    // Atomic<uint64_t>[local_count][operations_ahead_max]: ring entries
    uint64_t readers_offset;  // Atomic<uint64_t>[operations_ahead_max][size]: who read a remote block; 0: one
                              // node only, or one rank on this one
    uint64_t data_bytes;
};

// Ring entry of a rank in a group: the newest operation in that place, and its record.
//   sequence 44 | record + 1, or kDone 20
constexpr uint64_t kDone = 0xfffff;
constexpr uint64_t ring_entry(uint64_t sequence, uint64_t record_plus_1) {
    return sequence << 20 | record_plus_1;
}

// Who is to be woken; the driver does it after the engine's step (one test where nobody sleeps).
struct WakeSet {
    uint64_t ranks[kRanksPerNodeMax / 64] = {};
    uint32_t services = 0;
    void rank(LocalRank r) { ranks[r.value / 64] |= uint64_t{1} << (r.value % 64); }
    void service(ServiceId s) { services |= 1u << s.value; }
    bool any() const {
        uint64_t all = services;
        for (uint64_t w : ranks) all |= w;
        return all != 0;
    }
};

// A view of a node's memory; owns nothing, valid as long as the mapping.
class NodeMemory {
  public:
    NodeMemory() = default;
    // Lays out fresh (zeroed) memory of NodeLayout::of(limits).total_bytes.
    static NodeMemory create(std::byte* base, const NodeLimits& limits, NodeId node, uint16_t node_count,
                             uint16_t rank_count, uint16_t service_count);
    // Looks at memory that create() has laid out; false if it is not that, or smaller than it says.
    static bool open(std::byte* base, uint64_t bytes, NodeMemory* out);

    // Copied when the memory was opened: what others write into the header later changes nothing here.
    const NodeLimits& limits() const { return limits_; }
    uint16_t rank_count() const { return rank_count_; }
    uint16_t service_count() const { return service_count_; }
    uint16_t node_count() const { return node_count_; }
    NodeHeader& header() const { return *at<NodeHeader>(0); }
    NodeId node() const { return NodeId{node_}; }
    ServiceSlot& service(ServiceId s) const {
        LONGSHORE_CHECK(s.value < limits().services_max);
        return at<ServiceSlot>(layout_.services)[s.value];
    }
    RankSlot& rank(LocalRank r) const {
        LONGSHORE_CHECK(r.value < limits().ranks_max);
        return at<RankSlot>(layout_.ranks)[r.value];
    }
    GroupEntry& group(GroupSlot g) const {
        LONGSHORE_CHECK(g.value < limits().groups_max);
        return at<GroupEntry>(layout_.groups)[g.value];
    }
    RegionEntry& region(LocalRank r, RegionId id) const {
        LONGSHORE_CHECK(id.value < limits().regions_max);
        return at<RegionEntry>(area(r) + layout_.regions)[id.value];
    }
    OperationRecord& record(LocalRank r, RecordId id) const {
        LONGSHORE_CHECK(id.value < limits().records_max);
        return at<OperationRecord>(area(r) + layout_.records)[id.value];
    }
    uint64_t claims_begin(LocalRank r) const { return area(r) + layout_.claims; }
    uint64_t arena_begin(LocalRank r) const { return area(r) + layout_.arena; }
    std::byte* arena(LocalRank r) const { return base_ + arena_begin(r); }
    uint64_t group_data_begin() const { return layout_.group_data; }

    // Counts an event for a rank or service process; adds it to `wake` if it sleeps.
    void ring_rank(LocalRank r, WakeSet* wake) const {
        RankSlot& slot = rank(r);
        slot.events.fetch_add(1, std::memory_order_seq_cst);
        if (slot.sleeping.load(std::memory_order_seq_cst)) wake->rank(r);
    }
    // A null `wake`: nothing has to be done by it. If it sleeps, it is not even told: all ranks of the node
    // would write to one word for nothing.
    void ring_service(ServiceId s, WakeSet* wake) const {
        ServiceSlot& slot = service(s);
        if (wake == nullptr && slot.sleeping.load(std::memory_order_relaxed)) return;
        slot.events.fetch_add(1, std::memory_order_seq_cst);
        if (wake != nullptr && slot.sleeping.load(std::memory_order_seq_cst)) wake->service(s);
    }

    // Each of a set of service processes, a bit each.
    void ring_services(uint32_t set, WakeSet* wake) const {
        for (; set != 0; set &= set - 1)
            ring_service(ServiceId{static_cast<uint16_t>(__builtin_ctz(set))}, wake);
    }
    void ring_all_services(WakeSet* wake) const { ring_services((1u << service_count_) - 1, wake); }

    uint64_t offset_of(const void* p) const {
        return static_cast<uint64_t>(static_cast<const std::byte*>(p) - base_);
    }
    template <class T>
    T* at(uint64_t offset) const {
        return reinterpret_cast<T*>(base_ + offset);
    }
    // As at(), for offsets that another process wrote: null unless count of T lie inside the memory, aligned.
    template <class T>
    T* at_checked(uint64_t offset, uint64_t count) const {
        if (offset % alignof(T) != 0 || offset > layout_.total_bytes ||
            count > (layout_.total_bytes - offset) / sizeof(T))
            return nullptr;
        return at<T>(offset);
    }

    // Group data, by slot.
    const Member* members(const GroupEntry& g) const { return at<const Member>(g.members_offset); }
    const uint32_t* locals(const GroupEntry& g) const { return at<const uint32_t>(g.locals_offset); }
    Atomic<uint64_t>& ring(const GroupEntry& g, uint32_t local_index, uint64_t sequence) const {
        const uint32_t ahead = limits().operations_ahead_max;
        return at<Atomic<uint64_t>>(g.rings_offset)[uint64_t{local_index} * ahead + sequence % ahead];
    }
    // The reader of a remote block: sequence 44 | local index + 1 20. Another sequence: nobody yet. The only
    // rank of a group on its node reads every block: then there are no words.
    uint64_t reader_of(const GroupEntry& g, uint64_t sequence, Rank source) const {
        if (g.local_count == 1) return ring_entry(sequence, 1);
        return reader(g, sequence, source).load(std::memory_order_acquire);
    }
    Atomic<uint64_t>& reader(const GroupEntry& g, uint64_t sequence, Rank source) const {
        const uint32_t ahead = limits().operations_ahead_max;
        return at<Atomic<uint64_t>>(g.readers_offset)[(sequence % ahead) * g.size + source.value];
    }
    std::span<const GroupPeer> peers(const GroupEntry& g) const {
        return {at<const GroupPeer>(g.peers_offset), g.peer_count};
    }
    // The members that one peer serves.
    std::span<const uint32_t> members_of(const GroupEntry& g, const GroupPeer& peer) const {
        return {at<const uint32_t>(g.by_peer_offset) + peer.first, peer.count};
    }
    // Bytes of group data that create_group needs, all parts aligned.
    static uint64_t group_bytes(const NodeLimits& limits, std::span<const Member> members, NodeId node);
    // Control plane: writes a group into a free slot and publishes it. data_offset: group_bytes(...) zeroed
    // bytes.
    void create_group(GroupSlot slot, GroupId id, const Member* members, uint32_t size,
                      uint64_t data_offset) const;
    // Finds a group's slot by a linear look at the table; groups_max if it is not there.
    GroupSlot find_group(GroupId id) const;

    uint64_t total_bytes() const { return layout_.total_bytes; }
    explicit operator bool() const { return base_ != nullptr; }

  private:
    void remember();
    uint64_t area(LocalRank r) const {
        LONGSHORE_CHECK(r.value < limits().ranks_max);
        return layout_.rank_areas + r.value * layout_.rank_area_bytes;
    }
    std::byte* base_ = nullptr;
    NodeLayout layout_{};
    NodeLimits limits_;
    uint16_t node_ = 0, node_count_ = 0, rank_count_ = 0, service_count_ = 0;
};

}  // namespace longshore
