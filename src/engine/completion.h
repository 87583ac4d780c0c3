// When an operation is complete for one of its ranks. That is nobody's message: it is derived from the
// records of the node, and what is true once stays true. The rank derives it when it looks; a service process
// that has run out of work derives it ahead, while the words are in its cache, and leaves the answer in the
// record's completion word.
#pragma once

#include "engine/mover.h"

namespace longshore {

// How far somebody has come in deriving it. Only ever moves forward.
struct CompletionCursor {
    uint32_t settled = 0;       // chunks of the rank's own record seen settled
    uint32_t reader_step = 0;   // local members seen to have read its send block
    uint32_t reader_chunk = 0;  // ... and how far the next one has come
    uint32_t remote_step = 0;   // of the group's peers, seen to have acknowledged
    uint32_t held_source = 0;   // remote blocks held for the node: source looked at,
    uint32_t held_step = 0;     // ... local member looked at,
    uint32_t held_chunk = 0;    // ... and how far it has come
};

class Completion {
  public:
    // The record of rank `local`, in the use that `seen` names. If it is no longer in that use the answers
    // mean nothing; asking is harmless.
    Completion(const NodeMemory& memory, LocalRank local, RecordId record, const RecordLook& seen)
        : memory_(memory),
          record_(memory.record(local, record)),
          group_(memory.group(seen.group)),
          seen_(seen),
          local_(local) {}

    // Every incoming chunk has landed, or failed.
    bool receives_landed(CompletionCursor* cursor) const;
    // Every receiver has read its block, or never will.
    bool sends_read(CompletionCursor* cursor) const;
    // Nobody copies out of the receive buffer any more (a block that this rank has read for its node).
    bool readers_done(CompletionCursor* cursor) const;
    // Nobody copies out of the landing any more: no part of completion, but of the record's end.
    bool landing_free(CompletionCursor* cursor) const;
    bool all(CompletionCursor* cursor) const {
        return receives_landed(cursor) && sends_read(cursor) && readers_done(cursor);
    }

  private:
    bool held_for_nobody(CompletionCursor* cursor) const;
    bool member_has(uint32_t local_index, Rank source, uint32_t* from) const;
    const NodeMemory& memory_;
    OperationRecord& record_;
    const GroupEntry& group_;
    const RecordLook& seen_;
    LocalRank local_;
};

}  // namespace longshore
