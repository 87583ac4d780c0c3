// Gather(v) and scatter(v). What one side means only the root knows: the others do not look at those
// arguments. The size of a block of gather or scatter is equal on all ranks, so it may decide; the counts of
// the v-forms are the root's alone, so nothing depends on them.
#include "mpi/calls/blocks.h"
#include "mpi/calls/collectives.h"
#include "mpi/calls/select.h"
#include "mpi/entry.h"

namespace longshore::mpi {
namespace {

// As refusal(), and the root must be a rank of the group.
Reason refusal_rooted(MPI_Comm comm, int root, GroupRecord** group) {
    if (Reason reason = refusal(comm, group); reason != Reason::kNone) return reason;
    return root < 0 || root >= (*group)->size ? Reason::kArguments : Reason::kNone;
}

Operation* new_rooted(GroupRecord* group, Call call, ls_algorithm algorithm, int root, bool in_place) {
    Operation* operation = new_operation(group, call);
    operation->arguments.algorithm = algorithm;
    operation->arguments.root = static_cast<uint32_t>(root);
    operation->arguments.in_place = in_place;
    return operation;
}

}  // namespace

Reason plan_gather(Call call, const void* sendbuf, int64_t sendcount, MPI_Datatype sendtype, void* recvbuf,
                   int64_t recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, Operation** out) {
    GroupRecord* group = nullptr;
    if (Reason reason = refusal_rooted(comm, root, &group); reason != Reason::kNone) return reason;
    const bool is_root = root == group->rank;
    const bool in_place = is_root && sendbuf == MPI_IN_PLACE;
    Block send, recv;
    size_t whole = 0;
    if ((!in_place && !block_of(sendbuf, sendcount, sendtype, &send)) ||
        (is_root && !block_of(recvbuf, recvcount, recvtype, &recv)) ||
        !whole_of(is_root ? recv : send, group->size, &whole))
        return Reason::kArguments;
    ls_algorithm algorithm{};
    if (Reason reason = select(*group, call, whole, &algorithm); reason != Reason::kNone) return reason;

    Operation* operation = new_rooted(group, call, algorithm, root, in_place);
    operation->bytes = is_root ? whole : 0;
    operation->table_bytes = whole;
    operation->arguments.send_block_bytes = in_place ? recv.bytes : send.bytes;
    operation->arguments.recv_block_bytes = recv.bytes;
    if (is_root) stage_recv(operation, recv, static_cast<uint64_t>(group->size) * recv.count, whole);
    if (in_place)
        pack_in_place(operation, recv, static_cast<uint64_t>(root) * recv.count, recv.count);
    else
        stage_send(operation, send, send.count, send.bytes);
    *out = operation;
    return Reason::kNone;
}

Reason plan_scatter(Call call, const void* sendbuf, int64_t sendcount, MPI_Datatype sendtype, void* recvbuf,
                    int64_t recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, Operation** out) {
    GroupRecord* group = nullptr;
    if (Reason reason = refusal_rooted(comm, root, &group); reason != Reason::kNone) return reason;
    const bool is_root = root == group->rank;
    const bool in_place = is_root && recvbuf == MPI_IN_PLACE;
    Block send, recv;
    size_t whole = 0;
    if ((is_root && !block_of(sendbuf, sendcount, sendtype, &send)) ||
        (!in_place && !block_of(recvbuf, recvcount, recvtype, &recv)) ||
        !whole_of(is_root ? send : recv, group->size, &whole))
        return Reason::kArguments;
    ls_algorithm algorithm{};
    if (Reason reason = select(*group, call, whole, &algorithm); reason != Reason::kNone) return reason;

    Operation* operation = new_rooted(group, call, algorithm, root, in_place);
    operation->bytes = recv.bytes;
    operation->table_bytes = whole;
    operation->arguments.send_block_bytes = send.bytes;
    operation->arguments.recv_block_bytes = recv.bytes;
    if (!in_place) stage_recv(operation, recv, recv.count, recv.bytes);
    if (is_root) stage_send(operation, send, static_cast<uint64_t>(group->size) * send.count, whole);
    *out = operation;
    return Reason::kNone;
}

Reason plan_gatherv(Call call, const void* sendbuf, int64_t sendcount, MPI_Datatype sendtype, void* recvbuf,
                    Integers recvcounts, Integers displs, MPI_Datatype recvtype, int root, MPI_Comm comm,
                    Operation** out) {
    GroupRecord* group = nullptr;
    if (Reason reason = refusal_rooted(comm, root, &group); reason != Reason::kNone) return reason;
    const bool is_root = root == group->rank;
    const bool in_place = is_root && sendbuf == MPI_IN_PLACE;
    Block send;
    Blocks recv;
    if ((!in_place && !block_of(sendbuf, sendcount, sendtype, &send)) ||
        (is_root && !blocks_of(recvbuf, recvcounts, displs, recvtype, group->size, &recv)))
        return Reason::kArguments;
    ls_algorithm algorithm{};
    if (Reason reason = select(*group, call, 0, &algorithm); reason != Reason::kNone) return reason;
    if (in_place) send.bytes = recv.bytes_of(root);

    Operation* operation = new_rooted(group, call, algorithm, root, in_place);
    operation->bytes = recv.bytes;
    operation->arguments.send_block_bytes = send.bytes;
    if (is_root) stage_recv(operation, recv, group->size);
    if (in_place)
        pack_in_place(operation, recv, root, 1);
    else
        stage_send(operation, send, send.count, send.bytes);
    *out = operation;
    return Reason::kNone;
}

Reason plan_scatterv(Call call, const void* sendbuf, Integers sendcounts, Integers displs,
                     MPI_Datatype sendtype, void* recvbuf, int64_t recvcount, MPI_Datatype recvtype, int root,
                     MPI_Comm comm, Operation** out) {
    GroupRecord* group = nullptr;
    if (Reason reason = refusal_rooted(comm, root, &group); reason != Reason::kNone) return reason;
    const bool is_root = root == group->rank;
    const bool in_place = is_root && recvbuf == MPI_IN_PLACE;
    Blocks send;
    Block recv;
    if ((is_root && !blocks_of(sendbuf, sendcounts, displs, sendtype, group->size, &send)) ||
        (!in_place && !block_of(recvbuf, recvcount, recvtype, &recv)))
        return Reason::kArguments;
    ls_algorithm algorithm{};
    if (Reason reason = select(*group, call, 0, &algorithm); reason != Reason::kNone) return reason;

    Operation* operation = new_rooted(group, call, algorithm, root, in_place);
    operation->bytes = recv.bytes;
    operation->arguments.recv_block_bytes = recv.bytes;
    if (!in_place) stage_recv(operation, recv, recv.count, recv.bytes);
    if (is_root) stage_send(operation, send, group->size);
    *out = operation;
    return Reason::kNone;
}

}  // namespace longshore::mpi
