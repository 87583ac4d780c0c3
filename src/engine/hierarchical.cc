// kStagedHierarchical (paper S1, the designs for many ranks per node): a block of the allgather family
// crosses into shared memory of the node once, a "landing" in the arena of one of its ranks, and every rank
// copies it from there into its own buffer when it waits. The source of a local block lands it in its own
// arena and is done with its buffer; a block of another node lands at its reader. Landing words are claim
// words: a service process, or a rank that waits, takes them; but for landing and copying everything is as in
// the direct algorithm.
//
// A record without room for a landing has none: its blocks are given from where they are, directly.
#include "engine/mover.h"

namespace longshore {

bool has_landing(const OperationRecord& record) {
    return record.landing_count.load(std::memory_order_relaxed) != 0;
}

Block Geometry::landing(Rank source) const {
    const MemoryRef base{local_, kArenaRegion, load_relaxed(&record_.landing_offset)};
    const CollectiveRules& r = rules();
    const Rank rank{load_relaxed(&record_.rank)}, root{load_relaxed(&record_.root)};
    if (!has_landing(record_) || !r.gives(source, root)) return {base};
    if (r.taken == Blocks::kOne)
        return span(base, 0,
                    load_relaxed(rank == root ? &record_.send_block_bytes : &record_.recv_block_bytes), 0);
    return span(base, load_relaxed(&record_.recv_blocks_offset), load_relaxed(&record_.recv_block_bytes),
                source.value);
}

ChunkRange landing_chunks(const NodeMemory& memory, const OperationRecord& record, Rank source) {
    const uint32_t count = record.landing_count.load(std::memory_order_relaxed);
    const uint64_t first = record.claims_offset.load(std::memory_order_relaxed) +
                           uint64_t{record.chunk_count.load(std::memory_order_relaxed)} * sizeof(ChunkWord);
    return count != 0 ? chunks_of_block(memory, record, source, first, count) : ChunkRange{};
}

bool same_cut(const ChunkRange& landed, const ChunkRange& chunks) {
    return landed.count == chunks.count && landed.chunk_bytes == chunks.chunk_bytes;
}

bool has_landed(const ChunkRange& landed, const ChunkRange& chunks, uint64_t generation, uint32_t chunk) {
    uint32_t from = 0;
    return same_cut(landed, chunks) ? chunk_settled(landed.words[chunk].load(std::memory_order_acquire))
                                    : block_settled(landed, generation, &from);
}

bool landing_failed(const ChunkRange& landed, const ChunkRange& chunks, uint32_t chunk) {
    return same_cut(landed, chunks)
               ? chunk_state(landed.words[chunk].load(std::memory_order_relaxed)) == ChunkState::kFailed
               : range_failed(landed);
}

bool Mover::claim_landing_chunk(const Use& at, uint32_t chunk, Copy* out) {
    const OperationRecord& record = memory_.record(at.local, at.record);
    const ChunkRange chunks = landing_chunks(memory_, record, at.seen.rank);
    if (chunk == kAnyChunk) {
        for (uint32_t c = 0; c < chunks.count; ++c)
            if (claim_landing_chunk(at, c, out)) return true;
        return false;
    }
    if (chunk >= chunks.count || !claim_chunk(chunks.words[chunk], at.seen.generation, self_)) return false;
    const Geometry geometry(memory_, record, at.local);
    // To any other rank: the block is the same.
    const Block from = geometry.outgoing(Rank{at.seen.rank.value == 0 ? 1u : 0u});
    const Block to = geometry.landing(at.seen.rank);
    const uint64_t offset = uint64_t{chunk} * chunks.chunk_bytes;
    *out = Copy{};
    out->destination = out->giver = at.local;
    out->record = at.record;
    out->generation = at.seen.generation;
    out->claim_offset = memory_.offset_of(&chunks.words[chunk]);
    out->source = at.seen.rank;
    out->collective = at.seen.collective;
    out->is_landing = true;
    out->from = from.at;
    out->to = to.at;
    if (!from.valid || !to.valid || from.bytes != to.bytes || offset >= to.bytes) {
        out->doomed = static_cast<uint32_t>(OperationError::kTruncated);
        return true;
    }
    out->bytes = to.bytes - offset < chunks.chunk_bytes ? to.bytes - offset : chunks.chunk_bytes;
    out->from.offset += offset;
    out->to.offset += offset;
    return true;
}

bool Mover::claim_landing(LocalRank local, RecordId id, uint32_t* chunk, Copy* out) {
    Use at{local, id, {}};
    const OperationRecord& record = memory_.record(local, id);
    if (!has_landing(record) || !look(record, &at.seen) || at.seen.group.value >= memory_.limits().groups_max)
        return false;
    // Nobody else on the node: nobody to land it for.
    if (memory_.group(at.seen.group).local_count < 2) return false;
    const uint32_t count = landing_chunks(memory_, record, at.seen.rank).count;
    for (; *chunk < count; ++*chunk)
        if (claim_landing_chunk(at, *chunk, out)) return true;
    return false;
}

bool announce_landing(const NodeMemory& memory, LocalRank local, RecordId id, uint64_t generation,
                      Rank source, WakeSet* wake) {
    const OperationRecord& record = memory.record(local, id);
    RecordLook seen;
    if (!look(record, &seen) || seen.generation != generation ||
        seen.group.value >= memory.limits().groups_max)
        return true;
    // As in announce_block: of two workers that land the last two chunks, at least one sees both landed. An
    // acquiring load may run ahead of the exchange before it (on Arm, from Armv8.3 on).
    if (!range_settled(landing_chunks(memory, record, source), generation, std::memory_order_seq_cst))
        return false;
    const GroupEntry& group = memory.group(seen.group);
    for (uint32_t i = 0; i < group.local_count; ++i)
        memory.ring_rank(memory.members(group)[memory.locals(group)[i]].local, wake);
    if (load_relaxed(&record.copies_itself) == 0) memory.ring_all_services(wake);
    return true;
}

}  // namespace longshore
