// One side of a collective with a count per rank: what its arguments mean.
#pragma once

#include <cstring>
#include <type_traits>
#include <vector>

#include "mpi/calls/collectives.h"

namespace longshore::mpi {

// The sides of an alltoallw have `types`: a type per block, and displacements in bytes. Of the others `types`
// is null, and all blocks have `layout`.
struct Blocks {
    const void* buffer = nullptr;
    Integers counts, displacements;
    const MPI_Datatype* types = nullptr;
    Layout layout;
    std::vector<Layout> layouts;  // by block
    size_t bytes = 0;
    bool contiguous = true;  // every block that is not empty

    const Layout& layout_of(int i) const { return types ? layouts[static_cast<size_t>(i)] : layout; }
    uint64_t bytes_of(int i) const {
        return static_cast<uint64_t>(counts[i]) * static_cast<uint64_t>(layout_of(i).element_bytes);
    }
    int64_t place_of(int i) const { return types ? displacements[i] : displacements[i] * layout.extent; }
    void* address_of(int i) const {
        return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(buffer) +
                                       static_cast<uintptr_t>(place_of(i)));
    }
};

// False if MPI would report an error.
bool blocks_of(const void* buffer, Integers counts, Integers displacements, MPI_Datatype type, int size,
               Blocks* blocks);
bool blocks_of(const void* buffer, Integers counts, Integers displacements, const MPI_Datatype* types,
               int size, Blocks* blocks);

// As the functions of the same names for blocks of one size (collectives.h).
void stage_send(Operation* operation, const Blocks& blocks, int size);
void stage_recv(Operation* operation, const Blocks& blocks, int size);
// `count` blocks of the receive buffer, from `first` on, that are also sent.
void pack_in_place(Operation* operation, const Blocks& blocks, int first, int count);

}  // namespace longshore::mpi
