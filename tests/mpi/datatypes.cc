// Datatypes: a vector on one side and plain ints on the other, other ones on other ranks, resized, struct,
// pair types, MPI_BOTTOM with absolute addresses, negative displacements and lower bounds, overlapping send
// blocks, types without any byte, a type freed while the call is open. Every value is checked, and so are the
// holes; and that what is contiguous is not packed.
//      datatypes [native]      native: but for what Open MPI 4.1 itself does not bear, where it serves calls
#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "check.h"

namespace {

int rank, size;
std::atomic<int> packs{0};

int value(int from, int to, int i) {
    return from * 10'000 + to * 100 + i;
}

// Element i of a block lies at index i * stride.
std::vector<int> strided(int blocks, int n, int stride) {
    return std::vector<int>(static_cast<size_t>(blocks * n * stride), -1);
}

MPI_Datatype spread_type(int n, int stride) {
    MPI_Datatype vector, resized;
    MPI_Type_vector(n, 1, stride, MPI_INT, &vector);
    MPI_Type_create_resized(vector, 0, static_cast<MPI_Aint>(sizeof(int)) * n * stride, &resized);
    MPI_Type_commit(&resized);
    MPI_Type_free(&vector);
    return resized;
}

// 8 ints here, one vector of 8 there; which rank uses which differs, and so it does between send and receive.
void alltoall_mixed(bool blocking, bool v) {
    constexpr int kN = 8;
    const int send_stride = rank % 2 ? 3 : 1, recv_stride = rank % 3 == 0 ? 2 : 1;
    std::vector<int> send = strided(size, kN, send_stride), recv = strided(size, kN, recv_stride);
    for (int r = 0; r < size; ++r)
        for (int i = 0; i < kN; ++i)
            send[static_cast<size_t>((r * kN + i) * send_stride)] = value(rank, r, i);
    MPI_Datatype st = send_stride > 1 ? spread_type(kN, send_stride) : MPI_INT;
    MPI_Datatype rt = recv_stride > 1 ? spread_type(kN, recv_stride) : MPI_INT;
    const int sc = send_stride > 1 ? 1 : kN, rc = recv_stride > 1 ? 1 : kN;
    std::vector<int> scs, sds, rcs, rds;
    for (int r = 0; r < size; ++r) {
        scs.push_back(sc);
        sds.push_back(r * sc);
        rcs.push_back(rc);
        rds.push_back(r * rc);
    }
    MPI_Request request = MPI_REQUEST_NULL;
    if (blocking && v)
        MPI_Alltoallv(send.data(), scs.data(), sds.data(), st, recv.data(), rcs.data(), rds.data(), rt,
                      MPI_COMM_WORLD);
    else if (blocking)
        MPI_Alltoall(send.data(), sc, st, recv.data(), rc, rt, MPI_COMM_WORLD);
    else if (v)
        MPI_Ialltoallv(send.data(), scs.data(), sds.data(), st, recv.data(), rcs.data(), rds.data(), rt,
                       MPI_COMM_WORLD, &request);
    else
        MPI_Ialltoall(send.data(), sc, st, recv.data(), rc, rt, MPI_COMM_WORLD, &request);
    // Legal while the call is open.
    if (st != MPI_INT) MPI_Type_free(&st);
    if (rt != MPI_INT) MPI_Type_free(&rt);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int r = 0; r < size; ++r)
        for (int i = 0; i < kN; ++i)
            for (int k = 0; k < recv_stride; ++k)
                CHECK(recv[static_cast<size_t>((r * kN + i) * recv_stride + k)] ==
                      (k == 0 ? value(r, rank, i) : -1));
}

void in_place_strided(bool v) {
    constexpr int kN = 5, kStride = 2;
    std::vector<int> recv = strided(size, kN, kStride), counts, places;
    for (int r = 0; r < size; ++r) {
        counts.push_back(1);
        places.push_back(r);
        for (int i = 0; i < kN; ++i) recv[static_cast<size_t>((r * kN + i) * kStride)] = value(rank, r, i);
    }
    MPI_Datatype type = spread_type(kN, kStride);
    if (v)
        MPI_Alltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_DATATYPE_NULL, recv.data(), counts.data(),
                      places.data(), type, MPI_COMM_WORLD);
    else
        MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv.data(), 1, type, MPI_COMM_WORLD);
    for (int r = 0; r < size; ++r)
        for (int i = 0; i < kN; ++i)
            CHECK(recv[static_cast<size_t>((r * kN + i) * kStride)] == value(r, rank, i));
    // allgather in place: only the own block counts.
    for (int r = 0; r < size; ++r)
        for (int i = 0; i < kN; ++i)
            recv[static_cast<size_t>((r * kN + i) * kStride)] = r == rank ? value(rank, 7, i) : -2;
    if (v)
        MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv.data(), counts.data(), places.data(), type,
                       MPI_COMM_WORLD);
    else
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv.data(), 1, type, MPI_COMM_WORLD);
    for (int r = 0; r < size; ++r)
        for (int i = 0; i < kN; ++i)
            CHECK(recv[static_cast<size_t>((r * kN + i) * kStride)] == value(r, 7, i));
    MPI_Type_free(&type);
}

void gather_and_bcast_mixed() {
    constexpr int kN = 6, kStride = 3;
    const bool spread = rank % 2 == 0;
    MPI_Datatype type = spread_type(kN, kStride);
    std::vector<int> mine(kN * kStride, -1), all(static_cast<size_t>(size * kN), -1);
    for (int i = 0; i < kN; ++i) mine[static_cast<size_t>(spread ? i * kStride : i)] = value(rank, 1, i);
    MPI_Request request;
    MPI_Iallgather(mine.data(), spread ? 1 : kN, spread ? type : MPI_INT, all.data(), kN, MPI_INT,
                   MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int r = 0; r < size; ++r)
        for (int i = 0; i < kN; ++i) CHECK(all[static_cast<size_t>(r * kN + i)] == value(r, 1, i));
    for (int root = 0; root < size; ++root) {
        const bool strided_here = (rank + root) % 2 == 0;
        std::vector<int> data(kN * kStride, -1);
        if (rank == root)
            for (int i = 0; i < kN; ++i)
                data[static_cast<size_t>(strided_here ? i * kStride : i)] = value(root, 2, i);
        MPI_Bcast(data.data(), strided_here ? 1 : kN, strided_here ? type : MPI_INT, root, MPI_COMM_WORLD);
        for (int i = 0; i < kN; ++i)
            CHECK(data[static_cast<size_t>(strided_here ? i * kStride : i)] == value(root, 2, i));
    }
    MPI_Type_free(&type);
}

// Both buffers named by absolute addresses in the types; some members out of the order of their addresses.
void bottom() {
    std::vector<int> send(static_cast<size_t>(2 * size)), recv(static_cast<size_t>(2 * size), -1);
    for (int r = 0; r < size; ++r) {
        send[static_cast<size_t>(2 * r)] = value(rank, 3, 1);  // sent second
        send[static_cast<size_t>(2 * r + 1)] = value(rank, 3, 0);
    }
    MPI_Aint first, second, to;
    MPI_Get_address(&send[1], &first);
    MPI_Get_address(&send[0], &second);
    MPI_Get_address(recv.data(), &to);
    int lengths[2] = {1, 1};
    MPI_Aint from[2] = {first, second};
    MPI_Datatype types[2] = {MPI_INT, MPI_INT}, source, target, whole;
    MPI_Type_create_struct(2, lengths, from, types, &source);
    MPI_Type_commit(&source);
    int two = 2;
    MPI_Type_create_struct(1, &two, &to, types, &target);
    MPI_Type_create_resized(target, to, 2 * static_cast<MPI_Aint>(sizeof(int)), &whole);
    MPI_Type_commit(&whole);
    MPI_Allgather(MPI_BOTTOM, 1, source, MPI_BOTTOM, 1, whole, MPI_COMM_WORLD);
    for (int r = 0; r < size; ++r)
        for (int i = 0; i < 2; ++i) CHECK(recv[static_cast<size_t>(2 * r + i)] == value(r, 3, i));
    MPI_Type_free(&source);
    MPI_Type_free(&target);
    MPI_Type_free(&whole);
}

// Contiguous by its measures, but its second half comes first.
void permuted() {
    int lengths[2] = {2, 2}, places[2] = {2, 0};
    MPI_Datatype swapped;
    MPI_Type_indexed(2, lengths, places, MPI_INT, &swapped);
    MPI_Type_commit(&swapped);
    int send[4];
    for (int i = 0; i < 4; ++i) send[i] = value(rank, 4, i);
    std::vector<int> recv(static_cast<size_t>(4 * size), -1);
    MPI_Allgather(send, 1, swapped, recv.data(), 4, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < size; ++r)
        for (int i = 0; i < 4; ++i) CHECK(recv[static_cast<size_t>(4 * r + i)] == value(r, 4, (i + 2) % 4));
    MPI_Type_free(&swapped);
}

// A struct without holes is used in place, a pair type with one is packed.
void structs() {
    struct Item {
        double weight;
        int index;
        int color;
    };
    int lengths[2] = {1, 2};
    MPI_Aint places[2] = {0, 8};
    MPI_Datatype types[2] = {MPI_DOUBLE, MPI_INT}, item;
    MPI_Type_create_struct(2, lengths, places, types, &item);
    MPI_Type_commit(&item);
    Item mine{rank * 0.5, rank, -rank};
    std::vector<Item> all(static_cast<size_t>(size));
    MPI_Allgather(&mine, 1, item, all.data(), 1, item, MPI_COMM_WORLD);
    for (int r = 0; r < size; ++r) {
        const Item& got = all[static_cast<size_t>(r)];
        CHECK(got.weight == r * 0.5 && got.index == r && got.color == -r);
    }
    MPI_Type_free(&item);
    struct Pair {
        double value;
        int index;
    };
    Pair pair{rank + 0.25, rank};
    std::vector<Pair> pairs(static_cast<size_t>(size));
    MPI_Allgather(&pair, 1, MPI_DOUBLE_INT, pairs.data(), 1, MPI_DOUBLE_INT, MPI_COMM_WORLD);
    for (int r = 0; r < size; ++r)
        CHECK(pairs[static_cast<size_t>(r)].value == r + 0.25 && pairs[static_cast<size_t>(r)].index == r);
}

// Displacements before the buffer's address; one block sent to all.
void negative_and_overlapping(MPI_Datatype type, int ints) {
    constexpr int kN = 50;
    const auto n = static_cast<size_t>(size), width = static_cast<size_t>(kN * ints);
    std::vector<int> send(width), recv(n * width, -1), counts, same, behind;
    for (int i = 0; i < kN * ints; ++i) send[static_cast<size_t>(i)] = value(rank, 5, i);
    for (int r = 0; r < size; ++r) {
        counts.push_back(kN);
        same.push_back(-kN);
        behind.push_back((r - size) * kN);
    }
    MPI_Request request;
    MPI_Ialltoallv(send.data() + width, counts.data(), same.data(), type, recv.data() + n * width,
                   counts.data(), behind.data(), type, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int r = 0; r < size; ++r)
        for (int i = 0; i < kN * ints; ++i)
            CHECK(recv[static_cast<size_t>(r) * width + static_cast<size_t>(i)] == value(r, 5, i));
}

// One element of n ints whose lower bound lies before the first, with room behind: in every family.
void lower_bounds() {
    constexpr int kN = 5, kBefore = 3, kExtent = 12;
    MPI_Datatype ints, type;
    MPI_Type_contiguous(kN, MPI_INT, &ints);
    MPI_Type_create_resized(ints, -kBefore * 4, kExtent * 4, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&ints);
    const auto room = static_cast<size_t>(size * kExtent);
    const auto at = [](int block, int i) { return static_cast<size_t>(block * kExtent + i); };
    std::vector<int> send(room, -3), counts(static_cast<size_t>(size), 1), places;
    for (int r = 0; r < size; ++r) {
        places.push_back(r);
        for (int i = 0; i < kN; ++i) send[at(r, i)] = value(rank, r, i);
    }
    const int *c = counts.data(), *p = places.data();
    const int root = size - 1;
    for (int kind = 0; kind < 9; ++kind) {
        std::vector<int> recv(room, -1);
        const MPI_Comm w = MPI_COMM_WORLD;
        int *s = send.data(), *r = recv.data();
        if (kind == 4 && rank == root)
            for (int i = 0; i < kN; ++i) recv[at(0, i)] = value(root, 0, i);
        MPI_Request q;
        if (kind == 0) MPI_Ialltoall(s, 1, type, r, 1, type, w, &q);
        if (kind == 1) MPI_Ialltoallv(s, c, p, type, r, c, p, type, w, &q);
        if (kind == 2) MPI_Iallgather(s, 1, type, r, 1, type, w, &q);
        if (kind == 3) MPI_Iallgatherv(s, 1, type, r, c, p, type, w, &q);
        if (kind == 4) MPI_Ibcast(r, 1, type, root, w, &q);
        if (kind == 5) MPI_Igather(s, 1, type, r, 1, type, root, w, &q);
        if (kind == 6) MPI_Igatherv(s, 1, type, r, c, p, type, root, w, &q);
        if (kind == 7) MPI_Iscatter(s, 1, type, r, 1, type, root, w, &q);
        if (kind == 8) MPI_Iscatterv(s, c, p, type, r, 1, type, root, w, &q);
        MPI_Wait(&q, MPI_STATUS_IGNORE);
        const int blocks = kind < 4 || ((kind == 5 || kind == 6) && rank == root) ? size
                           : kind == 5 || kind == 6                               ? 0
                                                                                  : 1;
        for (int b = 0; b < size; ++b)
            for (int i = 0; i < kExtent; ++i) {
                const int from = kind < 4 || kind == 5 || kind == 6 ? b : root;
                const int to = kind < 2 || kind >= 7 ? rank : 0;
                CHECK(recv[at(b, i)] == (b < blocks && i < kN ? value(from, to, i) : -1));
            }
    }
    MPI_Type_free(&type);
}

// Types without any byte, whatever their extent, on one side or on both; null buffers with them.
void no_bytes(bool native) {
    MPI_Datatype none, wide;
    MPI_Type_contiguous(0, MPI_INT, &none);
    MPI_Type_create_resized(none, -64, 128, &wide);
    MPI_Type_commit(&none);
    MPI_Type_commit(&wide);
    std::vector<int> recv(static_cast<size_t>(size * 8), -1), counts(static_cast<size_t>(size), 2),
        zero(counts.size());
    const int *c = counts.data(), *z = zero.data();
    const MPI_Comm w = MPI_COMM_WORLD;
    for (MPI_Datatype type : {none, wide}) {
        MPI_Alltoall(nullptr, 3, type, recv.data(), 0, MPI_INT, w);
        MPI_Alltoallv(recv.data(), z, z, MPI_INT, nullptr, c, z, type, w);
        MPI_Allgather(&rank, 0, MPI_INT, recv.data(), 5, type, w);
        MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv.data(), c, z, type, w);
        // Root 0 of Open MPI 4.1.4, whose count is 0, sends nothing here, and the others wait for it.
        MPI_Bcast(nullptr, native ? 1 : rank, type, 0, w);
        MPI_Gather(nullptr, 7, type, recv.data(), 0, MPI_DOUBLE, 0, w);
        MPI_Request q;
        MPI_Iscatter(recv.data(), 1, type, nullptr, 2, type, size - 1, w, &q);
        MPI_Wait(&q, MPI_STATUS_IGNORE);
    }
    MPI_Type_free(&none);
    MPI_Type_free(&wide);
    for (int value : recv) CHECK(value == -1);
}

// Absolute addresses where there are displacements: these count extents from address 0.
void bottom_with_displacements() {
    const auto n = static_cast<size_t>(size);
    std::vector<int> send(n), recv(n, -1), ones(n, 1), places;
    for (int r = 0; r < size; ++r) {
        send[static_cast<size_t>(r)] = value(rank, r, 9);
        places.push_back(r);
    }
    MPI_Datatype from, to;
    const auto absolute = [](int* address, MPI_Datatype* type) {
        MPI_Aint at = 0;
        int one = 1;
        MPI_Get_address(address, &at);
        MPI_Type_create_hindexed(1, &one, &at, MPI_INT, type);
        MPI_Type_commit(type);
    };
    absolute(send.data(), &from);
    absolute(recv.data(), &to);
    MPI_Alltoallv(MPI_BOTTOM, ones.data(), places.data(), from, MPI_BOTTOM, ones.data(), places.data(), to,
                  MPI_COMM_WORLD);
    for (int r = 0; r < size; ++r) CHECK(recv[static_cast<size_t>(r)] == value(r, rank, 9));
    // In place: each has got what the other had for it, and so gets its own back.
    MPI_Request request;
    MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, MPI_BOTTOM, 1, to, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int r = 0; r < size; ++r) CHECK(recv[static_cast<size_t>(r)] == value(rank, r, 9));
    MPI_Bcast(MPI_BOTTOM, 1, rank == 0 ? from : to, 0, MPI_COMM_WORLD);
    CHECK(recv[0] == value(0, 0, 9));
    MPI_Type_free(&from);
    MPI_Type_free(&to);
}

// Many ways to say "eight ints in a row".
void in_a_row() {
    constexpr int kN = 8;
    int lengths[3] = {3, 0, 5}, places[3] = {0, 7, 3}, even[4] = {0, 2, 4, 6}, full[2] = {2, 4},
        start[2] = {0, 0};
    MPI_Aint bytes[3] = {0, 40, 12}, even_bytes[4] = {0, 8, 16, 24};
    MPI_Datatype inner[3] = {MPI_INT, MPI_INT, MPI_INT}, types[11];
    MPI_Type_contiguous(kN, MPI_INT, &types[0]);
    MPI_Type_vector(4, 2, 2, MPI_INT, &types[1]);
    MPI_Type_create_hvector(4, 2, 8, MPI_INT, &types[2]);
    MPI_Type_indexed(3, lengths, places, MPI_INT, &types[3]);
    MPI_Type_create_hindexed(3, lengths, bytes, MPI_INT, &types[4]);
    MPI_Type_create_indexed_block(4, 2, even, MPI_INT, &types[5]);
    MPI_Type_create_hindexed_block(4, 2, even_bytes, MPI_INT, &types[6]);
    MPI_Type_create_subarray(2, full, full, start, MPI_ORDER_C, MPI_INT, &types[7]);
    bytes[1] = 12;
    MPI_Type_create_struct(3, lengths, bytes, inner, &types[8]);
    MPI_Type_dup(types[3], &types[9]);
    MPI_Type_create_resized(types[5], 0, 4 * kN, &types[10]);
    for (MPI_Datatype& type : types) {
        MPI_Type_commit(&type);
        std::vector<int> send(kN), recv(static_cast<size_t>(kN * size), -1);
        for (int i = 0; i < kN; ++i) send[static_cast<size_t>(i)] = value(rank, 6, i);
        const int before = packs;
        MPI_Allgather(send.data(), 1, type, recv.data(), 1, type, MPI_COMM_WORLD);
        if (packs != before) fprintf(stderr, "in a row: type %td is packed\n", &type - types);
        CHECK(packs == before);
        for (int r = 0; r < size; ++r)
            for (int i = 0; i < kN; ++i) CHECK(recv[static_cast<size_t>(r * kN + i)] == value(r, 6, i));
        MPI_Type_free(&type);
    }
}

}  // namespace

// The shim packs with this; it stands before the MPI's own in the whole process.
extern "C" int PMPI_Pack(const void* in, int count, MPI_Datatype type, void* out, int bytes, int* position,
                         MPI_Comm comm) {
    ++packs;
    static const auto pack = reinterpret_cast<decltype(&PMPI_Pack)>(dlsym(RTLD_NEXT, "PMPI_Pack"));
    return pack(in, count, type, out, bytes, position, comm);
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (bool blocking : {true, false})
        for (bool v : {false, true}) alltoall_mixed(blocking, v);
    in_place_strided(false);
    in_place_strided(true);
    gather_and_bcast_mixed();
    bottom();
    permuted();
    CHECK(size == 1 || packs > 0);
    structs();
    lower_bounds();
    no_bytes(argc > 1 && strcmp(argv[1], "native") == 0);
    bottom_with_displacements();
    in_a_row();
    negative_and_overlapping(MPI_INT, 1);
    MPI_Datatype pair, swapped;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    negative_and_overlapping(pair, 2);
    int lengths[2] = {1, 1}, places[2] = {1, 0};
    MPI_Type_indexed(2, lengths, places, MPI_INT, &swapped);
    MPI_Type_commit(&swapped);
    negative_and_overlapping(swapped, 2);
    MPI_Type_free(&pair);
    MPI_Type_free(&swapped);
    finish("datatypes");
}
