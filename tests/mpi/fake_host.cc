// host.h over the MPI's own nonblocking collectives: tests the shim (requests, datatypes, waits, errors,
// statistics) without service processes. Never shipped.
#include <mpi.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <vector>

#include "host/host.h"

struct ls_context {
    ls_collective_bytes bytes[LS_COLLECTIVE_COUNT] = {};
};

struct ls_group {
    ls_context* context;
    MPI_Comm comm;
    int size, rank;
};

namespace {

int64_t number(const ls_vector& vector, const void* array, int i) {
    return vector.is_64bit ? static_cast<const int64_t*>(array)[i] : static_cast<const int32_t*>(array)[i];
}

// A v-collective's blocks, any distance apart: their places are in types.
struct Spread {
    std::vector<int> ones, zeros, bytes;
    std::vector<MPI_Aint> places;
    std::vector<MPI_Datatype> types;

    Spread(const ls_vector& vector, int size)
        : ones(static_cast<size_t>(size), 1), zeros(static_cast<size_t>(size), 0) {
        const auto element = static_cast<int64_t>(vector.element_bytes);
        for (int i = 0; i < size; ++i) {
            bytes.push_back(static_cast<int>(number(vector, vector.counts, i) * element));
            places.push_back(static_cast<MPI_Aint>(number(vector, vector.displacements, i) * element));
        }
    }
    ~Spread() {
        for (MPI_Datatype& type : types) PMPI_Type_free(&type);
    }
    Spread(const Spread&) = delete;
    Spread& operator=(const Spread&) = delete;

    void make_types() {
        for (size_t i = 0; i < bytes.size(); ++i) {
            MPI_Datatype type;
            PMPI_Type_create_hindexed(1, &bytes[i], &places[i], MPI_BYTE, &type);
            PMPI_Type_commit(&type);
            types.push_back(type);
        }
    }
    // The blocks one after another in `copy`, where they stand from now on.
    void copy_out(const void* from, std::vector<char>* copy) {
        for (size_t i = 0; i < bytes.size(); ++i) {
            const char* const block = bytes[i] != 0 ? static_cast<const char*>(from) + places[i] : nullptr;
            places[i] = static_cast<MPI_Aint>(copy->size());
            copy->insert(copy->end(), block, block + bytes[i]);
        }
    }
};

}  // namespace

struct ls_operation {
    ls_group* group;
    ls_collective collective;
    MPI_Request request = MPI_REQUEST_NULL;
    int delay = 0;  // tests before it may complete
    uint64_t bytes = 0;
    int fail = 0;
    std::optional<Spread> from, to;
    // Of allgatherv, gatherv and scatterv: the blocks in `copy`, and where those are that come back from it.
    std::optional<Spread> packed;
    std::vector<int> displacements;
    std::vector<MPI_Aint> blocks;
    char* recv = nullptr;
    std::vector<char> copy;
};

namespace {

// A v-collective's blocks one after another in memory of the operation's own: for the MPI their displacements
// are int, which those of the caller need not be.
void pack(const ls_vector& vector, const void* from, ls_operation* op) {
    op->packed.emplace(vector, op->group->size);
    op->blocks = op->packed->places;
    op->packed->copy_out(from, &op->copy);
    op->displacements.assign(op->packed->places.begin(), op->packed->places.end());
}

// When the operation is over: to where the caller wants what has been received.
void unpack(const ls_operation& op) {
    if (!op.recv) return;
    for (size_t i = 0; i < op.blocks.size(); ++i)
        if (op.packed->bytes[i] != 0)
            memcpy(op.recv + op.blocks[i], op.copy.data() + op.displacements[i],
                   static_cast<size_t>(op.packed->bytes[i]));
}

void start_allgatherv(const ls_arguments& a, ls_operation* op) {
    pack(a.recv_vector, a.recv, op);
    op->recv = static_cast<char*>(a.recv);
    PMPI_Iallgatherv(a.in_place ? MPI_IN_PLACE : a.send, static_cast<int>(a.send_block_bytes), MPI_BYTE,
                     op->copy.data(), op->packed->bytes.data(), op->displacements.data(), MPI_BYTE,
                     op->group->comm, &op->request);
}

void start_gatherv(const ls_arguments& a, ls_operation* op) {
    const int root = static_cast<int>(a.root);
    const int* counts = nullptr;
    if (root == op->group->rank) {
        pack(a.recv_vector, a.recv, op);
        op->recv = static_cast<char*>(a.recv);
        counts = op->packed->bytes.data();
    }
    PMPI_Igatherv(a.in_place ? MPI_IN_PLACE : a.send, static_cast<int>(a.send_block_bytes), MPI_BYTE,
                  op->copy.data(), counts, op->displacements.data(), MPI_BYTE, root, op->group->comm,
                  &op->request);
}

void start_scatterv(const ls_arguments& a, ls_operation* op) {
    const int root = static_cast<int>(a.root);
    const int* counts = nullptr;
    if (root == op->group->rank) {
        pack(a.send_vector, a.send, op);
        counts = op->packed->bytes.data();
    }
    PMPI_Iscatterv(op->copy.data(), counts, op->displacements.data(), MPI_BYTE,
                   a.in_place ? MPI_IN_PLACE : a.recv, static_cast<int>(a.recv_block_bytes), MPI_BYTE, root,
                   op->group->comm, &op->request);
}

// In place from a copy: neither MPI's own is right with every type there.
void start_alltoallw(const ls_arguments& a, ls_operation* op) {
    const int size = op->group->size;
    Spread& from = op->from.emplace(a.in_place ? a.recv_vector : a.send_vector, size);
    Spread& to = op->to.emplace(a.recv_vector, size);
    if (a.in_place) from.copy_out(a.recv, &op->copy);
    from.make_types();
    to.make_types();
    PMPI_Ialltoallw(a.in_place ? op->copy.data() : a.send, from.ones.data(), from.zeros.data(),
                    from.types.data(), a.recv, to.ones.data(), to.zeros.data(), to.types.data(),
                    op->group->comm, &op->request);
    for (int i = 0; i < size; ++i)
        if (i != op->group->rank) op->bytes += static_cast<uint64_t>(to.bytes[static_cast<size_t>(i)]);
}

}  // namespace

extern "C" {

int ls_context_start(const ls_options*, const ls_exchange*, ls_context** out) {
    *out = new ls_context;
    return LS_OK;
}
int ls_context_test(ls_context*) {
    return getenv("LONGSHORE_INTERNAL_FAKE_UNAVAILABLE") ? LS_ERR_UNAVAILABLE : LS_OK;
}
const char* ls_context_error(const ls_context*) {
    return "the fake was told to be unavailable";
}
uint64_t ls_layout() {
    return 1;
}
void ls_context_free(ls_context* context) {
    delete context;
}

int ls_group_start(ls_context* context, const ls_exchange* exchange, ls_group** out) {
    auto* group = new ls_group;
    group->context = context;
    group->size = static_cast<int>(exchange->size);
    group->rank = static_cast<int>(exchange->rank);
    PMPI_Comm_dup(*static_cast<MPI_Comm*>(exchange->user), &group->comm);
    PMPI_Comm_set_errhandler(group->comm, MPI_ERRORS_RETURN);
    *out = group;
    return LS_OK;
}
int ls_group_test(ls_group*) {
    return LS_OK;
}
void ls_group_shape(const ls_group* group, uint32_t* nodes, uint32_t* ranks_per_node) {
    *nodes = 1;
    *ranks_per_node = static_cast<uint32_t>(group->size);
}
// The communicator stays: this may be called from a callback of the MPI, where MPICH frees none.
void ls_group_free(ls_group* group) {
    delete group;
}

int ls_operation_start(ls_group* group, const ls_arguments* a, ls_operation** out) {
    auto* op = new ls_operation;
    op->group = group;
    op->collective = a->collective;
    op->delay = rand() % 20;
    const char* fail = getenv("LONGSHORE_INTERNAL_FAKE_ERROR");
    op->fail = fail ? atoi(fail) : 0;
    const void* send = a->in_place ? MPI_IN_PLACE : a->send;
    const int sb = static_cast<int>(a->send_block_bytes), rb = static_cast<int>(a->recv_block_bytes);
    const int n = group->size, root = static_cast<int>(a->root);
    void* const scattered = a->in_place ? MPI_IN_PLACE : a->recv;
    const bool is_root = root == group->rank;
    switch (a->collective) {
        case LS_ALLTOALL:
            PMPI_Ialltoall(send, sb, MPI_BYTE, a->recv, rb, MPI_BYTE, group->comm, &op->request);
            op->bytes = a->recv_block_bytes * static_cast<uint64_t>(n - 1);
            break;
        case LS_ALLGATHER:
            PMPI_Iallgather(send, sb, MPI_BYTE, a->recv, rb, MPI_BYTE, group->comm, &op->request);
            op->bytes = a->recv_block_bytes * static_cast<uint64_t>(n - 1);
            break;
        case LS_BCAST:
            PMPI_Ibcast(a->recv, rb, MPI_BYTE, root, group->comm, &op->request);
            if (!is_root) op->bytes = a->recv_block_bytes;
            break;
        case LS_GATHER:
            PMPI_Igather(send, sb, MPI_BYTE, a->recv, rb, MPI_BYTE, root, group->comm, &op->request);
            if (is_root) op->bytes = a->recv_block_bytes * static_cast<uint64_t>(n - 1);
            break;
        case LS_GATHERV:
            start_gatherv(*a, op);
            break;
        case LS_SCATTER:
            PMPI_Iscatter(a->send, sb, MPI_BYTE, scattered, rb, MPI_BYTE, root, group->comm, &op->request);
            if (!is_root) op->bytes = a->recv_block_bytes;
            break;
        case LS_SCATTERV:
            start_scatterv(*a, op);
            if (!is_root) op->bytes = a->recv_block_bytes;
            break;
        case LS_ALLTOALLV:
            start_alltoallw(*a, op);
            break;
        case LS_ALLGATHERV:
            start_allgatherv(*a, op);
            break;
    }
    for (size_t i = 0; i < op->blocks.size() && op->recv; ++i)
        if (static_cast<int>(i) != group->rank) op->bytes += static_cast<uint64_t>(op->packed->bytes[i]);
    *out = op;
    return LS_OK;
}

int ls_operation_test(ls_operation* op, int* moved) {
    if (moved) *moved = 0;
    int done = 0;
    if (op->request != MPI_REQUEST_NULL) {
        PMPI_Test(&op->request, &done, MPI_STATUS_IGNORE);
        if (!done) return LS_IN_PROGRESS;
    }
    if (moved) *moved = 1;
    if (op->delay-- > 0) return LS_IN_PROGRESS;
    unpack(*op);
    op->group->context->bytes[op->collective].by_rank += op->bytes;
    return op->fail < 0 ? op->fail : LS_OK;
}
uint32_t ls_waiting(const ls_context*) {
    return 0;
}
void ls_advance(ls_context*) {}
void ls_operation_free(ls_operation* op) {
    delete op;
}

void* ls_allocate(ls_context*, size_t bytes) {
    return bytes < 4096 ? nullptr : malloc(bytes);
}
void ls_release(ls_context*, void* memory, size_t) {
    free(memory);
}
void ls_begin_wait(ls_context*) {}
void ls_end_wait(ls_context*) {}

void ls_sleeper_begin(const ls_context*, ls_sleeper*) {}
int ls_find_task_door(const ls_context*, ls_task_door*) {
    return LS_ERR_UNAVAILABLE;
}
int ls_find_far_task_door(const ls_context*, ls_task_door*) {
    return LS_ERR_UNAVAILABLE;
}
void ls_sleeper_sleep(ls_sleeper*, uint64_t timeout_ns) {
    timespec pause{0, static_cast<long>(timeout_ns)};
    nanosleep(&pause, nullptr);
}
void ls_operation_describe(const ls_operation*, char* line, size_t bytes) {
    strncpy(line, "a fake operation", bytes - 1);
    line[bytes - 1] = 0;
}
void ls_set_cooperative(ls_context*, int) {}
int ls_set_breakdown(ls_context*, int) {
    return LS_OK;
}
void ls_last_times(const ls_context*, ls_times* out) {
    *out = {};
}

void ls_rank_bytes(const ls_context* context, ls_collective_bytes out[LS_COLLECTIVE_COUNT]) {
    memcpy(out, context->bytes, sizeof context->bytes);
}
ls_moved_bytes ls_rank_moved(const ls_context*) {
    return {};
}
uint32_t ls_services(const ls_context*, ls_service_stats*, uint32_t) {
    return 0;
}
int ls_is_node_leader(const ls_context*) {
    return 0;
}
uint32_t ls_node(const ls_context*) {
    return 0;
}
const char* ls_memory_reach(const ls_context*) {
    return "direct";
}
void ls_look_around(const ls_context*, ls_surroundings* out) {
    *out = {};
}
uint32_t ls_node_count(const ls_context*) {
    return 1;
}
uint32_t ls_trace_take(ls_context*, ls_trace_event*, uint32_t) {
    return 0;
}
}
