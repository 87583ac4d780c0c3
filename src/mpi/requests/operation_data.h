// What an operation's rank does with its data itself, and what it holds for that: packed blocks, and types
// that the program may free.
#pragma once

#include "mpi/requests/operation.h"

namespace longshore::mpi {

// Packs what is to be packed first, or unpacks what came. MPI_SUCCESS, or what the first piece that fails has
// met.
int pack_pieces(const Operation& operation);
int unpack_pieces(const Operation& operation);
inline int pack_first(const Operation& operation) {
    return operation.packed_first.empty() ? MPI_SUCCESS : pack_pieces(operation);
}
inline int unpack_last(const Operation& operation) {
    return operation.unpacked_last.empty() ? MPI_SUCCESS : unpack_pieces(operation);
}
// What arrives is written by other processes, which tools in this one do not see (data/watched.h). Before it
// starts.
void tell_received(const Operation& operation);
// Not under the lock: the MPI may call back.
void free_data(Operation* operation);

}  // namespace longshore::mpi
