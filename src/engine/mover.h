// One worker's part in the on-node protocol: find a chunk that may move, claim it, and settle it when the
// driver has moved it. Service processes and waiting ranks use the same code.
#pragma once

#include "engine/geometry.h"
#include "engine/node_memory.h"

namespace longshore {

// A copy between two ranks of the node, claimed by this worker. The driver moves the bytes and calls
// finish().
struct Copy {
    MemoryRef from, to;
    uint64_t bytes = 0;
    uint64_t working_set = 0;  // about what all of the operation reads and writes on this node
    // whose chunk it is
    LocalRank destination;
    RecordId record;
    uint64_t generation = 0;
    uint64_t claim_offset = 0;  // of the word, from the start of the node's memory
    Rank source;      // of the block, in the group (its bytes may come from another rank that has it)
    LocalRank giver;  // whose memory it is read from
    Collective collective = Collective::kAlltoall;
    bool is_self = false;     // a rank's own block
    bool is_first = false;    // of the block's chunks
    bool is_landing = false;  // into the landing of `destination`
    // The block cannot be moved whatever the driver does (0 bytes to move then); finish() settles it as
    // failed.
    uint32_t doomed = 0;  // an OperationError
};

enum class MoveResult : uint8_t {
    kMoved,
    kNotPermitted,  // this worker may not reach the memory; a rank at one of its ends can
    kFailed,        // the memory is not there
};

// A worker's place in one record; kept between calls so that a lap over many blocks is done in bounded steps.
struct MoverCursor {
    uint32_t next = 0;        // step of the ring to look at next
    uint32_t chunk = 0;       // where to go on in that block
    uint32_t idle_steps = 0;  // steps since something was claimed; a whole lap without: nothing to do now
};

class Mover {
  public:
    Mover() = default;
    Mover(const NodeMemory& memory, WorkerId self) : memory_(memory), self_(self) {}

    // Claims a chunk that may move into the rank of this record. Looks at no more than steps_max blocks,
    // starting with the right neighbour (paper S0's ring) and going on where it stopped.
    bool claim_incoming(LocalRank destination, RecordId record, MoverCursor* cursor, uint32_t steps_max,
                        Copy* out);
    // Claims a chunk that this record's rank gives to another rank of the node.
    bool claim_outgoing(LocalRank source, RecordId record, MoverCursor* cursor, uint32_t steps_max,
                        Copy* out);
    // Claims a chunk of the block from `source` for one local member, if it has entered and lacks it.
    bool claim_shared(GroupSlot group, uint64_t sequence, Rank source, uint32_t local_index, uint32_t* chunk,
                      Copy* out);
    // Claims a chunk of this rank's own shared block that is to land in its arena. `chunk`: where to go on.
    bool claim_landing(LocalRank local, RecordId record, uint32_t* chunk, Copy* out);
    // The driver has moved (or could not move) a claimed chunk.
    void finish(const Copy& copy, MoveResult result, WakeSet* wake);

  private:
    struct Use {  // a record in the use that was seen
        LocalRank local;
        RecordId record;
        RecordLook seen;
    };
    void begin_copy(const Use& taker, const ChunkRange& chunks, Rank source, uint32_t c, Copy* out) const;
    void give_chunk(const GroupEntry& group, const Use& taker, const Use& giver, const ChunkRange& landed,
                    Rank source, uint32_t chunk, Copy* out);
    bool is_self(LocalRank rank) const { return self_ == rank_worker(rank); }
    bool claim_landing_chunk(const Use& at, uint32_t chunk, Copy* out);
    bool claim_block(const GroupEntry& group, LocalRank destination, RecordId id, const RecordLook& seen,
                     Rank source, uint32_t* chunk, Copy* out);
    NodeMemory memory_;
    WorkerId self_;
};

// Whether service processes leave this record's blocks, but for what lies in arenas, to its rank: that is
// there, and copies them itself (engine/hand_over.h).
bool is_left_to_rank(const NodeMemory& memory, const OperationRecord& record, LocalRank destination);

// From whose memory the node's workers may read the block of `source` for operation (group, sequence): the
// source's own where it is on this node and has entered, else that of the rank that has it from the network.
// False: not yet.
bool find_giver(const NodeMemory& memory, const GroupEntry& group, uint64_t sequence, Rank source,
                LocalRank* giver, RecordId* record);

// After a chunk of destination's block from `source` was settled by a network read or a copy: once nothing of
// the block is left to move, wakes who waits for it and returns true. `by_destination`: its own rank did it,
// and is awake.
bool announce_block(const NodeMemory& memory, LocalRank destination, RecordId record, uint64_t generation,
                    Rank source, bool by_destination, WakeSet* wake);

// The same for a chunk of a landing: every rank of the node may want it.
bool announce_landing(const NodeMemory& memory, LocalRank local, RecordId record, uint64_t generation,
                      Rank source, WakeSet* wake);

// Whether the landing of a block is cut as its taker's record cuts it (its chunks are copied as they land;
// else all of it has to be there), whether a taker's chunk is there to be copied, and whether it never will
// be.
bool same_cut(const ChunkRange& landed, const ChunkRange& chunks);
bool has_landed(const ChunkRange& landed, const ChunkRange& chunks, uint64_t generation, uint32_t chunk);
bool landing_failed(const ChunkRange& landed, const ChunkRange& chunks, uint32_t chunk);
constexpr uint32_t kAnyChunk = UINT32_MAX;

// What a rank has come to in one group, from its ring entry.
enum class Entered : uint8_t { kNotYet, kPublished, kOver };
Entered entered(const NodeMemory& memory, const GroupEntry& group, uint32_t local_index, uint64_t sequence,
                RecordId* record);

// All chunks of the incoming block settled? `from` is the caller's memo of how many it has seen settled
// already.
bool block_settled(const ChunkRange& chunks, uint64_t generation, uint32_t* from);

// The same, all of it, by loads of the given order.
bool range_settled(const ChunkRange& chunks, uint64_t generation, std::memory_order order);

// Frees all claims that a gone worker held, in the records of every rank of the node. Returns how many.
uint32_t free_lost_claims(const NodeMemory& memory, WorkerId gone, WakeSet* wake);

}  // namespace longshore
