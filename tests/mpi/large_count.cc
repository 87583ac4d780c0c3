// The large-count forms (MPI_Count counts, MPI_Aint displacements): every family, blocking and nonblocking,
// with plain bytes and with holes; blocks more than 2^32 bytes apart in memory that is never touched between
// them.
//      large_count [far]    far: the latter of every family that has displacements
// Open MPI has none of these. There the shim is asked all the same, by the symbols that the stub shows: it
// carries what it can, and the rest goes to the forms with int, or is an error. Without the shim nothing is
// done.
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "check.h"
#include "mpi/functions.h"

using longshore::mpi::FormTypes;

extern "C" {
#define DECLARE(Name, name)                                         \
    decltype(PMPI_##Name##_c) MPI_##Name##_c __attribute__((weak)); \
    FormTypes<decltype(PMPI_##Name##_c)>::Nonblocking MPI_I##name##_c __attribute__((weak));
DECLARE(Alltoall, alltoall)
DECLARE(Alltoallv, alltoallv)
DECLARE(Alltoallw, alltoallw)
DECLARE(Allgather, allgather)
DECLARE(Allgatherv, allgatherv)
DECLARE(Bcast, bcast)
DECLARE(Gather, gather)
DECLARE(Gatherv, gatherv)
DECLARE(Scatter, scatter)
DECLARE(Scatterv, scatterv)
#undef DECLARE
}

namespace {

enum Kind {
    kAlltoall,
    kAlltoallv,
    kAlltoallw,
    kAllgather,
    kAllgatherv,
    kBcast,
    kGather,
    kGatherv,
    kScatter,
    kScatterv,
    kKinds
};

int rank, size;

bool scatters(Kind kind) {
    return kind == kScatter || kind == kScatterv;
}
bool to_each(Kind kind) {
    return kind <= kAlltoallw || scatters(kind);
}
bool has_places(Kind kind) {
    return kind == kAlltoallv || kind == kAlltoallw || kind == kAllgatherv || kind == kGatherv ||
           kind == kScatterv;
}

// A buffer of blocks of `bytes` bytes, in elements of `type`: one per rank, `step` bytes apart.
struct Side {
    unsigned char* memory;
    MPI_Datatype type;
    MPI_Count count;  // of a block
    size_t step;
    std::vector<MPI_Count> counts;
    std::vector<MPI_Aint> places, byte_places;
    std::vector<MPI_Datatype> types;

    Side(unsigned char* at, MPI_Datatype t, MPI_Count n, size_t distance, MPI_Aint extent)
        : memory(at),
          type(t),
          count(n),
          step(distance),
          counts(static_cast<size_t>(size), n),
          types(static_cast<size_t>(size), t) {
        for (int r = 0; r < size; ++r) {
            byte_places.push_back(static_cast<MPI_Aint>(step) * r);
            places.push_back(byte_places.back() / extent);
        }
    }
    unsigned char* block(int r) const { return memory + static_cast<size_t>(r) * step; }
};

int call(Kind kind, bool blocking, const Side& s, const Side& r, int root, MPI_Comm comm) {
    const void* from = s.memory;
    void* to = r.memory;
    const MPI_Count *sc = s.counts.data(), *rc = r.counts.data();
    const MPI_Aint *sp = s.places.data(), *rp = r.places.data();
    const MPI_Aint *sb = s.byte_places.data(), *rb = r.byte_places.data();
    const MPI_Datatype *sts = s.types.data(), *rts = r.types.data(), st = s.type, rt = r.type;
    MPI_Request request = MPI_REQUEST_NULL, *q = &request;
    int e = MPI_SUCCESS;
    switch (kind) {
        case kAlltoall:
            e = blocking ? MPI_Alltoall_c(from, s.count, st, to, r.count, rt, comm)
                         : MPI_Ialltoall_c(from, s.count, st, to, r.count, rt, comm, q);
            break;
        case kAlltoallv:
            e = blocking ? MPI_Alltoallv_c(from, sc, sp, st, to, rc, rp, rt, comm)
                         : MPI_Ialltoallv_c(from, sc, sp, st, to, rc, rp, rt, comm, q);
            break;
        case kAlltoallw:
            e = blocking ? MPI_Alltoallw_c(from, sc, sb, sts, to, rc, rb, rts, comm)
                         : MPI_Ialltoallw_c(from, sc, sb, sts, to, rc, rb, rts, comm, q);
            break;
        case kAllgather:
            e = blocking ? MPI_Allgather_c(from, s.count, st, to, r.count, rt, comm)
                         : MPI_Iallgather_c(from, s.count, st, to, r.count, rt, comm, q);
            break;
        case kAllgatherv:
            e = blocking ? MPI_Allgatherv_c(from, s.count, st, to, rc, rp, rt, comm)
                         : MPI_Iallgatherv_c(from, s.count, st, to, rc, rp, rt, comm, q);
            break;
        case kBcast:
            e = blocking ? MPI_Bcast_c(to, r.count, rt, root, comm)
                         : MPI_Ibcast_c(to, r.count, rt, root, comm, q);
            break;
        case kGather:
            e = blocking ? MPI_Gather_c(from, s.count, st, to, r.count, rt, root, comm)
                         : MPI_Igather_c(from, s.count, st, to, r.count, rt, root, comm, q);
            break;
        case kGatherv:
            e = blocking ? MPI_Gatherv_c(from, s.count, st, to, rc, rp, rt, root, comm)
                         : MPI_Igatherv_c(from, s.count, st, to, rc, rp, rt, root, comm, q);
            break;
        case kScatter:
            e = blocking ? MPI_Scatter_c(from, s.count, st, to, r.count, rt, root, comm)
                         : MPI_Iscatter_c(from, s.count, st, to, r.count, rt, root, comm, q);
            break;
        default:
            e = blocking ? MPI_Scatterv_c(from, sc, sp, st, to, r.count, rt, root, comm)
                         : MPI_Iscatterv_c(from, sc, sp, st, to, r.count, rt, root, comm, q);
    }
    if (e == MPI_SUCCESS) e = MPI_Wait(q, MPI_STATUS_IGNORE);
    return e;
}

void check_call(Kind kind, bool blocking, const Side& send, const Side& recv, int bytes) {
    static int tag = 0;
    const int root = ++tag % size;
    const auto n = static_cast<uint64_t>(bytes);
    const bool rooted_send = scatters(kind), one_sent = !to_each(kind);
    for (int r = 0; r < (one_sent ? 1 : size); ++r)
        if (!rooted_send || rank == root) fill(send.block(r), n, rank, one_sent ? 0 : r, tag);
    for (int r = 0; r < (kind == kBcast || rooted_send ? 1 : size); ++r) memset(recv.block(r), 0xEE, n);
    if (kind == kBcast && rank == root) fill(recv.memory, n, root, 0, tag);
    CHECK(call(kind, blocking, send, recv, root, MPI_COMM_WORLD) == MPI_SUCCESS);
    const int to = to_each(kind) ? rank : 0;
    if (kind == kBcast || rooted_send) {
        CHECK(is_filled(recv.memory, n, root, to, tag));
    } else if ((kind != kGather && kind != kGatherv) || rank == root) {
        for (int r = 0; r < size; ++r) CHECK(is_filled(recv.block(r), n, r, to, tag));
    }
}

// As bytes, and in elements with a hole behind them, whose content stays.
void small() {
    constexpr int kHole = 3;
    for (int bytes : {40, 70'000}) {
        MPI_Datatype plain, holed;
        MPI_Type_contiguous(bytes, MPI_BYTE, &plain);
        MPI_Type_create_resized(plain, 0, bytes + kHole, &holed);
        MPI_Type_commit(&holed);
        const auto step = static_cast<size_t>(bytes + kHole);
        std::vector<unsigned char> from(step * static_cast<size_t>(size)), to(from.size());
        const auto width = static_cast<size_t>(bytes);
        for (int k = 0; k < kKinds; ++k)
            for (bool blocking : {true, false}) {
                const auto kind = static_cast<Kind>(k);
                check_call(kind, blocking, {from.data(), MPI_BYTE, bytes, width, 1},
                           {to.data(), MPI_BYTE, bytes, width, 1}, bytes);
                check_call(kind, blocking, {from.data(), holed, 1, step, bytes + kHole},
                           {to.data(), MPI_BYTE, bytes, width, 1}, bytes);
                check_call(kind, blocking, {from.data(), MPI_BYTE, bytes, width, 1},
                           {to.data(), holed, 1, step, bytes + kHole}, bytes);
            }
        MPI_Type_free(&plain);
        MPI_Type_free(&holed);
    }
}

void far_apart(bool every_family) {
    constexpr int kBytes = 5000;
    // The last block lies behind 2^32; nothing is there between the blocks.
    const size_t step = ((size_t{1} << 32) + 4096) / static_cast<size_t>(size - 1), whole = step * size;
    auto* memory = static_cast<unsigned char*>(
        mmap(nullptr, 2 * whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    CHECK(memory != MAP_FAILED);
    const Side far_send{memory, MPI_BYTE, kBytes, step, 1},
        far_recv{memory + whole, MPI_BYTE, kBytes, step, 1};
    std::vector<unsigned char> near(static_cast<size_t>(kBytes * size));
    const Side near_side{near.data(), MPI_BYTE, kBytes, kBytes, 1};
    for (int k = 0; k < kKinds; ++k) {
        const auto kind = static_cast<Kind>(k);
        if (!has_places(kind) || (!every_family && kind != kAlltoallv && kind != kAlltoallw)) continue;
        const bool one_sent = !to_each(kind), one_received = scatters(kind);
        for (bool blocking : {true, false})
            check_call(kind, blocking, one_sent ? near_side : far_send, one_received ? near_side : far_recv,
                       kBytes);
    }
    munmap(memory, 2 * whole);
}

int class_of(int code) {
    int result = MPI_SUCCESS;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &result);
    return result;
}

// Calls that MPI serves.
void served_by_mpi() {
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    unsigned char mine[8] = {1, 2, 3}, got[8] = {};
    const MPI_Count one[1] = {8};
    const MPI_Aint none[1] = {0};
    CHECK(MPI_Allgather_c(mine, 8, MPI_BYTE, got, 8, MPI_BYTE, MPI_COMM_SELF) == MPI_SUCCESS);
    CHECK(memcmp(mine, got, 8) == 0);
    const int rc = MPI_Alltoallv_c(mine, one, none, MPI_BYTE, got, one, none, MPI_BYTE, MPI_COMM_SELF);
#ifdef OPEN_MPI
    CHECK(class_of(rc) == MPI_ERR_OTHER);
    CHECK(class_of(MPI_Bcast_c(mine, MPI_Count{1} << 31, MPI_BYTE, 0, MPI_COMM_SELF)) == MPI_ERR_OTHER);
#else
    CHECK(rc == MPI_SUCCESS);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Allgather_c(mine, -1, MPI_BYTE, got, 8, MPI_BYTE, MPI_COMM_WORLD)) == MPI_ERR_COUNT);
    MPI_Request q;
    CHECK(class_of(MPI_Ibcast_c(mine, -1, MPI_BYTE, 0, MPI_COMM_WORLD, &q)) == MPI_ERR_COUNT);
#endif
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (MPI_Alltoall_c != nullptr && size > 1) {
        small();
        far_apart(argc > 1);
        served_by_mpi();
    }
    finish("large_count");
}
