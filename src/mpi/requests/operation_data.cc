#include "mpi/requests/operation_data.h"

#include <cstdlib>

#include "mpi/calls/integers.h"
#include "mpi/data/watched.h"
#include "mpi/statistics/stats.h"

namespace longshore::mpi {
namespace {

int for_all(const std::vector<Piece>& pieces, int (*do_one)(const Piece&),
            void (*count)(uint64_t bytes, uint64_t device_bytes, uint64_t ns)) {
    const uint64_t begin = stats_wanted() ? now_ns() : 0;
    uint64_t bytes = 0, device_bytes = 0;
    for (const Piece& piece : pieces) {
        if (const int error = do_one(piece); error != MPI_SUCCESS) return error;
        bytes += piece.bytes();
        if (piece.place == Place::kDevice) device_bytes += piece.bytes();
    }
    if (stats_wanted()) count(bytes, device_bytes, now_ns() - begin);
    return MPI_SUCCESS;
}

}  // namespace

void tell_received(const Operation& operation) {
    const ls_arguments& a = operation.arguments;
    auto* const recv = static_cast<const std::byte*>(a.recv);
    if (!is_watched() || !recv || operation.given_up) return;
    const int size = operation.group->size;
    if (!a.recv_vector.counts) {
        const bool is_one =
            a.collective == LS_BCAST || a.collective == LS_SCATTER || a.collective == LS_SCATTERV;
        return tell_written(recv, a.recv_block_bytes * (is_one ? 1 : static_cast<size_t>(size)));
    }
    const Integers counts(a.recv_vector.counts, a.recv_vector.is_64bit != 0),
        displacements(a.recv_vector.displacements, a.recv_vector.is_64bit != 0);
    const auto element = static_cast<int64_t>(a.recv_vector.element_bytes);
    for (int i = 0; i < size; ++i)
        tell_written(recv + displacements[i] * element, static_cast<size_t>(counts[i] * element));
}

int pack_pieces(const Operation& operation) {
    return for_all(operation.packed_first, pack, count_packed);
}

int unpack_pieces(const Operation& operation) {
    return for_all(operation.unpacked_last, unpack, count_unpacked);
}

void free_data(Operation* operation) {
    for (MPI_Datatype& type : operation->own_types) PMPI_Type_free(&type);
    operation->own_types.clear();
    if (!operation->send.memory && !operation->recv.memory) return;
    ContextLock lock;
    operation->send.free();
    operation->recv.free();
}

bool Staging::allocate(size_t wanted) {
    bytes = wanted;
    if (wanted == 0) return true;
    {
        ContextLock lock;
        memory = static_cast<std::byte*>(ls_allocate(shim().context, wanted));
        from_context = memory != nullptr;
    }
    if (!memory) memory = static_cast<std::byte*>(malloc(wanted));
    if (memory && stats_wanted()) count_staging(static_cast<int64_t>(wanted));
    return memory != nullptr;
}

void Staging::free() {
    if (memory && stats_wanted()) count_staging(-static_cast<int64_t>(bytes));
    if (from_context)
        ls_release(shim().context, memory, bytes);
    else
        ::free(memory);
    *this = Staging{};
}

void hold_types(Operation* operation, std::vector<Piece>* pieces) {
    MPI_Datatype last = MPI_DATATYPE_NULL, held = MPI_DATATYPE_NULL;
    for (Piece& piece : *pieces) {
        if (!piece.needs_type() || piece.layout.predefined) continue;
        if (piece.layout.type != last) {
            last = piece.layout.type;
            // Not a duplicate, for which the program's own functions would be called to copy attributes.
            if (PMPI_Type_contiguous(1, last, &held) == MPI_SUCCESS) operation->own_types.push_back(held);
            if (held == MPI_DATATYPE_NULL || PMPI_Type_commit(&held) != MPI_SUCCESS) {
                operation->lost = MPI_ERR_OTHER;
                return;
            }
        }
        piece.layout.type = held;
    }
}

}  // namespace longshore::mpi
