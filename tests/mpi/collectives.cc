// Every collective, blocking and nonblocking, over sizes, in place, on sub-communicators, with several calls
// open at once that complete in random order. Every byte is checked.      collectives [max_bytes]
#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "check.h"

namespace {

enum Kind { kAlltoall, kAlltoallv, kAllgather, kAllgatherv, kBcast, kKinds };

// One call with its buffers; `tag` makes its contents its own.
struct Call {
    MPI_Comm comm;
    Kind kind;
    int bytes, tag;
    bool in_place, blocking;
    int root = 0, rank = 0, size = 0;
    std::vector<unsigned char> send{}, recv{};
    std::vector<int> send_counts{}, recv_counts{}, send_places{}, recv_places{};
    MPI_Request request = MPI_REQUEST_NULL;

    // Different for each pair, zero for some.
    int count(int from, int to) const {
        return (from + 2 * to + tag) % 4 == 3 ? 0 : bytes * (1 + (from * 3 + to) % 3) / 2;
    }

    void lay_out(std::vector<int>* counts, std::vector<int>* places, bool sending) {
        int at = 0;
        for (int r = 0; r < size; ++r) {
            int n = kind == kAllgatherv ? count(r, 0) : sending ? count(rank, r) : count(r, rank);
            if (in_place && kind == kAlltoallv) n = count(std::min(r, rank), std::max(r, rank));
            counts->push_back(n);
            if (size > 1) at += 3;  // a gap; MPICH 4.0.2 alone ignores the displacement of a lone rank
            places->push_back(at);
            at += n;
        }
    }

    void prepare() {
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        root = tag % size;
        const auto n = static_cast<size_t>(size), b = static_cast<size_t>(bytes);
        lay_out(&send_counts, &send_places, true);
        lay_out(&recv_counts, &recv_places, false);
        if (kind == kAlltoall || kind == kAllgather) {
            recv.assign(n * b, 0xEE);
            send.resize(kind == kAlltoall ? n * b : b);
        } else if (kind == kBcast) {
            recv.assign(b, 0xEE);
        } else {
            recv.assign(static_cast<size_t>(recv_places.back() + recv_counts.back()) + 3, 0xEE);
            send.resize(static_cast<size_t>(send_places.back() + send_counts.back()) + 3);
        }
        std::vector<unsigned char>& from = in_place ? recv : send;
        for (int r = 0; r < size; ++r) {
            const auto i = static_cast<size_t>(r);
            if (kind == kAlltoall) fill(from.data() + i * b, b, rank, r, tag);
            if (kind == kAlltoallv)
                fill(from.data() + (in_place ? recv_places : send_places)[i],
                     static_cast<uint64_t>((in_place ? recv_counts : send_counts)[i]), rank, r, tag);
        }
        const auto me = static_cast<size_t>(rank);
        if (kind == kAllgather) fill(from.data() + (in_place ? me * b : 0), b, rank, 0, tag);
        if (kind == kAllgatherv)
            fill(from.data() + (in_place ? recv_places[me] : 0), static_cast<uint64_t>(recv_counts[me]), rank,
                 0, tag);
        if (kind == kBcast && rank == root) fill(recv.data(), b, root, 0, tag);
    }

    void start() {
        const void* from = in_place ? MPI_IN_PLACE : send.data();
        const int own = recv_counts[static_cast<size_t>(rank)];
        const int *sc = send_counts.data(), *sp = send_places.data(), *rc = recv_counts.data(),
                  *rp = recv_places.data();
        void* to = recv.data();
        int rc_mpi = MPI_SUCCESS;
        switch (kind) {
            case kAlltoall:
                rc_mpi = blocking ? MPI_Alltoall(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, comm)
                                  : MPI_Ialltoall(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, comm, &request);
                break;
            case kAlltoallv:
                rc_mpi = blocking
                             ? MPI_Alltoallv(from, sc, sp, MPI_BYTE, to, rc, rp, MPI_BYTE, comm)
                             : MPI_Ialltoallv(from, sc, sp, MPI_BYTE, to, rc, rp, MPI_BYTE, comm, &request);
                break;
            case kAllgather:
                rc_mpi = blocking
                             ? MPI_Allgather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, comm)
                             : MPI_Iallgather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, comm, &request);
                break;
            case kAllgatherv:
                rc_mpi = blocking
                             ? MPI_Allgatherv(from, own, MPI_BYTE, to, rc, rp, MPI_BYTE, comm)
                             : MPI_Iallgatherv(from, own, MPI_BYTE, to, rc, rp, MPI_BYTE, comm, &request);
                break;
            default:
                rc_mpi = blocking ? MPI_Bcast(to, bytes, MPI_BYTE, root, comm)
                                  : MPI_Ibcast(to, bytes, MPI_BYTE, root, comm, &request);
        }
        CHECK(rc_mpi == MPI_SUCCESS);
    }

    void check() {
        const auto b = static_cast<size_t>(bytes);
        if (kind == kBcast) CHECK(is_filled(recv.data(), b, root, 0, tag));
        for (int r = 0; r < size; ++r) {
            const auto i = static_cast<size_t>(r);
            if (kind == kAlltoall) CHECK(is_filled(recv.data() + i * b, b, r, rank, tag));
            if (kind == kAllgather) CHECK(is_filled(recv.data() + i * b, b, r, 0, tag));
            if (kind != kAlltoallv && kind != kAllgatherv) continue;
            const int to = kind == kAlltoallv ? rank : 0;
            CHECK(is_filled(recv.data() + recv_places[i], static_cast<uint64_t>(recv_counts[i]), r, to, tag));
            for (int g = 1; g <= 3 && size > 1; ++g)
                CHECK(recv[static_cast<size_t>(recv_places[i] - g)] == 0xEE);
        }
    }
};

void one(MPI_Comm comm, Kind kind, int bytes, bool in_place, bool blocking, int tag) {
    Call call{comm, kind, bytes, tag, in_place && kind != kBcast, blocking};
    call.prepare();
    call.start();
    if (!blocking) CHECK(MPI_Wait(&call.request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(call.request == MPI_REQUEST_NULL);
    call.check();
}

// Several open on one and on overlapping communicators, completed one by one in an order of each rank's own.
void several(const std::vector<MPI_Comm>& comms, int bytes, int world_rank) {
    std::vector<Call> calls;
    int tag = 1000;
    for (int round = 0; round < 2; ++round)
        for (MPI_Comm comm : comms)
            for (int kind = 0; kind < kKinds; ++kind) {
                ++tag;
                calls.push_back({comm, static_cast<Kind>(kind), bytes + kind, tag,
                                 tag % 3 == 0 && kind != kBcast, false});
            }
    for (Call& call : calls) call.prepare();
    for (Call& call : calls) call.start();
    std::vector<size_t> order(calls.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(world_rank)));
    for (size_t i : order) {
        CHECK(MPI_Wait(&calls[i].request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        calls[i].check();
    }
}

}  // namespace

// The own block stands where it is to come already, and nobody says MPI_IN_PLACE: forbidden, but Open MPI
// does it, and programs rely on it. On rank 0 the two buffers are the same.
static void in_place_unsaid([[maybe_unused]] int bytes) {
#ifdef OPEN_MPI
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const auto n = static_cast<size_t>(bytes);
    std::vector<unsigned char> all(n * static_cast<size_t>(size), 0xEE);
    unsigned char* const own = all.data() + n * static_cast<size_t>(rank);
    for (const bool blocking : {true, false}) {
        fill(own, n, rank, 0, blocking);
        MPI_Request request = MPI_REQUEST_NULL;
        if (blocking)
            MPI_Allgather(own, bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, MPI_COMM_WORLD);
        else
            MPI_Iallgather(own, bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int r = 0; r < size; ++r)
            CHECK(is_filled(all.data() + n * static_cast<size_t>(r), n, r, 0, blocking));
    }
#endif
}

PROGRAM(collectives) {
    MPI_Init(&argc, &argv);
    const int max_bytes = argc > 1 ? atoi(argv[1]) : 1 << 20;
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm odd_even = MPI_COMM_NULL, reversed = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &odd_even);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    int tag = 0;
    for (int bytes : {0, 1, 7, 1024, 100'000, 1 << 20}) {
        if (bytes > max_bytes) break;
        for (int kind = 0; kind < kKinds; ++kind)
            for (bool blocking : {true, false})
                for (bool in_place : {false, true}) {
                    if (in_place && kind == kBcast) continue;
                    one(MPI_COMM_WORLD, static_cast<Kind>(kind), bytes, in_place, blocking, ++tag);
                    if (bytes <= 1024) one(odd_even, static_cast<Kind>(kind), bytes, in_place, blocking, tag);
                }
    }
    for (int bytes : {1000, 300'000}) in_place_unsaid(bytes);
    several({MPI_COMM_WORLD, odd_even, reversed}, std::min(max_bytes, 20'000), rank);
    MPI_Comm_free(&odd_even);
    MPI_Comm_free(&reversed);
    return finish("collectives");
}
