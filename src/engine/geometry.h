// Which bytes go from whom to whom in one operation: read off a rank's record, never copied per operation.
#pragma once

#include "engine/node_memory.h"

namespace longshore {

// To be relied upon only for records that are stable: one's own, or those at both ends of a chunk one has
// claimed. Offsets come from another process: a span that does not lie inside its region comes back with
// bytes 0 and `valid` false.
struct Block {
    MemoryRef at;
    uint64_t bytes = 0;
    bool valid = true;
};

// Whether shared blocks land in this rank's arena first.
bool has_landing(const OperationRecord& record);

class Geometry {
  public:
    // `local`: whose record it is, as the caller knows it.
    Geometry(const NodeMemory& memory, const OperationRecord& record, LocalRank local)
        : memory_(memory), record_(record), local_(local) {}

    // The block that `source` gives to this record's rank, where it belongs in the receive buffer.
    Block incoming(Rank source) const;
    // The block that this record's rank gives to `destination`.
    Block outgoing(Rank destination) const;
    // Where it lands on this node before the ranks copy it (kStagedHierarchical; see hierarchical.cc). No
    // bytes: this record has no room for that.
    Block landing(Rank source) const;
    // Where a block of another node is written.
    Block arriving(Rank source) const { return has_landing(record_) ? landing(source) : incoming(source); }
    // How much this record's rank receives in a group of `size`. An estimate, where the record is not stable.
    uint64_t incoming_bytes(uint32_t size) const;
    // Whether `rank` gives anything in this collective at all.
    bool is_source(Rank rank) const { return rules().gives(rank, Rank{load_relaxed(&record_.root)}); }

  private:
    const CollectiveRules& rules() const { return rules_of(collective_of(record_)); }
    Block span(const MemoryRef& base, uint64_t blocks_offset, uint64_t uniform_bytes, uint32_t index) const;
    const NodeMemory& memory_;
    const OperationRecord& record_;
    LocalRank local_;
};

// Claim words of one incoming block. Safe on a stale record: then the words are those of somebody else, whose
// generation differs, or there are none.
struct ChunkRange {
    Atomic<ChunkWord>* words = nullptr;
    uint32_t count = 0;
    uint32_t chunk_bytes = 0;
};
ChunkRange incoming_chunks(const NodeMemory& memory, const OperationRecord& record, Rank source);
// Those of its landing, and of where a block of another node is written.
ChunkRange landing_chunks(const NodeMemory& memory, const OperationRecord& record, Rank source);
inline ChunkRange arriving_chunks(const NodeMemory& memory, const OperationRecord& record, Rank source) {
    return has_landing(record) ? landing_chunks(memory, record, source)
                               : incoming_chunks(memory, record, source);
}
// For those two: `words` words from an offset on, shared out as the record says.
ChunkRange chunks_of_block(const NodeMemory& memory, const OperationRecord& record, Rank source,
                           uint64_t offset, uint32_t total);
// Whether some chunk of a settled block could not be moved.
bool range_failed(const ChunkRange& chunks);

}  // namespace longshore
