// Gather, gatherv, scatter and scatterv, blocking and nonblocking: every root, in place, blocks of different
// sizes with gaps between them, types with holes on some ranks, several calls open at once; and what only the
// root need say is nonsense on the others. Every byte of every buffer is compared.      rooted [max_bytes]
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "check.h"

namespace {

constexpr int kUnit = 8, kHole = 3, kGap = 2;  // bytes of an element and of the hole behind it; elements

enum Kind { kGather, kGatherv, kScatter, kScatterv, kKinds };

// One side's blocks, each some elements of kUnit bytes, and all that lies between them.
class Side {
  public:
    Side() = default;
    Side(const std::vector<int>& counts, bool gaps, bool spread)
        : counts_(counts), step_(kUnit + (spread ? kHole : 0)) {
        int at = 0;
        for (int count : counts) {
            if (gaps) at += kGap;
            places_.push_back(at);
            at += count;
        }
        data_.assign(static_cast<size_t>(at + kGap) * step_, 0xEE);
        MPI_Datatype unit;
        MPI_Type_contiguous(kUnit, MPI_BYTE, &unit);
        MPI_Type_create_resized(unit, 0, static_cast<MPI_Aint>(step_), &type_);
        MPI_Type_commit(&type_);
        MPI_Type_free(&unit);
    }
    void put(int block, int source, int destination, int tag) {
        const auto i = static_cast<size_t>(block);
        std::vector<unsigned char> bytes(static_cast<size_t>(counts_[i] * kUnit));
        fill(bytes.data(), bytes.size(), source, destination, tag);
        for (size_t u = 0; u < static_cast<size_t>(counts_[i]); ++u)
            std::copy_n(bytes.data() + u * kUnit, kUnit,
                        data_.data() + (static_cast<size_t>(places_[i]) + u) * step_);
    }
    bool operator==(const Side& other) const { return data_ == other.data_; }
    void* data() { return data_.data(); }
    const int* counts() const { return counts_.empty() ? nullptr : counts_.data(); }
    const int* places() const { return places_.empty() ? nullptr : places_.data(); }
    int count() const { return counts_.empty() ? -7 : counts_[0]; }
    MPI_Datatype type() const { return type_; }
    void free_type() {
        if (type_ != MPI_DATATYPE_NULL) MPI_Type_free(&type_);
    }

  private:
    std::vector<int> counts_, places_;
    size_t step_ = 0;
    std::vector<unsigned char> data_;
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

struct Call {
    MPI_Comm comm;
    Kind kind;
    int units, root, tag;
    bool in_place, blocking;
    int rank = 0, size = 0;
    Side send{}, recv{}, expected{};
    MPI_Request request = MPI_REQUEST_NULL;

    bool is_root() const { return rank == root; }
    bool gathers() const { return kind <= kGatherv; }
    bool by_vector() const { return kind == kGatherv || kind == kScatterv; }
    // Different for each rank, zero for some.
    int count(int r) const {
        return !by_vector() ? units : (r + tag) % 4 == 3 ? 0 : units * (1 + (r + tag) % 3);
    }

    void prepare() {
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        in_place = in_place && is_root();
        const bool spread = (rank + tag) % 3 == 0, gaps = by_vector() && size > 1;
        std::vector<int> counts;
        for (int r = 0; r < size; ++r) counts.push_back(count(r));
        const Side whole = is_root() ? Side(counts, gaps, spread) : Side();
        const Side mine = in_place ? Side() : Side({count(rank)}, false, (rank + tag) % 2 == 0);
        send = gathers() ? mine : whole;
        recv = gathers() ? whole : mine;
        if (gathers() && in_place) recv.put(rank, rank, 0, tag);
        if (gathers() && !in_place) send.put(0, rank, 0, tag);
        expected = recv;
        for (int r = 0; r < size && is_root(); ++r) {
            if (gathers())
                expected.put(r, r, 0, tag);
            else
                send.put(r, root, r, tag);
        }
        if (!gathers() && !in_place) expected.put(0, root, rank, tag);
    }

    void start() {
        const void* from = gathers() && in_place ? MPI_IN_PLACE : send.data();
        void* to = !gathers() && in_place ? MPI_IN_PLACE : recv.data();
        const int sc = send.count(), rc = recv.count();
        const MPI_Datatype st = send.type(), rt = recv.type();
        const int *scs = send.counts(), *sps = send.places(), *rcs = recv.counts(), *rps = recv.places();
        int e = MPI_SUCCESS;
        switch (kind) {
            case kGather:
                e = blocking ? MPI_Gather(from, sc, st, to, rc, rt, root, comm)
                             : MPI_Igather(from, sc, st, to, rc, rt, root, comm, &request);
                break;
            case kGatherv:
                e = blocking ? MPI_Gatherv(from, sc, st, to, rcs, rps, rt, root, comm)
                             : MPI_Igatherv(from, sc, st, to, rcs, rps, rt, root, comm, &request);
                break;
            case kScatter:
                e = blocking ? MPI_Scatter(from, sc, st, to, rc, rt, root, comm)
                             : MPI_Iscatter(from, sc, st, to, rc, rt, root, comm, &request);
                break;
            default:
                e = blocking ? MPI_Scatterv(from, scs, sps, st, to, rc, rt, root, comm)
                             : MPI_Iscatterv(from, scs, sps, st, to, rc, rt, root, comm, &request);
        }
        CHECK(e == MPI_SUCCESS);
        // Legal while the call is open.
        send.free_type();
        recv.free_type();
    }

    void finish() {
        CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        CHECK(recv == expected);
    }
};

void every_root(MPI_Comm comm, int units, int tag) {
    int size = 0;
    MPI_Comm_size(comm, &size);
    std::vector<int> roots = {0, size / 2, size - 1};
    roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
    for (int root : roots)
        for (int kind = 0; kind < kKinds; ++kind)
            for (bool blocking : {true, false})
                for (bool in_place : {false, true}) {
                    Call call{comm, static_cast<Kind>(kind), units, root, ++tag, in_place, blocking};
                    call.prepare();
                    call.start();
                    if (blocking) CHECK(call.request == MPI_REQUEST_NULL);
                    call.finish();
                }
}

// Several open on overlapping communicators, completed one by one in an order of each rank's own.
void several(const std::vector<MPI_Comm>& comms, int units, int world_rank) {
    std::vector<Call> calls;
    int tag = 0;
    for (MPI_Comm comm : comms)
        for (int kind = 0; kind < kKinds; ++kind)
            for (int round = 0; round < 3; ++round) {
                int size = 0;
                MPI_Comm_size(comm, &size);
                ++tag;
                calls.push_back(
                    {comm, static_cast<Kind>(kind), units + kind, tag % size, tag, tag % 5 == 0, false});
            }
    for (Call& call : calls) call.prepare();
    for (Call& call : calls) call.start();
    std::vector<size_t> order(calls.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(world_rank)));
    for (size_t i : order) calls[i].finish();
}

// A gather says nothing to those who send: they may be far ahead of a late root, and their buffers are
// theirs.
void late_root(int rank, int size) {
    constexpr int kCalls = 20;
    std::vector<int> got(static_cast<size_t>(size));
    if (rank == 0) usleep(20'000);
    for (int i = 0; i < kCalls; ++i) {
        int mine = rank * 100 + i;
        CHECK(MPI_Gather(&mine, 1, MPI_INT, got.data(), 1, MPI_INT, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
        mine = -1;
        for (int r = 0; r < size && rank == 0; ++r) CHECK(got[static_cast<size_t>(r)] == r * 100 + i);
    }
}

}  // namespace

PROGRAM(rooted) {
    MPI_Init(&argc, &argv);
    const int max_bytes = argc > 1 ? atoi(argv[1]) : 1 << 20;
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm odd_even = MPI_COMM_NULL, reversed = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &odd_even);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    int tag = 0;
    for (int bytes : {0, 8, 1024, 100'000, 1 << 20}) {
        if (bytes > max_bytes) break;
        tag += 1000;  // alike on all ranks, whatever their groups
        every_root(MPI_COMM_WORLD, bytes / kUnit, tag);
        if (bytes <= 1024) every_root(odd_even, bytes / kUnit, tag);
    }
    several({MPI_COMM_WORLD, odd_even, reversed}, std::min(max_bytes, 20'000) / kUnit, rank);
    late_root(rank, size);
    MPI_Comm_free(&odd_even);
    MPI_Comm_free(&reversed);
    return finish("rooted");
}
