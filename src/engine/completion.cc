#include "engine/completion.h"

namespace longshore {

bool Completion::receives_landed(CompletionCursor* cursor) const {
    ChunkRange all;
    all.count = record_.chunk_count.load(std::memory_order_relaxed);
    all.words = memory_.at_checked<Atomic<ChunkWord>>(record_.claims_offset.load(std::memory_order_relaxed),
                                                      all.count);
    return all.words != nullptr && block_settled(all, seen_.generation, &cursor->settled);
}

// Whether a local member has settled its block from `source` in this operation.
bool Completion::member_has(uint32_t local_index, Rank source, uint32_t* from) const {
    RecordId id;
    switch (entered(memory_, group_, local_index, seen_.sequence, &id)) {
        case Entered::kNotYet:
            return false;
        case Entered::kOver:
            return true;
        case Entered::kPublished:
            break;
    }
    const Member& member = memory_.members(group_)[memory_.locals(group_)[local_index]];
    const OperationRecord& theirs = memory_.record(member.local, id);
    RecordLook look_at;
    // Being retired just now: the next look finds the ring entry over.
    if (!look(theirs, &look_at) || look_at.sequence != seen_.sequence) return false;
    return block_settled(incoming_chunks(memory_, theirs, source), look_at.generation, from);
}

bool Completion::sends_read(CompletionCursor* cursor) const {
    const Geometry geometry(memory_, record_, local_);
    if (!geometry.is_source(seen_.rank)) return true;
    const uint32_t* locals = memory_.locals(group_);

    // What has landed in the arena need not be read out of the caller's buffer.
    const bool lands = has_landing(record_) && group_.local_count > 1;
    if (lands &&
        !block_settled(landing_chunks(memory_, record_, seen_.rank), seen_.generation, &cursor->reader_chunk))
        return false;
    for (; !lands && cursor->reader_step < group_.local_count;
         ++cursor->reader_step, cursor->reader_chunk = 0) {
        const Rank peer{locals[cursor->reader_step]};
        if (peer == seen_.rank || geometry.outgoing(peer).bytes == 0) continue;
        if (!member_has(cursor->reader_step, seen_.rank, &cursor->reader_chunk)) return false;
    }
    if (group_.local_count == group_.size) return true;

    const Atomic<ChunkWord>* acknowledged =
        memory_.at_checked<Atomic<ChunkWord>>(load_relaxed(&record_.acknowledged_offset), group_.peer_count);
    if (acknowledged == nullptr) return false;
    for (; cursor->remote_step < group_.peer_count; ++cursor->remote_step) {
        const ChunkWord word = acknowledged[cursor->remote_step].load(std::memory_order_acquire);
        if (!chunk_settled(word)) return false;
        if (chunk_state(word) == ChunkState::kFailed && chunk_generation(word) == seen_.generation)
            note_error(record_, seen_.generation, OperationError::kUnreadable);
    }
    return true;
}

bool Completion::readers_done(CompletionCursor* cursor) const {
    if (!is_shared(seen_.collective) || group_.readers_offset == 0 || has_landing(record_)) return true;
    return held_for_nobody(cursor);
}

bool Completion::landing_free(CompletionCursor* cursor) const {
    return !has_landing(record_) || held_for_nobody(cursor);
}

// Every rank of the node has its copies of the blocks that this rank holds for it.
bool Completion::held_for_nobody(CompletionCursor* cursor) const {
    const Member* members = memory_.members(group_);
    const uint32_t mine = members[seen_.rank.value].local_index;
    const Geometry geometry(memory_, record_, local_);
    // Where the root alone gives, nothing else has to be looked at.
    const bool only_root = rules_of(seen_.collective).givers == Who::kRoot;
    const uint32_t end = only_root ? seen_.root.value + 1 : group_.size;
    if (only_root && cursor->held_source < seen_.root.value) cursor->held_source = seen_.root.value;
    for (; cursor->held_source < end; ++cursor->held_source, cursor->held_step = 0, cursor->held_chunk = 0) {
        const Rank source{cursor->held_source};
        if (geometry.arriving(source).bytes == 0) continue;
        if (members[source.value].node == memory_.node()) {
            if (source != seen_.rank || !has_landing(record_)) continue;
        } else if (memory_.reader(group_, seen_.sequence, source).load(std::memory_order_acquire) !=
                   ring_entry(seen_.sequence, mine + 1)) {
            continue;
        }
        for (; cursor->held_step < group_.local_count; ++cursor->held_step, cursor->held_chunk = 0)
            if (cursor->held_step != mine && !member_has(cursor->held_step, source, &cursor->held_chunk))
                return false;
    }
    return true;
}

}  // namespace longshore
