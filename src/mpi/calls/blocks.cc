#include "mpi/calls/blocks.h"

#include "mpi/data/device_memory.h"

namespace longshore::mpi {
namespace {

#ifdef OPEN_MPI
constexpr bool kNullTypeIsWrong = true;
#else
constexpr bool kNullTypeIsWrong = false;  // not where there are no elements of it
#endif

bool read_layouts(const MPI_Datatype* types, int size, Blocks* blocks) {
    if (!types) return false;
    blocks->types = types;
    blocks->layouts.resize(static_cast<size_t>(size));
    for (int i = 0; i < size; ++i) {
        if (!layout_of(types[i], &blocks->layouts[static_cast<size_t>(i)]) &&
            (kNullTypeIsWrong || blocks->counts[i] != 0))
            return false;
    }
    return true;
}

// The layouts are there.
bool measure(int size, Blocks* blocks) {
    for (int i = 0; i < size; ++i) {
        const Layout& layout = blocks->layout_of(i);
        uint64_t bytes = 0;
        if (blocks->counts[i] < 0 ||
            __builtin_mul_overflow(static_cast<uint64_t>(blocks->counts[i]), layout.element_bytes, &bytes) ||
            __builtin_add_overflow(blocks->bytes, bytes, &blocks->bytes))
            return false;
        if (bytes == 0) continue;
        // MPI_BOTTOM is a null pointer, so only data at its address make null an error.
        if (layout.contiguous && !blocks->address_of(i)) return false;
        blocks->contiguous = blocks->contiguous && layout.contiguous;
    }
    return blocks->bytes <= INT64_MAX;
}

bool begin(const void* buffer, Integers counts, Integers displacements, Blocks* blocks) {
    blocks->buffer = buffer;
    blocks->counts = counts;
    blocks->displacements = displacements;
    return counts.given() && displacements.given() && buffer != MPI_IN_PLACE;
}

Piece piece_of_block(const Blocks& blocks, int i) {
    return piece_of(blocks.address_of(i), static_cast<uint64_t>(blocks.counts[i]), blocks.layout_of(i));
}

// Whether all blocks may be read and written where they are. Displacements may lead from host memory to
// device memory, so each block is looked at.
bool all_stay(const Blocks& blocks, int size) {
    if (!blocks.contiguous || !device_runtime_loaded()) return blocks.contiguous;
    for (int i = 0; i < size; ++i)
        if (blocks.bytes_of(i) > 0 && !piece_of_block(blocks, i).stays()) return false;
    return true;
}

// What the host library is to read: the program's own arrays where they say it, else, and for a persistent
// operation, `own`, in bytes. Packed blocks stand one after another; `stay`: none is packed.
ls_vector vector_of(const Operation& operation, const Blocks& blocks, bool stay, int size, ByteVector* own) {
    if (stay && !blocks.types && operation.call.form != Form::kPersistent)
        return {blocks.counts.data(), blocks.displacements.data(), blocks.counts.is_64bit(),
                blocks.layout.element_bytes};
    int64_t at = 0;
    own->clear();
    for (int i = 0; i < size; ++i) {
        const auto bytes = static_cast<int64_t>(blocks.bytes_of(i));
        own->counts.push_back(bytes);
        own->displacements.push_back(stay ? blocks.place_of(i) : at);
        at += bytes;
    }
    return own->vector();
}

// Those of `count` blocks from `first` on that are not empty, in packed memory that begins at `packed`.
void add_pieces(const Blocks& blocks, int first, int count, std::byte* packed, std::vector<Piece>* pieces) {
    for (int i = 0; i < first; ++i) packed += blocks.bytes_of(i);
    for (int i = first; i < first + count; ++i) {
        const uint64_t bytes = blocks.bytes_of(i);
        if (bytes > 0) {
            pieces->push_back(piece_of_block(blocks, i));
            pieces->back().packed = packed;
        }
        packed += bytes;
    }
}

}  // namespace

bool blocks_of(const void* buffer, Integers counts, Integers displacements, MPI_Datatype type, int size,
               Blocks* blocks) {
    return begin(buffer, counts, displacements, blocks) && layout_of(type, &blocks->layout) &&
           measure(size, blocks);
}

bool blocks_of(const void* buffer, Integers counts, Integers displacements, const MPI_Datatype* types,
               int size, Blocks* blocks) {
    return begin(buffer, counts, displacements, blocks) && read_layouts(types, size, blocks) &&
           measure(size, blocks);
}

void stage_send(Operation* operation, const Blocks& blocks, int size) {
    operation->arguments.send = blocks.buffer;
    const bool stay = all_stay(blocks, size);
    operation->arguments.send_vector = vector_of(*operation, blocks, stay, size, &operation->send_bytes);
    if (stay) return;
    if (std::byte* packed = stage_packed_send(operation, blocks.bytes))
        add_pieces(blocks, 0, size, packed, &operation->packed_first);
}

void stage_recv(Operation* operation, const Blocks& blocks, int size) {
    operation->arguments.recv = const_cast<void*>(blocks.buffer);
    const bool stay = all_stay(blocks, size);
    operation->arguments.recv_vector = vector_of(*operation, blocks, stay, size, &operation->recv_bytes);
    if (stay) return;
    if (std::byte* packed = stage_packed_recv(operation, blocks.bytes))
        add_pieces(blocks, 0, size, packed, &operation->unpacked_last);
}

void pack_in_place(Operation* operation, const Blocks& blocks, int first, int count) {
    if (!operation->recv.memory) return;
    add_pieces(blocks, first, count, operation->recv.memory, &operation->packed_first);
}

}  // namespace longshore::mpi
