// Gather(v) and scatter(v). What one side means only the root knows: the others do not look at those
// arguments. The size of a block of gather or scatter is equal on all ranks, so it may decide; the counts of
// the v-forms are the root's alone, so nothing depends on them.
#include "mpi/blocks.h"
#include "mpi/collectives.h"
#include "mpi/entry.h"
#include "mpi/select.h"

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

Reason plan_gather(Call call, const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                   int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, Operation** out) {
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
    operation->arguments.send_block_bytes = in_place ? recv.bytes : send.bytes;
    operation->arguments.recv_block_bytes = recv.bytes;
    if (is_root) stage_recv(operation, recv, static_cast<uint64_t>(group->size) * recv.count, whole);
    if (in_place)
        pack_in_place(operation, recv, static_cast<uint64_t>(root) * recv.count, recv.count);
    else
        stage_send(operation, send, send.count, send.bytes);
    if (operation->lost != MPI_SUCCESS) give_up_data(operation);
    *out = operation;
    return Reason::kNone;
}

Reason plan_scatter(Call call, const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                    int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, Operation** out) {
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
    operation->arguments.send_block_bytes = send.bytes;
    operation->arguments.recv_block_bytes = recv.bytes;
    if (!in_place) stage_recv(operation, recv, recv.count, recv.bytes);
    if (is_root) stage_send(operation, send, static_cast<uint64_t>(group->size) * send.count, whole);
    if (operation->lost != MPI_SUCCESS) give_up_data(operation);
    *out = operation;
    return Reason::kNone;
}

Reason plan_gatherv(Call call, const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                    const int recvcounts[], const int displs[], MPI_Datatype recvtype, int root,
                    MPI_Comm comm, Plan* plan) {
    GroupRecord* group = nullptr;
    if (Reason reason = refusal_rooted(comm, root, &group); reason != Reason::kNone) return reason;
    const bool is_root = root == group->rank;
    const bool in_place = is_root && sendbuf == MPI_IN_PLACE;
    Block send;
    if ((!in_place && !block_of(sendbuf, sendcount, sendtype, &send)) ||
        (is_root && !blocks_of(recvbuf, recvcounts, displs, recvtype, group->size, &plan->recv)))
        return Reason::kArguments;
    ls_algorithm algorithm{};
    if (Reason reason = select(*group, call, 0, &algorithm); reason != Reason::kNone) return reason;
    if (in_place) send.bytes = static_cast<size_t>(recvcounts[root]) * plan->recv.layout.element_bytes;

    Operation* operation = plan->operation = new_rooted(group, call, algorithm, root, in_place);
    operation->bytes = plan->recv.bytes;
    operation->arguments.send_block_bytes = send.bytes;
    if (is_root) stage_recv(operation, &plan->recv, group->size);
    if (!in_place) {
        stage_send(operation, send, send.count, send.bytes);
    } else if (operation->unpack && operation->lost == MPI_SUCCESS &&
               !pack_block(plan->recv, root, operation->recv.memory)) {
        operation->lost = MPI_ERR_OTHER;
    }
    if (operation->lost != MPI_SUCCESS) {
        give_up_data(operation);
        if (send.bytes == 0) operation->arguments.send_block_bytes = 0;
        if (is_root) {
            give_up_blocks(&plan->recv, group->size, kLostRecv);
            operation->arguments.recv_vector = packed_vector_of(plan->recv);
        }
    }
    return Reason::kNone;
}

Reason plan_scatterv(Call call, const void* sendbuf, const int sendcounts[], const int displs[],
                     MPI_Datatype sendtype, void* recvbuf, int recvcount, MPI_Datatype recvtype, int root,
                     MPI_Comm comm, Plan* plan) {
    GroupRecord* group = nullptr;
    if (Reason reason = refusal_rooted(comm, root, &group); reason != Reason::kNone) return reason;
    const bool is_root = root == group->rank;
    const bool in_place = is_root && recvbuf == MPI_IN_PLACE;
    Block recv;
    if ((is_root && !blocks_of(sendbuf, sendcounts, displs, sendtype, group->size, &plan->send)) ||
        (!in_place && !block_of(recvbuf, recvcount, recvtype, &recv)))
        return Reason::kArguments;
    ls_algorithm algorithm{};
    if (Reason reason = select(*group, call, 0, &algorithm); reason != Reason::kNone) return reason;

    Operation* operation = plan->operation = new_rooted(group, call, algorithm, root, in_place);
    operation->bytes = recv.bytes;
    operation->arguments.recv_block_bytes = recv.bytes;
    if (!in_place) stage_recv(operation, recv, recv.count, recv.bytes);
    if (is_root) stage_send(operation, &plan->send, group->size);
    if (operation->lost != MPI_SUCCESS) {
        give_up_data(operation);
        if (recv.bytes == 0) operation->arguments.recv_block_bytes = 0;
        if (is_root) {
            give_up_blocks(&plan->send, group->size, kLostSend);
            operation->arguments.send_vector = packed_vector_of(plan->send);
        }
    }
    return Reason::kNone;
}

}  // namespace

namespace entry {

int gather(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
           MPI_Datatype recvtype, int root, MPI_Comm comm) {
    Operation* operation = nullptr;
    Reason reason = plan_gather(Call::kGather, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                root, comm, &operation);
    if (reason == Reason::kNone) return run_blocking(operation);
    HostCall host(Call::kGather, reason);
    return PMPI_Gather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm);
}

int igather(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
            MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request* request) {
    PostSpan span(Call::kIgather);
    Operation* operation = nullptr;
    Reason reason = plan_gather(Call::kIgather, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                root, comm, &operation);
    if (reason == Reason::kNone) return start_request(operation, request);
    HostCall host(Call::kIgather, reason);
    return PMPI_Igather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, request);
}

int gatherv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
            const int displs[], MPI_Datatype recvtype, int root, MPI_Comm comm) {
    Plan plan;
    Reason reason = plan_gatherv(Call::kGatherv, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
                                 recvtype, root, comm, &plan);
    if (reason == Reason::kNone) return run_blocking(plan.operation);
    HostCall host(Call::kGatherv, reason);
    return PMPI_Gatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm);
}

int igatherv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
             const int displs[], MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request* request) {
    PostSpan span(Call::kIgatherv);
    Plan plan;
    Reason reason = plan_gatherv(Call::kIgatherv, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
                                 recvtype, root, comm, &plan);
    if (reason == Reason::kNone) return start_request(plan.operation, request);
    HostCall host(Call::kIgatherv, reason);
    return PMPI_Igatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm,
                         request);
}

int scatter(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
            MPI_Datatype recvtype, int root, MPI_Comm comm) {
    Operation* operation = nullptr;
    Reason reason = plan_scatter(Call::kScatter, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                 root, comm, &operation);
    if (reason == Reason::kNone) return run_blocking(operation);
    HostCall host(Call::kScatter, reason);
    return PMPI_Scatter(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm);
}

int iscatter(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
             MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request* request) {
    PostSpan span(Call::kIscatter);
    Operation* operation = nullptr;
    Reason reason = plan_scatter(Call::kIscatter, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                 root, comm, &operation);
    if (reason == Reason::kNone) return start_request(operation, request);
    HostCall host(Call::kIscatter, reason);
    return PMPI_Iscatter(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, request);
}

int scatterv(const void* sendbuf, const int sendcounts[], const int displs[], MPI_Datatype sendtype,
             void* recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
    Plan plan;
    Reason reason = plan_scatterv(Call::kScatterv, sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount,
                                  recvtype, root, comm, &plan);
    if (reason == Reason::kNone) return run_blocking(plan.operation);
    HostCall host(Call::kScatterv, reason);
    return PMPI_Scatterv(sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm);
}

int iscatterv(const void* sendbuf, const int sendcounts[], const int displs[], MPI_Datatype sendtype,
              void* recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,
              MPI_Request* request) {
    PostSpan span(Call::kIscatterv);
    Plan plan;
    Reason reason = plan_scatterv(Call::kIscatterv, sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount,
                                  recvtype, root, comm, &plan);
    if (reason == Reason::kNone) return start_request(plan.operation, request);
    HostCall host(Call::kIscatterv, reason);
    return PMPI_Iscatterv(sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm,
                          request);
}

}  // namespace entry
}  // namespace longshore::mpi
