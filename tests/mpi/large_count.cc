// The large-count forms (MPI_Count counts, MPI_Aint displacements): every family, blocking and nonblocking,
// with plain bytes and with holes; blocks more than 2^32 bytes apart in memory that is never touched between
// them.
//      large_count [far|small]      far: the latter of every family that has displacements; small: none of
//      them
// Open MPI has none of these. There the shim is asked all the same, by the symbols that the stub shows: it
// carries what it can, and the rest goes to the forms with int, or is an error. Without the shim nothing is
// done.
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "check.h"
#include "kinds.h"
#include "mpi/native/functions.h"

using longshore::mpi::FormTypes;

extern "C" {
#define LONGSHORE_FAMILY(Name, name, arguments)                                              \
    decltype(PMPI_##Name##_c) MPI_##Name##_c __attribute__((weak));                          \
    FormTypes<decltype(PMPI_##Name##_c)>::Nonblocking MPI_I##name##_c __attribute__((weak)); \
    FormTypes<decltype(PMPI_##Name##_c)>::Persistent MPI_##Name##_init_c __attribute__((weak));
#include "mpi/native/families.inc"
#undef LONGSHORE_FAMILY
}

namespace {

int rank, size;
MPI_Comm used = MPI_COMM_WORLD;

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

enum Form { kBlocking, kNonblocking, kPersistent };

int start(Kind kind, Form form, const Side& s, const Side& r, int root, MPI_Comm comm, MPI_Request* q) {
    const void* from = s.memory;
    void* to = r.memory;
    const MPI_Count *scs = s.counts.data(), *rcs = r.counts.data(), sc = s.count, rc = r.count;
    const MPI_Aint *sp = s.places.data(), *rp = r.places.data();
    const MPI_Aint *sb = s.byte_places.data(), *rb = r.byte_places.data();
    const MPI_Datatype *sts = s.types.data(), *rts = r.types.data(), st = s.type, rt = r.type;
    const MPI_Info info = MPI_INFO_NULL;
#define CALL(Name, name, ...)                                           \
    case k##Name:                                                       \
        return form == kBlocking      ? MPI_##Name##_c(__VA_ARGS__)     \
               : form == kNonblocking ? MPI_I##name##_c(__VA_ARGS__, q) \
                                      : MPI_##Name##_init_c(__VA_ARGS__, info, q);
    switch (kind) {
        CALL(Alltoall, alltoall, from, sc, st, to, rc, rt, comm)
        CALL(Alltoallv, alltoallv, from, scs, sp, st, to, rcs, rp, rt, comm)
        CALL(Alltoallw, alltoallw, from, scs, sb, sts, to, rcs, rb, rts, comm)
        CALL(Allgather, allgather, from, sc, st, to, rc, rt, comm)
        CALL(Allgatherv, allgatherv, from, sc, st, to, rcs, rp, rt, comm)
        CALL(Bcast, bcast, to, rc, rt, root, comm)
        CALL(Gather, gather, from, sc, st, to, rc, rt, root, comm)
        CALL(Gatherv, gatherv, from, sc, st, to, rcs, rp, rt, root, comm)
        CALL(Scatter, scatter, from, sc, st, to, rc, rt, root, comm)
        CALL(Scatterv, scatterv, from, scs, sp, st, to, rc, rt, root, comm)
        case kKinds:
            break;
    }
#undef CALL
    return MPI_ERR_OTHER;
}

void call(Kind kind, Form form, const Side& send, const Side& recv, int root) {
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(start(kind, form, send, recv, root, used, &request) == MPI_SUCCESS);
    if (form == kPersistent) CHECK(MPI_Start(&request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    if (form == kPersistent) CHECK(MPI_Request_free(&request) == MPI_SUCCESS);
}

void check_call(Kind kind, Form form, const Side& send, const Side& recv, int bytes) {
    static int tag = 0;
    const int root = ++tag % size;
    const auto n = static_cast<uint64_t>(bytes);
    const bool rooted_send = scatters(kind), one_sent = !to_each(kind);
    for (int r = 0; r < (one_sent ? 1 : size); ++r)
        if (!rooted_send || rank == root) fill(send.block(r), n, rank, one_sent ? 0 : r, tag);
    for (int r = 0; r < (kind == kBcast || rooted_send ? 1 : size); ++r) memset(recv.block(r), 0xEE, n);
    if (kind == kBcast && rank == root) fill(recv.memory, n, root, 0, tag);
    call(kind, form, send, recv, root);
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
            for (Form form : {kBlocking, kNonblocking, kPersistent}) {
                const auto kind = static_cast<Kind>(k);
                check_call(kind, form, {from.data(), MPI_BYTE, bytes, width, 1},
                           {to.data(), MPI_BYTE, bytes, width, 1}, bytes);
                check_call(kind, form, {from.data(), holed, 1, step, bytes + kHole},
                           {to.data(), MPI_BYTE, bytes, width, 1}, bytes);
                check_call(kind, form, {from.data(), MPI_BYTE, bytes, width, 1},
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
        for (Form form : {kBlocking, kNonblocking, kPersistent})
            check_call(kind, form, one_sent ? near_side : far_send, one_received ? near_side : far_recv,
                       kBytes);
    }
    munmap(memory, 2 * whole);
}

// Calls that MPI serves: on a communicator that the shim does not see, and on one rank. Open MPI has no such
// forms.
void served_by_mpi() {
    MPI_Request made;
    MPI_Comm_idup(MPI_COMM_WORLD, &used, &made);
    MPI_Wait(&made, MPI_STATUS_IGNORE);
    small();
    MPI_Comm_free(&used);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    unsigned char mine[8] = {1, 2, 3}, got[8] = {};
    const MPI_Count one[1] = {8};
    const MPI_Aint none[1] = {0};
    CHECK(MPI_Allgather_c(mine, 8, MPI_BYTE, got, 8, MPI_BYTE, MPI_COMM_SELF) == MPI_SUCCESS);
    CHECK(memcmp(mine, got, 8) == 0);
    const int rc = MPI_Alltoallv_c(mine, one, none, MPI_BYTE, got, one, none, MPI_BYTE, MPI_COMM_SELF);
    CHECK(rc == MPI_SUCCESS);
#ifdef OPEN_MPI
    CHECK(class_of(MPI_Bcast_c(mine, MPI_Count{1} << 31, MPI_BYTE, 0, MPI_COMM_SELF)) == MPI_ERR_OTHER);
#else
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Allgather_c(mine, -1, MPI_BYTE, got, 8, MPI_BYTE, MPI_COMM_WORLD)) == MPI_ERR_COUNT);
    MPI_Request q;
    CHECK(class_of(MPI_Ibcast_c(mine, -1, MPI_BYTE, 0, MPI_COMM_WORLD, &q)) == MPI_ERR_COUNT);
#endif
}

}  // namespace

PROGRAM(large_count) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (MPI_Alltoall_c != nullptr && size > 1) {
        const bool only_small = argc > 1 && strcmp(argv[1], "small") == 0;
        small();
        if (!only_small) far_apart(argc > 1);
        if (!only_small) served_by_mpi();
    }
    return finish("large_count");
}
