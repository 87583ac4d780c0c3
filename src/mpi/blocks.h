// One side of a collective with a count per rank: what its arguments mean, and its blocks packed one after
// the other.
#pragma once

#include <vector>

#include "mpi/collectives.h"

namespace longshore::mpi {

struct Blocks {
    const void* buffer = nullptr;
    const int* counts = nullptr;
    const int* displacements = nullptr;
    uint64_t elements = 0;
    size_t bytes = 0;
    Layout layout;
    // If packed: bytes per block and where they stand, one after the other.
    std::vector<int64_t> packed_counts, packed_displacements;
};

// False if MPI would report an error.
bool blocks_of(const void* buffer, const int* counts, const int* displacements, MPI_Datatype type, int size,
               Blocks* blocks);

// As the functions of the same names for blocks of one size (collectives.h).
void stage_send(Operation* operation, Blocks* blocks, int size);
void stage_recv(Operation* operation, Blocks* blocks, int size);

bool pack_block(const Blocks& blocks, int i, std::byte* memory);
bool pack_blocks(const Blocks& blocks, int size, std::byte* memory);
ls_vector packed_vector_of(const Blocks& blocks);
// See give_up_data; empty blocks stay empty.
void give_up_blocks(Blocks* blocks, int size, uint64_t lost_bytes);

// The host library reads counts in ls_operation_start, so what was packed must live until then: in `Plan`.
struct Plan {
    Blocks send, recv;
    Operation* operation = nullptr;
};

}  // namespace longshore::mpi
