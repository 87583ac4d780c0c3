// The collectives with a count per rank: alltoallv and allgatherv. Nothing depends on the sizes of an
// alltoallv: they differ from rank to rank.
#include "mpi/blocks.h"
#include "mpi/collectives.h"
#include "mpi/entry.h"
#include "mpi/select.h"

namespace longshore::mpi {
namespace {

Reason plan_alltoallv(Call call, const void* sendbuf, const int sendcounts[], const int sdispls[],
                      MPI_Datatype sendtype, void* recvbuf, const int recvcounts[], const int rdispls[],
                      MPI_Datatype recvtype, MPI_Comm comm, Plan* plan) {
    GroupRecord* group = nullptr;
    if (Reason reason = refusal(comm, &group); reason != Reason::kNone) return reason;
    const bool in_place = sendbuf == MPI_IN_PLACE;
    const int size = group->size;
    if (!blocks_of(recvbuf, recvcounts, rdispls, recvtype, size, &plan->recv) ||
        (!in_place && !blocks_of(sendbuf, sendcounts, sdispls, sendtype, size, &plan->send)))
        return Reason::kArguments;
    ls_algorithm algorithm{};
    if (Reason reason = select(*group, call, 0, &algorithm); reason != Reason::kNone) return reason;

    Operation* operation = plan->operation = new_operation(group, call);
    operation->bytes = plan->recv.bytes;
    ls_arguments& arguments = operation->arguments;
    arguments.algorithm = algorithm;
    arguments.in_place = in_place;
    stage_recv(operation, &plan->recv, size);
    if (!in_place) {
        stage_send(operation, &plan->send, size);
    } else {
        arguments.send_vector = arguments.recv_vector;
        if (operation->unpack && operation->lost == MPI_SUCCESS &&
            !pack_blocks(plan->recv, size, operation->recv.memory))
            operation->lost = MPI_ERR_OTHER;
    }
    if (operation->lost != MPI_SUCCESS) {
        give_up_data(operation);
        if (in_place) plan->send = plan->recv;
        give_up_blocks(&plan->send, size, kLostSend);
        give_up_blocks(&plan->recv, size, kLostRecv);
        arguments.send_vector = packed_vector_of(plan->send);
        arguments.recv_vector = packed_vector_of(plan->recv);
    }
    return Reason::kNone;
}

Reason plan_allgatherv(Call call, const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                       const int recvcounts[], const int displs[], MPI_Datatype recvtype, MPI_Comm comm,
                       Plan* plan) {
    GroupRecord* group = nullptr;
    if (Reason reason = refusal(comm, &group); reason != Reason::kNone) return reason;
    const bool in_place = sendbuf == MPI_IN_PLACE;
    Block send;
    if (!blocks_of(recvbuf, recvcounts, displs, recvtype, group->size, &plan->recv) ||
        (!in_place && !block_of(sendbuf, sendcount, sendtype, &send)))
        return Reason::kArguments;
    ls_algorithm algorithm{};
    if (Reason reason = select(*group, call, plan->recv.bytes, &algorithm); reason != Reason::kNone)
        return reason;
    if (in_place) send.bytes = static_cast<size_t>(recvcounts[group->rank]) * plan->recv.layout.element_bytes;

    Operation* operation = plan->operation = new_operation(group, call);
    operation->bytes = plan->recv.bytes;
    ls_arguments& arguments = operation->arguments;
    arguments.algorithm = algorithm;
    arguments.in_place = in_place;
    arguments.send_block_bytes = send.bytes;
    arguments.send = send.buffer;
    stage_recv(operation, &plan->recv, group->size);
    if (in_place) {
        if (operation->unpack && operation->lost == MPI_SUCCESS &&
            !pack_block(plan->recv, group->rank, operation->recv.memory))
            operation->lost = MPI_ERR_OTHER;
    } else if (!send.layout.contiguous && send.bytes > 0) {
        stage_packed_send(operation, send.bytes,
                          [&](std::byte* to) { return pack(send.buffer, send.count, send.layout, to); });
    }
    if (operation->lost != MPI_SUCCESS) {
        give_up_data(operation);
        if (send.bytes == 0) arguments.send_block_bytes = 0;
        give_up_blocks(&plan->recv, group->size, kLostRecv);
        arguments.recv_vector = packed_vector_of(plan->recv);
    }
    return Reason::kNone;
}

}  // namespace

namespace entry {

int alltoallv(const void* sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
              void* recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
              MPI_Comm comm) {
    Plan plan;
    Reason reason = plan_alltoallv(Call::kAlltoallv, sendbuf, sendcounts, sdispls, sendtype, recvbuf,
                                   recvcounts, rdispls, recvtype, comm, &plan);
    if (reason == Reason::kNone) return run_blocking(plan.operation);
    HostCall host(Call::kAlltoallv, reason);
    return PMPI_Alltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype,
                          comm);
}

int ialltoallv(const void* sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
               void* recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
               MPI_Comm comm, MPI_Request* request) {
    PostSpan span(Call::kIalltoallv);
    Plan plan;
    Reason reason = plan_alltoallv(Call::kIalltoallv, sendbuf, sendcounts, sdispls, sendtype, recvbuf,
                                   recvcounts, rdispls, recvtype, comm, &plan);
    if (reason == Reason::kNone) return start_request(plan.operation, request);
    HostCall host(Call::kIalltoallv, reason);
    return PMPI_Ialltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype,
                           comm, request);
}

int allgatherv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
               const int recvcounts[], const int displs[], MPI_Datatype recvtype, MPI_Comm comm) {
    Plan plan;
    Reason reason = plan_allgatherv(Call::kAllgatherv, sendbuf, sendcount, sendtype, recvbuf, recvcounts,
                                    displs, recvtype, comm, &plan);
    if (reason == Reason::kNone) return run_blocking(plan.operation);
    HostCall host(Call::kAllgatherv, reason);
    return PMPI_Allgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm);
}

int iallgatherv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                const int recvcounts[], const int displs[], MPI_Datatype recvtype, MPI_Comm comm,
                MPI_Request* request) {
    PostSpan span(Call::kIallgatherv);
    Plan plan;
    Reason reason = plan_allgatherv(Call::kIallgatherv, sendbuf, sendcount, sendtype, recvbuf, recvcounts,
                                    displs, recvtype, comm, &plan);
    if (reason == Reason::kNone) return start_request(plan.operation, request);
    HostCall host(Call::kIallgatherv, reason);
    return PMPI_Iallgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm,
                            request);
}

}  // namespace entry
}  // namespace longshore::mpi
