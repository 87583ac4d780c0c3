// What a buffer of (count, datatype) is to Longshore: bytes in place, or something that its own rank packs.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>

namespace longshore::mpi {

struct Layout {
    MPI_Datatype type{};
    size_t element_bytes = 0;  // MPI's size of one element, which is also what it takes packed
    int64_t extent = 0;
    int64_t true_lb = 0;       // where the data of an element begin, and how much they span
    uint64_t true_extent = 0;  // with their holes
    bool contiguous = false;   // elements lie in order, without holes, from the buffer's address on
    bool predefined = false;   // nobody makes or frees it
};

// False if MPI does not know `type`.
bool layout_of(MPI_Datatype type, Layout* layout);

// The address of element `index`; in unsigned arithmetic, because MPI_BOTTOM is null and displacements are
// signed.
inline void* element_at(const void* buffer, const Layout& layout, int64_t index) {
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(buffer) +
                                   static_cast<uintptr_t>(index * layout.extent));
}

// `count` elements from `buffer` to count * element_bytes at `packed`, and back. False if MPI reports an
// error.
bool pack(const void* buffer, uint64_t count, const Layout& layout, std::byte* packed);
bool unpack(const std::byte* packed, uint64_t count, const Layout& layout, void* buffer);

}  // namespace longshore::mpi
