// The records of ranks of the node that this service process looks at: those of the ranks it serves, and of
// others while it helps or reads a block for them.
// Keeps: a watch for each, found by rank and record.
// Promises: a watch whose record has another use by now is dropped before that use is watched. Followers are
// told of each watch that begins and ends.
// Asks: Operations, which a watch joins.
#pragma once

#include "engine/completion.h"
#include "engine/service/operations.h"

namespace longshore {

struct Watch {
    uint32_t next = kNone;  // free list
    uint32_t operation = kNone;
    bool used = false;
    bool helps = false;  // of a rank of another service process of the node: its work is only taken
    bool several_nodes = false;
    LocalRank local;
    RecordId record;
    RecordLook seen;
    uint32_t local_index = 0;  // of the rank among the group's members on this node
    uint32_t own_index = 0;    // ... and among those of this service process
    CompletionCursor done;
    bool completed = false;  // the rank has been told so

    bool is_told() const { return several_nodes && !helps; }
};

class Watches {
  public:
    Watches(const ServiceContext& context, Operations& operations)
        : context_(context), operations_(operations) {}
    void carve(Carver& c);
    void follow(Follower* f) { followers_.add(f); }

    // Watches a record. kNone: it is not (any more) one of an operation that its rank has entered, or there
    // is no room.
    uint32_t watch(LocalRank local, RecordId record, WakeSet* wake);
    void drop(uint32_t watch);
    const Watch& operator[](uint32_t watch) const { return pool_[watch]; }
    // Which watch a record has; kNone: none, or it is of another use of the record than `generation`.
    uint32_t find(LocalRank local, RecordId record, uint64_t generation) const;
    // Whether the record is still in the use that was seen. Also whether what was read of it before belongs
    // to that use.
    bool still(const Watch& w) const;
    // Numbers of watches are below it.
    uint32_t end() const { return end_; }

    // Looks for records that the ranks of a service process have published since the last time.
    void scan(ServiceId of, WakeSet* wake);
    // There was no room for a record: scan again.
    bool scan_needed() const { return scan_needed_; }

    // Nobody has taken the rest of a block, and nobody will: it fails. False: nothing was left of it.
    bool fail_block(uint32_t watch, Rank source, OperationError error, WakeSet* wake);
    // A chunk, or an acknowledgement, has been settled.
    void note_settled() { settled_some_ = true; }
    // Writes the completion words of records whose operations are complete.
    void tell_completions();
    // No watch is of an operation that is under way.
    bool idle() const;

  private:
    uint32_t& index_of(LocalRank local, RecordId record) const {
        return watch_of_[uint64_t{local.value} * context_.node.records_max + record.value];
    }
    const ServiceContext& context_;
    Operations& operations_;
    Followers followers_;
    Pool<Watch> pool_;
    uint32_t* watch_of_ = nullptr;  // [ranks_max][records_max]: watch + 1
    uint32_t end_ = 0, count_ = 0;
    bool scan_needed_ = true;
    bool settled_some_ = false;  // since completions were told
};

}  // namespace longshore
