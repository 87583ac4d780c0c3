#include "engine/geometry.h"

namespace longshore {

Block Geometry::span(const MemoryRef& base, uint64_t blocks_offset, uint64_t uniform_bytes,
                     uint32_t index) const {
    Block block;
    block.at = base;
    if (blocks_offset != 0) {
        const BlockSpan* blocks = memory_.at_checked<BlockSpan>(blocks_offset, uint64_t{index} + 1);
        if (blocks == nullptr) {
            block.valid = false;
            return block;
        }
        block.bytes = load_relaxed(&blocks[index].bytes);
        block.at.offset += load_relaxed(&blocks[index].offset);
    } else {
        block.bytes = uniform_bytes;
        block.at.offset += index * uniform_bytes;
    }
    if (block.bytes == 0) return block;
    const bool in_arena = base.region == kArenaRegion;
    const bool known = base.region.value < memory_.limits().regions_max;
    const uint64_t region_bytes = in_arena ? memory_.limits().arena_bytes
                                  : known  ? load_relaxed(&memory_.region(base.rank, base.region).bytes)
                                           : 0;
    if (block.at.offset > region_bytes || block.bytes > region_bytes - block.at.offset) {
        block.valid = false;
        block.bytes = 0;
    }
    return block;
}

Block Geometry::incoming(Rank source) const {
    const MemoryRef recv{local_, RegionId{load_relaxed(&record_.recv_region)},
                         load_relaxed(&record_.recv_offset)};
    const CollectiveRules& r = rules();
    const Rank rank{load_relaxed(&record_.rank)}, root{load_relaxed(&record_.root)};
    const bool stays = source == rank && load_relaxed(&record_.self_in_place) != 0;
    if (stays || !r.gives(source, root) || !r.takes(rank, root)) return {recv};
    const uint64_t uniform = load_relaxed(&record_.recv_block_bytes);
    return r.taken == Blocks::kOne
               ? span(recv, 0, uniform, 0)
               : span(recv, load_relaxed(&record_.recv_blocks_offset), uniform, source.value);
}

uint64_t Geometry::incoming_bytes(uint32_t size) const {
    const CollectiveRules& r = rules();
    if (!r.takes(Rank{load_relaxed(&record_.rank)}, Rank{load_relaxed(&record_.root)})) return 0;
    const uint64_t uniform = load_relaxed(&record_.recv_block_bytes);
    const uint64_t blocks_offset = load_relaxed(&record_.recv_blocks_offset);
    if (r.taken == Blocks::kOne) return uniform;
    if (blocks_offset == 0) return uniform * size;
    const BlockSpan* const blocks = memory_.at_checked<BlockSpan>(blocks_offset, size);
    uint64_t sum = 0;
    for (uint32_t i = 0; blocks != nullptr && i < size; ++i) sum += load_relaxed(&blocks[i].bytes);
    return sum;
}

Block Geometry::outgoing(Rank destination) const {
    const MemoryRef send{local_, RegionId{load_relaxed(&record_.send_region)},
                         load_relaxed(&record_.send_offset)};
    const CollectiveRules& r = rules();
    const Rank rank{load_relaxed(&record_.rank)}, root{load_relaxed(&record_.root)};
    if (!r.gives(rank, root) || !r.takes(destination, root)) return {send};
    const uint64_t uniform = load_relaxed(&record_.send_block_bytes);
    return r.given == Blocks::kOne
               ? span(send, 0, uniform, 0)
               : span(send, load_relaxed(&record_.send_blocks_offset), uniform, destination.value);
}

ChunkRange incoming_chunks(const NodeMemory& memory, const OperationRecord& record, Rank source) {
    return chunks_of_block(memory, record, source, record.claims_offset.load(std::memory_order_relaxed),
                           record.chunk_count.load(std::memory_order_relaxed));
}

ChunkRange chunks_of_block(const NodeMemory& memory, const OperationRecord& record, Rank source,
                           uint64_t offset, uint32_t total) {
    ChunkRange range;
    const uint32_t uniform = record.chunks_per_block.load(std::memory_order_relaxed);
    uint64_t first = 0;
    uint64_t count = 0;
    if (uniform & kOneBlock) {
        count = source.value == load_relaxed(&record.root) ? total : 0;
    } else if (uniform != 0) {
        first = uint64_t{source.value} * uniform;
        count = uniform;
    } else {
        const uint64_t table_offset = record.chunk_first_offset.load(std::memory_order_relaxed);
        if (table_offset == 0) return range;
        const uint32_t* table = memory.at_checked<uint32_t>(table_offset, uint64_t{source.value} + 2);
        if (table == nullptr) return range;
        first = load_relaxed(&table[source.value]);
        const uint64_t end = load_relaxed(&table[source.value + 1]);
        if (end < first) return range;
        count = end - first;
    }
    if (first > total || count > total - first) return range;
    Atomic<ChunkWord>* words = memory.at_checked<Atomic<ChunkWord>>(offset, total);
    if (words == nullptr) return range;
    range.words = words + first;
    range.count = static_cast<uint32_t>(count);
    range.chunk_bytes = record.chunk_bytes.load(std::memory_order_relaxed);
    return range;
}

bool range_failed(const ChunkRange& chunks) {
    for (uint32_t i = 0; i < chunks.count; ++i)
        if (chunk_state(chunks.words[i].load(std::memory_order_relaxed)) == ChunkState::kFailed) return true;
    return false;
}

}  // namespace longshore
