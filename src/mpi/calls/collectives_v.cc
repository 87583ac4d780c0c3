// The collectives with a count per rank: alltoallv, alltoallw and allgatherv. Nothing depends on the sizes of
// an alltoallv or alltoallw: they differ from rank to rank.
#include "mpi/calls/blocks.h"
#include "mpi/calls/collectives.h"
#include "mpi/calls/select.h"

namespace longshore::mpi {
namespace {

// `send` is looked at unless the call is in place.
Reason plan_exchange(Call call, GroupRecord* group, bool in_place, const Blocks& send, const Blocks& recv,
                     Operation** out) {
    ls_algorithm algorithm{};
    if (Reason reason = select(*group, call, 0, &algorithm); reason != Reason::kNone) return reason;

    Operation* operation = new_operation(group, call);
    operation->bytes = recv.bytes;
    ls_arguments& arguments = operation->arguments;
    arguments.algorithm = algorithm;
    arguments.in_place = in_place;
    stage_recv(operation, recv, group->size);
    if (in_place) {
        arguments.send_vector = arguments.recv_vector;
        pack_in_place(operation, recv, 0, group->size);
    } else {
        stage_send(operation, send, group->size);
    }
    *out = operation;
    return Reason::kNone;
}

}  // namespace

Reason plan_alltoallv(Call call, const void* sendbuf, Integers sendcounts, Integers sdispls,
                      MPI_Datatype sendtype, void* recvbuf, Integers recvcounts, Integers rdispls,
                      MPI_Datatype recvtype, MPI_Comm comm, Operation** out) {
    GroupRecord* group = nullptr;
    if (Reason reason = refusal(comm, &group); reason != Reason::kNone) return reason;
    const bool in_place = sendbuf == MPI_IN_PLACE;
    Blocks send, recv;
    if (!blocks_of(recvbuf, recvcounts, rdispls, recvtype, group->size, &recv) ||
        (!in_place && !blocks_of(sendbuf, sendcounts, sdispls, sendtype, group->size, &send)))
        return Reason::kArguments;
    return plan_exchange(call, group, in_place, send, recv, out);
}

Reason plan_alltoallw(Call call, const void* sendbuf, Integers sendcounts, Integers sdispls,
                      const MPI_Datatype sendtypes[], void* recvbuf, Integers recvcounts, Integers rdispls,
                      const MPI_Datatype recvtypes[], MPI_Comm comm, Operation** out) {
    GroupRecord* group = nullptr;
    if (Reason reason = refusal(comm, &group); reason != Reason::kNone) return reason;
    const bool in_place = sendbuf == MPI_IN_PLACE;
    Blocks send, recv;
    if (!blocks_of(recvbuf, recvcounts, rdispls, recvtypes, group->size, &recv) ||
        (!in_place && !blocks_of(sendbuf, sendcounts, sdispls, sendtypes, group->size, &send)))
        return Reason::kArguments;
    return plan_exchange(call, group, in_place, send, recv, out);
}

Reason plan_allgatherv(Call call, const void* sendbuf, int64_t sendcount, MPI_Datatype sendtype,
                       void* recvbuf, Integers recvcounts, Integers displs, MPI_Datatype recvtype,
                       MPI_Comm comm, Operation** out) {
    GroupRecord* group = nullptr;
    if (Reason reason = refusal(comm, &group); reason != Reason::kNone) return reason;
    const bool in_place = sendbuf == MPI_IN_PLACE;
    Block send;
    Blocks recv;
    if (!blocks_of(recvbuf, recvcounts, displs, recvtype, group->size, &recv) ||
        (!in_place && !block_of(sendbuf, sendcount, sendtype, &send)))
        return Reason::kArguments;
    ls_algorithm algorithm{};
    if (Reason reason = select(*group, call, recv.bytes, &algorithm); reason != Reason::kNone) return reason;
    if (in_place) send.bytes = recv.bytes_of(group->rank);

    Operation* operation = new_operation(group, call);
    operation->bytes = operation->table_bytes = recv.bytes;
    ls_arguments& arguments = operation->arguments;
    arguments.algorithm = algorithm;
    arguments.in_place = in_place;
    arguments.send_block_bytes = send.bytes;
    stage_recv(operation, recv, group->size);
    if (in_place)
        pack_in_place(operation, recv, group->rank, 1);
    else
        stage_send(operation, send, send.count, send.bytes);
    *out = operation;
    return Reason::kNone;
}

}  // namespace longshore::mpi
