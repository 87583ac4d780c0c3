// What each rank has of something, all of it on rank 0. Every rank of the job calls.
#pragma once

#include <vector>

#include "mpi/shim.h"

namespace longshore::mpi {

// In the order of the ranks; empty on the others.
template <class T>
std::vector<T> gather_on_root(const T* mine, size_t count) {
    const bool root = shim().rank == 0;
    const int bytes = static_cast<int>(count * sizeof(T));
    std::vector<int> lengths(root ? static_cast<size_t>(shim().size) : 0), places(lengths.size());
    PMPI_Gather(&bytes, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, shim().world);
    int sum = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
        places[i] = sum;
        sum += lengths[i];
    }
    std::vector<T> all(static_cast<size_t>(sum) / sizeof(T));
    PMPI_Gatherv(mine, bytes, MPI_BYTE, all.data(), lengths.data(), places.data(), MPI_BYTE, 0, shim().world);
    return all;
}

// The sum over all ranks, on rank 0. Of structures of uint64_t.
template <class Words>
Words sum_on_root(Words mine) {
    static_assert(sizeof(Words) % sizeof(uint64_t) == 0);
    Words sum{};
    PMPI_Reduce(&mine, &sum, sizeof mine / sizeof(uint64_t), MPI_UINT64_T, MPI_SUM, 0, shim().world);
    return sum;
}

}  // namespace longshore::mpi
