// The collectives with one count: alltoall, allgather, bcast. Each one's plan checks the arguments; while it
// may still refuse, nothing has been handed over, and MPI gets the call as it came.
#include "mpi/collectives.h"

#include <atomic>

#include "mpi/entry.h"
#include "mpi/select.h"

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

bool block_of(const void* buffer, int count, MPI_Datatype type, Block* block) {
    if (count < 0 || buffer == MPI_IN_PLACE || !layout_of(type, &block->layout)) return false;
    block->buffer = buffer;
    block->count = static_cast<uint64_t>(count);
    if (__builtin_mul_overflow(block->count, block->layout.element_bytes, &block->bytes)) return false;
    // MPI_BOTTOM is a null pointer, so only a type that starts at its address makes null an error.
    return buffer || block->bytes == 0 || !block->layout.contiguous;
}

void stage_packed_recv(Operation* operation, const Layout& layout, size_t bytes) {
    if (!operation->recv.allocate(bytes)) operation->lost = MPI_ERR_NO_MEM;
    operation->arguments.recv = operation->recv.memory;
    operation->layout = layout;
    operation->unpack = true;
    if (is_blocking(operation->call)) return;
    // The program may free its type while the call is open.
    operation->own_type = PMPI_Type_dup(layout.type, &operation->layout.type) == MPI_SUCCESS;
    if (!operation->own_type) operation->lost = MPI_ERR_OTHER;
}

void give_up_data(Operation* operation) {
    static std::byte nowhere;
    static std::atomic<bool> said{false};
    const char* why =
        operation->lost == MPI_ERR_NO_MEM ? ": no memory to pack its data in" : ": cannot pack its data";
    if (!said.exchange(true))
        say(LogLevel::kWarn,
            std::string(call_name(operation->call)) + " on rank " + std::to_string(shim().rank) + why +
                "; the call fails, also on the ranks that exchange data with this one (said once)");
    ls_arguments& arguments = operation->arguments;
    arguments.in_place = 0;
    arguments.send = arguments.recv = &nowhere;
    arguments.send_block_bytes += kLostSend;
    arguments.recv_block_bytes += kLostRecv;
}

void stage_send(Operation* operation, const Block& block, uint64_t count, size_t bytes) {
    operation->arguments.send = block.buffer;
    if (block.layout.contiguous || bytes == 0) return;
    stage_packed_send(operation, bytes,
                      [&](std::byte* to) { return pack(block.buffer, count, block.layout, to); });
}

void stage_recv(Operation* operation, const Block& block, uint64_t count, size_t bytes) {
    operation->arguments.recv = const_cast<void*>(block.buffer);
    if (block.layout.contiguous || bytes == 0) return;
    operation->unpack_to = const_cast<void*>(block.buffer);
    operation->unpack_count = count;
    stage_packed_recv(operation, block.layout, bytes);
}

void pack_in_place(Operation* operation, const Block& block, uint64_t first, uint64_t count) {
    if (!operation->unpack || operation->lost != MPI_SUCCESS) return;
    const void* from = element_at(block.buffer, block.layout, static_cast<int64_t>(first));
    std::byte* to = operation->recv.memory + first * block.layout.element_bytes;
    if (!pack(from, count, block.layout, to)) operation->lost = MPI_ERR_OTHER;
}

bool whole_of(const Block& block, int size, size_t* bytes) {
    return !__builtin_mul_overflow(block.bytes, static_cast<size_t>(size), bytes);
}

namespace {

bool aliased(const Block& send, const Block& recv) {
    return send.buffer && send.buffer == recv.buffer && send.bytes > 0 && recv.bytes > 0 &&
           send.layout.contiguous && recv.layout.contiguous;
}

// alltoall or allgather: a rank sends as many blocks as there are ranks, or one.
Reason plan_uniform(Call call, const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                    int recvcount, MPI_Datatype recvtype, MPI_Comm comm, Operation** out) {
    GroupRecord* group = nullptr;
    if (Reason reason = refusal(comm, &group); reason != Reason::kNone) return reason;
    const bool to_all = collective_of(call) == LS_ALLTOALL;
    const bool in_place = sendbuf == MPI_IN_PLACE;
    Block send, recv;
    size_t whole = 0;
    if (!block_of(recvbuf, recvcount, recvtype, &recv) || !whole_of(recv, group->size, &whole) ||
        (!in_place && (!block_of(sendbuf, sendcount, sendtype, &send) || aliased(send, recv))))
        return Reason::kArguments;
    ls_algorithm algorithm{};
    if (Reason reason = select(*group, call, whole, &algorithm); reason != Reason::kNone) return reason;
    if (to_all && in_place && whole > shim().settings.snapshot_bytes_max) return Reason::kSnapshot;

    Operation* operation = new_operation(group, call);
    operation->bytes = whole;
    ls_arguments& arguments = operation->arguments;
    arguments.algorithm = algorithm;
    arguments.in_place = in_place;
    arguments.recv_block_bytes = recv.bytes;
    arguments.send_block_bytes = in_place ? recv.bytes : send.bytes;
    const auto size = static_cast<uint64_t>(group->size), rank = static_cast<uint64_t>(group->rank);
    const uint64_t blocks_sent = to_all ? size : 1;
    stage_recv(operation, recv, size * recv.count, whole);
    if (in_place)
        pack_in_place(operation, recv, to_all ? 0 : rank * recv.count, blocks_sent * recv.count);
    else
        stage_send(operation, send, blocks_sent * send.count, blocks_sent * send.bytes);
    if (operation->lost != MPI_SUCCESS) give_up_data(operation);
    *out = operation;
    return Reason::kNone;
}

Reason plan_bcast(Call call, void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm,
                  Operation** out) {
    GroupRecord* group = nullptr;
    if (Reason reason = refusal(comm, &group); reason != Reason::kNone) return reason;
    Block block;
    if (root < 0 || root >= group->size || !block_of(buffer, count, datatype, &block))
        return Reason::kArguments;
    ls_algorithm algorithm{};
    if (Reason reason = select(*group, call, block.bytes, &algorithm); reason != Reason::kNone) return reason;

    Operation* operation = new_operation(group, call);
    operation->bytes = block.bytes;
    ls_arguments& arguments = operation->arguments;
    arguments.algorithm = algorithm;
    arguments.root = static_cast<uint32_t>(root);
    arguments.send_block_bytes = arguments.recv_block_bytes = block.bytes;
    stage_recv(operation, block, block.count, block.bytes);
    const bool is_root = root == group->rank;
    if (is_root) pack_in_place(operation, block, 0, block.count);
    if (is_root) operation->unpack = false;  // it keeps what it has
    if (operation->lost != MPI_SUCCESS) {
        give_up_data(operation);
        if (is_root) arguments.recv_block_bytes = arguments.send_block_bytes;  // the root's one block
    }
    *out = operation;
    return Reason::kNone;
}

}  // namespace

namespace entry {

int alltoall(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
             MPI_Datatype recvtype, MPI_Comm comm) {
    Operation* operation = nullptr;
    Reason reason = plan_uniform(Call::kAlltoall, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                 comm, &operation);
    if (reason == Reason::kNone) return run_blocking(operation);
    HostCall host(Call::kAlltoall, reason);
    return PMPI_Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}

int ialltoall(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
              MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
    PostSpan span(Call::kIalltoall);
    Operation* operation = nullptr;
    Reason reason = plan_uniform(Call::kIalltoall, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                 comm, &operation);
    if (reason == Reason::kNone) return start_request(operation, request);
    HostCall host(Call::kIalltoall, reason);
    return PMPI_Ialltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request);
}

int allgather(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
              MPI_Datatype recvtype, MPI_Comm comm) {
    Operation* operation = nullptr;
    Reason reason = plan_uniform(Call::kAllgather, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                 comm, &operation);
    if (reason == Reason::kNone) return run_blocking(operation);
    HostCall host(Call::kAllgather, reason);
    return PMPI_Allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}

int iallgather(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
               MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
    PostSpan span(Call::kIallgather);
    Operation* operation = nullptr;
    Reason reason = plan_uniform(Call::kIallgather, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                 recvtype, comm, &operation);
    if (reason == Reason::kNone) return start_request(operation, request);
    HostCall host(Call::kIallgather, reason);
    return PMPI_Iallgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request);
}

int bcast(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm) {
    Operation* operation = nullptr;
    Reason reason = plan_bcast(Call::kBcast, buffer, count, datatype, root, comm, &operation);
    if (reason == Reason::kNone) return run_blocking(operation);
    HostCall host(Call::kBcast, reason);
    return PMPI_Bcast(buffer, count, datatype, root, comm);
}

int ibcast(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm, MPI_Request* request) {
    PostSpan span(Call::kIbcast);
    Operation* operation = nullptr;
    Reason reason = plan_bcast(Call::kIbcast, buffer, count, datatype, root, comm, &operation);
    if (reason == Reason::kNone) return start_request(operation, request);
    HostCall host(Call::kIbcast, reason);
    return PMPI_Ibcast(buffer, count, datatype, root, comm, request);
}

}  // namespace entry
}  // namespace longshore::mpi
