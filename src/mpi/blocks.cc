#include "mpi/blocks.h"

namespace longshore::mpi {
namespace {

void lay_out_packed(Blocks* blocks, int size) {
    int64_t at = 0;
    for (int i = 0; i < size; ++i) {
        const int64_t bytes = blocks->counts[i] * static_cast<int64_t>(blocks->layout.element_bytes);
        blocks->packed_counts.push_back(bytes);
        blocks->packed_displacements.push_back(at);
        at += bytes;
    }
}

ls_vector vector_of(const Blocks& blocks) {
    if (!blocks.layout.contiguous) return packed_vector_of(blocks);
    return {blocks.counts, blocks.displacements, 0, blocks.layout.element_bytes};
}

}  // namespace

ls_vector packed_vector_of(const Blocks& blocks) {
    return {blocks.packed_counts.data(), blocks.packed_displacements.data(), 1, 1};
}

bool blocks_of(const void* buffer, const int* counts, const int* displacements, MPI_Datatype type, int size,
               Blocks* blocks) {
    if (!counts || !displacements || buffer == MPI_IN_PLACE || !layout_of(type, &blocks->layout))
        return false;
    blocks->buffer = buffer;
    blocks->counts = counts;
    blocks->displacements = displacements;
    for (int i = 0; i < size; ++i) {
        if (counts[i] < 0) return false;
        blocks->elements += static_cast<uint64_t>(counts[i]);
    }
    if (__builtin_mul_overflow(blocks->elements, blocks->layout.element_bytes, &blocks->bytes)) return false;
    return buffer || blocks->bytes == 0 || !blocks->layout.contiguous;
}

void give_up_blocks(Blocks* blocks, int size, uint64_t lost_bytes) {
    if (blocks->packed_counts.empty()) lay_out_packed(blocks, size);
    for (int64_t& bytes : blocks->packed_counts)
        if (bytes > 0) bytes += static_cast<int64_t>(lost_bytes);
    for (int64_t& place : blocks->packed_displacements) place = 0;
}

bool pack_block(const Blocks& blocks, int i, std::byte* memory) {
    const auto index = static_cast<size_t>(i);
    return pack(element_at(blocks.buffer, blocks.layout, blocks.displacements[i]),
                static_cast<uint64_t>(blocks.counts[i]), blocks.layout,
                memory + blocks.packed_displacements[index]);
}

bool pack_blocks(const Blocks& blocks, int size, std::byte* memory) {
    for (int i = 0; i < size; ++i)
        if (blocks.counts[i] > 0 && !pack_block(blocks, i, memory)) return false;
    return true;
}

void stage_send(Operation* operation, Blocks* blocks, int size) {
    operation->arguments.send = blocks->buffer;
    if (!blocks->layout.contiguous) {
        lay_out_packed(blocks, size);
        stage_packed_send(operation, blocks->bytes,
                          [&](std::byte* to) { return pack_blocks(*blocks, size, to); });
    }
    operation->arguments.send_vector = vector_of(*blocks);
}

void stage_recv(Operation* operation, Blocks* blocks, int size) {
    operation->arguments.recv = const_cast<void*>(blocks->buffer);
    if (!blocks->layout.contiguous) {
        lay_out_packed(blocks, size);
        if (blocks->bytes > 0) {
            operation->unpack_to = const_cast<void*>(blocks->buffer);
            operation->unpack_counts.assign(blocks->counts, blocks->counts + size);
            operation->unpack_displacements.assign(blocks->displacements, blocks->displacements + size);
            stage_packed_recv(operation, blocks->layout, blocks->bytes);
        }
    }
    operation->arguments.recv_vector = vector_of(*blocks);
}

}  // namespace longshore::mpi
