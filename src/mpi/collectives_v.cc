// The collectives with a count per rank: alltoallv and allgatherv. Nothing depends on the sizes of an
// alltoallv: they differ from rank to rank.
#include "mpi/collectives.h"
#include "mpi/entry.h"
#include "mpi/select.h"

namespace longshore::mpi {
namespace {

// One side of a v-collective.
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

bool blocks_of(const void* buffer, const int* counts, const int* displacements, MPI_Datatype type, int size,
               Blocks* blocks) {
    if (!counts || !displacements || buffer == MPI_IN_PLACE || !layout_of(type, &blocks->layout))
        return false;
    blocks->buffer = buffer;
    blocks->counts = counts;
    blocks->displacements = displacements;
    for (int i = 0; i < size; ++i) {
        if (counts[i] < 0) return false;
        blocks->elements += static_cast<uint64_t>(counts[i]);
    }
    if (__builtin_mul_overflow(blocks->elements, blocks->layout.element_bytes, &blocks->bytes)) return false;
    return buffer || blocks->bytes == 0 || !blocks->layout.contiguous;
}

void lay_out_packed(Blocks* blocks, int size) {
    int64_t at = 0;
    for (int i = 0; i < size; ++i) {
        const int64_t bytes = blocks->counts[i] * static_cast<int64_t>(blocks->layout.element_bytes);
        blocks->packed_counts.push_back(bytes);
        blocks->packed_displacements.push_back(at);
        at += bytes;
    }
}

// See give_up_data; empty blocks stay empty.
void give_up_blocks(Blocks* blocks, int size, uint64_t lost_bytes) {
    if (blocks->packed_counts.empty()) lay_out_packed(blocks, size);
    for (int64_t& bytes : blocks->packed_counts)
        if (bytes > 0) bytes += static_cast<int64_t>(lost_bytes);
    for (int64_t& place : blocks->packed_displacements) place = 0;
}

bool pack_block(const Blocks& blocks, int i, std::byte* memory) {
    const auto index = static_cast<size_t>(i);
    return pack(element_at(blocks.buffer, blocks.layout, blocks.displacements[i]),
                static_cast<uint64_t>(blocks.counts[i]), blocks.layout,
                memory + blocks.packed_displacements[index]);
}

bool pack_blocks(const Blocks& blocks, int size, std::byte* memory) {
    for (int i = 0; i < size; ++i)
        if (blocks.counts[i] > 0 && !pack_block(blocks, i, memory)) return false;
    return true;
}

ls_vector packed_vector_of(const Blocks& blocks) {
    return {blocks.packed_counts.data(), blocks.packed_displacements.data(), 1, 1};
}

ls_vector vector_of(const Blocks& blocks) {
    if (!blocks.layout.contiguous) return packed_vector_of(blocks);
    return {blocks.counts, blocks.displacements, 0, blocks.layout.element_bytes};
}

void stage_send(Operation* operation, Blocks* blocks, int size) {
    operation->arguments.send = blocks->buffer;
    if (!blocks->layout.contiguous) {
        lay_out_packed(blocks, size);
        stage_packed_send(operation, blocks->bytes,
                          [&](std::byte* to) { return pack_blocks(*blocks, size, to); });
    }
    operation->arguments.send_vector = vector_of(*blocks);
}

void stage_recv(Operation* operation, Blocks* blocks, int size) {
    operation->arguments.recv = const_cast<void*>(blocks->buffer);
    if (!blocks->layout.contiguous) {
        lay_out_packed(blocks, size);
        if (blocks->bytes > 0) {
            operation->unpack_to = const_cast<void*>(blocks->buffer);
            operation->unpack_counts.assign(blocks->counts, blocks->counts + size);
            operation->unpack_displacements.assign(blocks->displacements, blocks->displacements + size);
            stage_packed_recv(operation, blocks->layout, blocks->bytes);
        }
    }
    operation->arguments.recv_vector = vector_of(*blocks);
}

// The host library reads counts in ls_operation_start, so what was packed must live until then: in `Plan`.
struct Plan {
    Blocks send, recv;
    Operation* operation = nullptr;
};

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
