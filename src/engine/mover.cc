#include "engine/mover.h"

namespace longshore {
namespace {

// The ranks whose blocks a worker has to look at for one record, as steps of a ring that starts with the
// right neighbour and ends with the rank itself. Ranks on other nodes count only where one of this node's
// ranks may have their blocks to give.
class Ring {
  public:
    // `mine`: whether this rank takes part at this end; `theirs`: who is at the other one.
    Ring(const NodeMemory& memory, const GroupEntry& group, const RecordLook& seen, uint32_t local_index,
         bool mine, Who theirs, bool all_nodes)
        : locals_(memory.locals(group)), local_count_(group.local_count), size_(group.size) {
        if (!mine) return;
        if (theirs == Who::kRoot) {
            first_ = seen.root.value;
            steps_ = all_nodes || memory.members(group)[first_].node == memory.node() ? 1 : 0;
            all_ = true;
        } else {
            all_ = all_nodes && local_count_ != size_;
            first_ = 1 + (all_ ? seen.rank.value : local_index);
            steps_ = all_ ? size_ : local_count_;
        }
    }
    static Ring incoming(const NodeMemory& memory, const GroupEntry& group, const RecordLook& seen,
                         uint32_t local_index) {
        const CollectiveRules& r = rules_of(seen.collective);
        return {memory, group, seen, local_index, r.takes(seen.rank, seen.root), r.givers, r.is_shared};
    }
    static Ring outgoing(const NodeMemory& memory, const GroupEntry& group, const RecordLook& seen,
                         uint32_t local_index) {
        const CollectiveRules& r = rules_of(seen.collective);
        return {memory, group, seen, local_index, r.gives(seen.rank, seen.root), r.takers, false};
    }
    uint32_t steps() const { return steps_; }
    Rank at(uint32_t step) const {
        return Rank{all_ ? (first_ + step) % size_ : locals_[(first_ + step) % local_count_]};
    }

  private:
    const uint32_t* locals_;
    uint32_t local_count_, size_;
    uint32_t first_ = 0, steps_ = 0;
    bool all_ = false;  // steps are ranks of the group, not of this node
};

// The group a record says it belongs to, checked: it comes from another process.
const GroupEntry* group_of(const NodeMemory& memory, LocalRank local, const RecordLook& seen,
                           uint32_t* local_index) {
    if (seen.group.value >= memory.limits().groups_max) return nullptr;
    const GroupEntry& group = memory.group(seen.group);
    if (group.id.load(std::memory_order_acquire) == 0 || seen.rank.value >= group.size ||
        seen.size != group.size || seen.root.value >= group.size ||
        static_cast<uint8_t>(seen.collective) >= kCollectives)
        return nullptr;
    const Member& member = memory.members(group)[seen.rank.value];
    if (member.node != memory.node() || member.local != local || member.local_index >= group.local_count)
        return nullptr;
    *local_index = member.local_index;
    return &group;
}

void wake_ranks_of(const NodeMemory& memory, const GroupEntry& group, WakeSet* wake) {
    const uint32_t* locals = memory.locals(group);
    for (uint32_t i = 0; i < group.local_count; ++i)
        memory.ring_rank(memory.members(group)[locals[i]].local, wake);
}

}  // namespace

Entered entered(const NodeMemory& memory, const GroupEntry& group, uint32_t local_index, uint64_t sequence,
                RecordId* record) {
    const uint64_t entry = memory.ring(group, local_index, sequence).load(std::memory_order_acquire);
    const uint64_t place = entry & kDone;
    if (entry >> 20 < sequence || place == 0) return Entered::kNotYet;
    if (entry >> 20 > sequence || place == kDone) return Entered::kOver;
    if (place > memory.limits().records_max) return Entered::kNotYet;
    *record = RecordId{static_cast<uint32_t>(place - 1)};
    return Entered::kPublished;
}

bool block_settled(const ChunkRange& chunks, uint64_t generation, uint32_t* from) {
    while (*from < chunks.count) {
        const ChunkWord word = chunks.words[*from].load(std::memory_order_acquire);
        if (chunk_generation(word) == generation && !chunk_settled(word)) return false;
        ++*from;
    }
    return true;
}

bool range_settled(const ChunkRange& chunks, uint64_t generation, std::memory_order order) {
    for (uint32_t i = 0; i < chunks.count; ++i) {
        const ChunkWord word = chunks.words[i].load(order);
        if (chunk_generation(word) == generation && !chunk_settled(word)) return false;
    }
    return true;
}

// The rank of this node that has the block, or will have it, for the others. Null: it comes from another
// node, and nobody is to read it yet.
static const Member* holder_of(const NodeMemory& memory, const GroupEntry& group, uint64_t sequence,
                               Rank source) {
    const Member* const members = memory.members(group);
    if (members[source.value].node == memory.node()) return &members[source.value];
    if (group.readers_offset == 0) return nullptr;
    const uint64_t reader = memory.reader(group, sequence, source).load(std::memory_order_acquire);
    const uint64_t index_plus_1 = reader & kDone;
    if (reader >> 20 != sequence || index_plus_1 == 0 || index_plus_1 > group.local_count) return nullptr;
    return &members[memory.locals(group)[index_plus_1 - 1]];
}

bool find_giver(const NodeMemory& memory, const GroupEntry& group, uint64_t sequence, Rank source,
                LocalRank* giver, RecordId* record) {
    const Member* const holder = holder_of(memory, group, sequence, source);
    if (holder == nullptr) return false;
    *giver = holder->local;
    if (entered(memory, group, holder->local_index, sequence, record) != Entered::kPublished) return false;
    if (holder == &memory.members(group)[source.value]) return true;
    const OperationRecord& held = memory.record(holder->local, *record);
    RecordLook seen;
    if (!look(held, &seen)) return false;
    if (has_landing(held)) return true;  // chunk by chunk, as they land
    uint32_t from = 0;
    return block_settled(incoming_chunks(memory, held, source), seen.generation, &from);
}

// Whether who had the block for this node is past the operation: it has given up, as else it waits until
// every rank of the node has what it wants.
static bool has_given_up(const NodeMemory& memory, const GroupEntry& group, uint64_t sequence, Rank source) {
    const Member* const holder = holder_of(memory, group, sequence, source);
    RecordId ignored;
    return holder != nullptr &&
           entered(memory, group, holder->local_index, sequence, &ignored) == Entered::kOver;
}

bool is_left_to_rank(const NodeMemory& memory, const OperationRecord& record, LocalRank destination) {
    return load_relaxed(&record.hands_over) != 0 &&
           memory.rank(destination).attached.load(std::memory_order_acquire) != 0;
}

// A rank that copies for its stand-in reaches what lies in ranks' memory, and no arena: that is the
// stand-in's.
static bool is_for(WorkerId worker, const OperationRecord& given, bool from_source) {
    const bool in_arena = from_source && load_relaxed(&given.send_region) == kArenaRegion.value;
    return is_rank(worker) != in_arena;
}

bool Mover::claim_block(const GroupEntry& group, LocalRank destination, RecordId id, const RecordLook& seen,
                        Rank source, uint32_t* chunk, Copy* out) {
    OperationRecord& record = memory_.record(destination, id);
    const ChunkRange chunks = incoming_chunks(memory_, record, source);
    if (chunks.count == 0 || chunks.chunk_bytes == 0) return false;

    Use at{};  // where it is given from, if `landed`; else only `local` and `record` mean anything
    ChunkRange landed;
    bool have_giver = false;
    for (uint32_t i = 0; i < chunks.count; ++i) {
        const uint32_t c = (*chunk + i) % chunks.count;
        const ChunkWord word = chunks.words[c].load(std::memory_order_relaxed);
        if (chunk_generation(word) != seen.generation) return false;
        if (chunk_settled(word) || chunk_state(word) == ChunkState::kClaimed) continue;
        // Looked up before the claim: while the chunk is not settled, the giver's record stays.
        if (!have_giver) {
            if (!find_giver(memory_, group, seen.sequence, source, &at.local, &at.record)) {
                if (!has_given_up(memory_, group, seen.sequence, source)) return false;
                if (!claim_chunk(chunks.words[c], seen.generation, self_)) continue;
                *chunk = c + 1;
                begin_copy({destination, id, seen}, chunks, source, c, out);
                out->giver = destination;
                out->doomed = static_cast<uint32_t>(OperationError::kServiceLost);
                return true;
            }
            const OperationRecord& given = memory_.record(at.local, at.record);
            if (source != seen.rank && has_landing(given)) {
                if (!look(given, &at.seen) || at.seen.sequence != seen.sequence ||
                    at.seen.group != seen.group)
                    return false;
                landed = landing_chunks(memory_, given, source);
            }
            have_giver = true;
            const bool from_source = memory_.members(group)[source.value].node == memory_.node();
            if (is_left_to_rank(memory_, record, destination) && !is_for(self_, given, from_source))
                return false;
            // All of it is needed once the chunk is claimed.
            for (size_t line = 0; line < sizeof given; line += 64)
                __builtin_prefetch(reinterpret_cast<const std::byte*>(&given) + line);
        }
        if (landed.count == 0 && at.local == destination && source != seen.rank)
            return false;  // its reader is still reading
        if (landed.count != 0 && !has_landed(landed, chunks, at.seen.generation, c)) {
            // First it has to land; that of a rank of this node may be landed by anybody.
            if (at.seen.rank != source ||
                !claim_landing_chunk(at, same_cut(landed, chunks) ? c : kAnyChunk, out))
                continue;
            *chunk = c;
            return true;
        }
        if (!claim_chunk(chunks.words[c], seen.generation, self_)) continue;
        *chunk = c + 1;
        give_chunk(group, {destination, id, seen}, at, landed, source, c, out);
        return true;
    }
    return false;
}

void Mover::begin_copy(const Use& taker, const ChunkRange& chunks, Rank source, uint32_t c, Copy* out) const {
    *out = Copy{};
    out->destination = taker.local;
    out->record = taker.record;
    out->generation = taker.seen.generation;
    out->claim_offset = memory_.offset_of(&chunks.words[c]);
    out->source = source;
    out->collective = taker.seen.collective;
    out->is_self = source == taker.seen.rank;
    out->is_first = c == 0;
}

// Describes the copy of a chunk that was claimed. Both records are stable until it is settled.
void Mover::give_chunk(const GroupEntry& group, const Use& taker, const Use& giver, const ChunkRange& landed,
                       Rank source, uint32_t c, Copy* out) {
    OperationRecord& record = memory_.record(taker.local, taker.record);
    OperationRecord& given = memory_.record(giver.local, giver.record);
    const ChunkRange chunks = incoming_chunks(memory_, record, source);
    const bool from_source = memory_.members(group)[source.value].node == memory_.node();
    const Geometry giving(memory_, given, giver.local);
    const Block from = landed.count != 0 ? giving.landing(source)
                       : from_source     ? giving.outgoing(taker.seen.rank)
                                         : giving.incoming(source);
    const Block to = Geometry(memory_, record, taker.local).incoming(source);
    const uint64_t offset = uint64_t{c} * chunks.chunk_bytes;
    begin_copy(taker, chunks, source, c, out);
    out->giver = giver.local;
    const bool fits = from.valid && to.valid && from.bytes == to.bytes && offset < to.bytes;
    const bool failed = landed.count != 0
                            ? landing_failed(landed, chunks, c)
                            : !from_source && range_failed(incoming_chunks(memory_, given, source));
    if (failed) out->doomed = static_cast<uint32_t>(OperationError::kUnreadable);
    if (!fits) out->doomed = static_cast<uint32_t>(OperationError::kTruncated);
    out->from = from.at;
    out->to = to.at;
    if (out->doomed != 0) return;
    out->working_set = 2 * uint64_t{group.local_count} * chunks.chunk_bytes *
                       record.chunk_count.load(std::memory_order_relaxed);
    out->bytes = to.bytes - offset < chunks.chunk_bytes ? to.bytes - offset : chunks.chunk_bytes;
    out->from.offset += offset;
    out->to.offset += offset;
}

bool Mover::claim_incoming(LocalRank destination, RecordId record, MoverCursor* cursor, uint32_t steps_max,
                           Copy* out) {
    RecordLook seen;
    uint32_t local_index = 0;
    if (!look(memory_.record(destination, record), &seen)) return false;
    const GroupEntry* group = group_of(memory_, destination, seen, &local_index);
    if (group == nullptr) return false;
    const Ring ring = Ring::incoming(memory_, *group, seen, local_index);
    for (uint32_t i = 0; i < steps_max && cursor->idle_steps < ring.steps(); ++i) {
        if (cursor->next >= ring.steps()) cursor->next = 0;
        if (claim_block(*group, destination, record, seen, ring.at(cursor->next), &cursor->chunk, out)) {
            cursor->idle_steps = 0;
            return true;
        }
        cursor->next++;
        cursor->chunk = 0;
        cursor->idle_steps++;
    }
    return false;
}

bool Mover::claim_outgoing(LocalRank source, RecordId record, MoverCursor* cursor, uint32_t steps_max,
                           Copy* out) {
    RecordLook mine;
    uint32_t local_index = 0;
    if (!look(memory_.record(source, record), &mine)) return false;
    const GroupEntry* group = group_of(memory_, source, mine, &local_index);
    if (group == nullptr) return false;
    const Ring ring = Ring::outgoing(memory_, *group, mine, local_index);
    for (uint32_t i = 0; i < steps_max && cursor->idle_steps < ring.steps(); ++i) {
        if (cursor->next >= ring.steps()) cursor->next = 0;
        const Rank peer = ring.at(cursor->next);
        const Member& member = memory_.members(*group)[peer.value];
        RecordId peer_record;
        RecordLook seen;
        if (peer != mine.rank &&
            entered(memory_, *group, member.local_index, mine.sequence, &peer_record) ==
                Entered::kPublished &&
            look(memory_.record(member.local, peer_record), &seen) && seen.sequence == mine.sequence &&
            seen.group == mine.group && seen.collective == mine.collective &&
            claim_block(*group, member.local, peer_record, seen, mine.rank, &cursor->chunk, out)) {
            cursor->idle_steps = 0;
            return true;
        }
        cursor->next++;
        cursor->chunk = 0;
        cursor->idle_steps++;
    }
    return false;
}

bool Mover::claim_shared(GroupSlot slot, uint64_t sequence, Rank source, uint32_t local_index,
                         uint32_t* chunk, Copy* out) {
    const GroupEntry& group = memory_.group(slot);
    RecordId id;
    RecordLook seen;
    if (entered(memory_, group, local_index, sequence, &id) != Entered::kPublished) return false;
    const LocalRank local = memory_.members(group)[memory_.locals(group)[local_index]].local;
    return look(memory_.record(local, id), &seen) && seen.group == slot && seen.sequence == sequence &&
           claim_block(group, local, id, seen, source, chunk, out);
}

void Mover::finish(const Copy& copy, MoveResult result, WakeSet* wake) {
    OperationRecord& record = memory_.record(copy.destination, copy.record);
    Atomic<ChunkWord>& word = *memory_.at<Atomic<ChunkWord>>(copy.claim_offset);
    ChunkState state = ChunkState::kLanded;
    if (copy.doomed != 0) {
        state = ChunkState::kFailed;
        note_error(record, copy.generation, static_cast<OperationError>(copy.doomed));
    } else if (result == MoveResult::kNotPermitted && !is_rank(self_)) {
        state = ChunkState::kRankOnly;
    } else if (result != MoveResult::kMoved) {
        state = ChunkState::kFailed;
        note_error(record, copy.generation, OperationError::kUnreadable);
    } else if (copy.is_landing ? !is_rank(self_) : !copy.is_self) {
        RankSlot& slot = memory_.rank(copy.destination);
        auto& counter = copy.is_landing  ? slot.bytes_landed
                        : is_rank(self_) ? slot.bytes_by_rank
                                         : slot.bytes_by_service;
        counter[static_cast<uint32_t>(copy.collective)].fetch_add(copy.bytes, std::memory_order_relaxed);
    }
    // Sequentially consistent, as are the looks in announce_block: of two workers that settle the last two
    // chunks of a block at the same time, at least one sees both settled.
    settle_chunk(word, copy.generation, state);
    if (state == ChunkState::kRankOnly) {
        memory_.ring_rank(copy.destination, wake);
        memory_.ring_rank(copy.giver, wake);
    } else if (copy.is_landing) {
        announce_landing(memory_, copy.destination, copy.record, copy.generation, copy.source, wake);
    } else if (announce_block(memory_, copy.destination, copy.record, copy.generation, copy.source,
                              is_self(copy.destination), wake)) {
        if (!is_self(copy.giver)) memory_.ring_rank(copy.giver, wake);
    }
}

bool announce_block(const NodeMemory& memory, LocalRank destination, RecordId id, uint64_t generation,
                    Rank source, bool by_destination, WakeSet* wake) {
    OperationRecord& record = memory.record(destination, id);
    const ChunkRange chunks = incoming_chunks(memory, record, source);
    RecordLook seen;
    // A recycled record: its operation is over, and so is the block.
    const bool same = look(record, &seen) && seen.generation == generation;
    if (same && !range_settled(chunks, generation, std::memory_order_seq_cst)) return false;
    if (!by_destination) memory.ring_rank(destination, wake);
    uint32_t local_index = 0;
    const GroupEntry* group = same ? group_of(memory, destination, seen, &local_index) : nullptr;
    if (group != nullptr && group->readers_offset != 0 && is_shared(seen.collective) &&
        source.value < group->size) {
        const uint64_t reader = memory.reader(*group, seen.sequence, source).load(std::memory_order_acquire);
        // Its reader has it now: everybody else on the node may copy.
        if (reader == ring_entry(seen.sequence, local_index + 1)) wake_ranks_of(memory, *group, wake);
    }
    return true;
}

uint32_t free_lost_claims(const NodeMemory& memory, WorkerId gone, WakeSet* wake) {
    uint32_t freed = 0;
    const uint16_t ranks = memory.rank_count();
    for (uint16_t r = 0; r < ranks; ++r) {
        const LocalRank local{r};
        for (uint32_t id = 0; id < memory.limits().records_max; ++id) {
            if (id % 64 == 0 && memory.rank(local).active[id / 64].load(std::memory_order_acquire) == 0) {
                id += 63;
                continue;
            }
            const OperationRecord& record = memory.record(local, RecordId{id});
            const uint32_t count = record.chunk_count.load(std::memory_order_relaxed) +
                                   record.landing_count.load(std::memory_order_relaxed);
            Atomic<ChunkWord>* words = memory.at_checked<Atomic<ChunkWord>>(
                record.claims_offset.load(std::memory_order_relaxed), count);
            if (words == nullptr) continue;
            for (uint32_t i = 0; i < count; ++i) freed += free_lost_claim(words[i], gone);
        }
    }
    for (uint16_t r = 0; r < ranks; ++r) memory.ring_rank(LocalRank{r}, wake);
    memory.ring_all_services(wake);
    return freed;
}

}  // namespace longshore
