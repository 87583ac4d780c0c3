// The collectives with one count: alltoall, allgather, bcast.
#include "mpi/calls/collectives.h"

#include "mpi/calls/select.h"

namespace longshore::mpi {

Reason refusal(MPI_Comm comm, GroupRecord** group) {
    if (!shim().on) return shim().size == 1 ? Reason::kOneRank : Reason::kOff;
    if (comm == MPI_COMM_NULL) return Reason::kArguments;
    *group = find_group(comm);
    if (!*group) {
        int inter = 0;
        if (PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS) return Reason::kArguments;
        return inter ? Reason::kIntercomm : Reason::kUnseen;
    }
    return (*group)->group ? Reason::kNone : (*group)->reason;
}

bool block_of(const void* buffer, int64_t count, MPI_Datatype type, Block* block) {
    if (count < 0 || buffer == MPI_IN_PLACE || !layout_of(type, &block->layout)) return false;
    block->buffer = buffer;
    block->count = static_cast<uint64_t>(count);
    if (__builtin_mul_overflow(block->count, block->layout.element_bytes, &block->bytes)) return false;
    // MPI_BOTTOM is a null pointer, so only a type that starts at its address makes null an error.
    return buffer || block->bytes == 0 || !block->layout.contiguous;
}

std::byte* stage_packed_send(Operation* operation, size_t bytes) {
    if (!operation->send.allocate(bytes)) operation->lost = MPI_ERR_NO_MEM;
    operation->arguments.send = operation->send.memory;
    return operation->send.memory;
}

std::byte* stage_packed_recv(Operation* operation, size_t bytes) {
    if (!operation->recv.allocate(bytes)) operation->lost = MPI_ERR_NO_MEM;
    operation->arguments.recv = operation->recv.memory;
    return operation->recv.memory;
}

void stage_send(Operation* operation, const Block& block, uint64_t count, size_t bytes) {
    operation->arguments.send = block.buffer;
    Piece piece = piece_of(block.buffer, count, block.layout);
    if (piece.stays() || bytes == 0) return;
    piece.packed = stage_packed_send(operation, bytes);
    if (piece.packed) operation->packed_first.push_back(piece);
}

void stage_recv(Operation* operation, const Block& block, uint64_t count, size_t bytes) {
    operation->arguments.recv = const_cast<void*>(block.buffer);
    Piece piece = piece_of(block.buffer, count, block.layout);
    if (piece.stays() || bytes == 0) return;
    piece.packed = stage_packed_recv(operation, bytes);
    if (piece.packed) operation->unpacked_last.push_back(piece);
}

void pack_in_place(Operation* operation, const Block& block, uint64_t first, uint64_t count) {
    if (!operation->recv.memory) return;
    Piece piece =
        piece_of(element_at(block.buffer, block.layout, static_cast<int64_t>(first)), count, block.layout);
    piece.packed = operation->recv.memory + first * block.layout.element_bytes;
    operation->packed_first.push_back(piece);
}

bool whole_of(const Block& block, int size, size_t* bytes) {
    return !__builtin_mul_overflow(block.bytes, static_cast<size_t>(size), bytes);
}

Reason plan_uniform(Call call, const void* sendbuf, int64_t sendcount, MPI_Datatype sendtype, void* recvbuf,
                    int64_t recvcount, MPI_Datatype recvtype, MPI_Comm comm, Operation** out) {
    GroupRecord* group = nullptr;
    if (Reason reason = refusal(comm, &group); reason != Reason::kNone) return reason;
    const bool to_all = call.family == Family::kAlltoall;
    const bool in_place = sendbuf == MPI_IN_PLACE;
    Block send, recv;
    size_t whole = 0;
    if (!block_of(recvbuf, recvcount, recvtype, &recv) || !whole_of(recv, group->size, &whole) ||
        (!in_place && (!block_of(sendbuf, sendcount, sendtype, &send))))
        return Reason::kArguments;
    ls_algorithm algorithm{};
    if (Reason reason = select(*group, call, whole, &algorithm); reason != Reason::kNone) return reason;
    if (to_all && in_place && whole > shim().settings.snapshot_bytes_max) return Reason::kSnapshot;

    Operation* operation = new_operation(group, call);
    operation->bytes = operation->table_bytes = whole;
    ls_arguments& arguments = operation->arguments;
    arguments.algorithm = algorithm;
    arguments.in_place = in_place;
    arguments.recv_block_bytes = recv.bytes;
    arguments.send_block_bytes = in_place ? recv.bytes : send.bytes;
    const auto size = static_cast<uint64_t>(group->size), rank = static_cast<uint64_t>(group->rank);
    // A rank sends as many blocks as there are ranks, or one.
    const uint64_t blocks_sent = to_all ? size : 1;
    stage_recv(operation, recv, size * recv.count, whole);
    if (in_place)
        pack_in_place(operation, recv, to_all ? 0 : rank * recv.count, blocks_sent * recv.count);
    else
        stage_send(operation, send, blocks_sent * send.count, blocks_sent * send.bytes);
    *out = operation;
    return Reason::kNone;
}

Reason plan_bcast(Call call, void* buffer, int64_t count, MPI_Datatype datatype, int root, MPI_Comm comm,
                  Operation** out) {
    GroupRecord* group = nullptr;
    if (Reason reason = refusal(comm, &group); reason != Reason::kNone) return reason;
    Block block;
    if (root < 0 || root >= group->size || !block_of(buffer, count, datatype, &block))
        return Reason::kArguments;
    ls_algorithm algorithm{};
    if (Reason reason = select(*group, call, block.bytes, &algorithm); reason != Reason::kNone) return reason;

    Operation* operation = new_operation(group, call);
    operation->bytes = operation->table_bytes = block.bytes;
    ls_arguments& arguments = operation->arguments;
    arguments.algorithm = algorithm;
    arguments.root = static_cast<uint32_t>(root);
    arguments.send_block_bytes = arguments.recv_block_bytes = block.bytes;
    stage_recv(operation, block, block.count, block.bytes);
    if (root == group->rank) {
        pack_in_place(operation, block, 0, block.count);
        operation->unpacked_last.clear();  // it keeps what it has
    }
    *out = operation;
    return Reason::kNone;
}

}  // namespace longshore::mpi
