// MPI_Alltoallw and MPI_Ialltoallw: a type for each block, displacements in bytes. Blocks as they are, blocks
// with holes, and both in one call; in place; nothing for some ranks; absolute addresses; types freed while
// the call is open. Every value is checked, and so are the holes.
#include <cstring>
#include <vector>

#include "check.h"

namespace {

int rank, size;
MPI_Comm world = MPI_COMM_WORLD;

int value(int from, int to, int i) {
    return from * 10'000 + to * 100 + i;
}

// `n` ints, `stride` ints apart.
MPI_Datatype spread_type(int n, int stride) {
    MPI_Datatype vector, resized;
    MPI_Type_vector(n, 1, stride, MPI_INT, &vector);
    MPI_Type_create_resized(vector, 0, static_cast<MPI_Aint>(sizeof(int)) * n * stride, &resized);
    MPI_Type_commit(&resized);
    MPI_Type_free(&vector);
    return resized;
}

// One side: the block of each peer has a stride of its own, and begins at an address that no int lies at.
struct Side {
    static constexpr int kGap = 5;  // bytes between blocks
    std::vector<int> counts, places, strides, lengths;
    std::vector<MPI_Datatype> types, own;
    std::vector<unsigned char> bytes;

    // stride_of(peer) 1: `length_of(peer)` ints as they are.
    template <class Stride, class Length>
    Side(Stride stride_of, Length length_of) {
        size_t at = 1;
        for (int r = 0; r < size; ++r) {
            const int stride = stride_of(r), length = length_of(r);
            strides.push_back(stride);
            lengths.push_back(length);
            places.push_back(static_cast<int>(at));
            counts.push_back(stride == 1 ? length : length == 0 ? 0 : 1);
            types.push_back(stride == 1 ? MPI_INT : spread_type(length == 0 ? 1 : length, stride));
            if (stride != 1) own.push_back(types.back());
            at += static_cast<size_t>(length * stride) * sizeof(int) + kGap;
        }
        bytes.assign(at, 0xEE);
    }
    unsigned char* element(int peer, int i) {
        const auto p = static_cast<size_t>(peer);
        return &bytes[static_cast<size_t>(places[p]) + static_cast<size_t>(i * strides[p]) * sizeof(int)];
    }
    void set(int peer, int from, int to) {
        for (int i = 0; i < lengths[static_cast<size_t>(peer)]; ++i) {
            const int v = value(from, to, i);
            memcpy(element(peer, i), &v, sizeof v);
        }
    }
    void free_types() {
        for (MPI_Datatype& type : own) MPI_Type_free(&type);
        own.clear();
    }
};

void check_received(Side* got) {
    Side expected = *got;
    expected.bytes.assign(got->bytes.size(), 0xEE);
    for (int r = 0; r < size; ++r) expected.set(r, r, rank);
    CHECK(got->bytes == expected.bytes);
}

void exchange(Side* send, Side* recv, bool blocking) {
    for (int r = 0; r < size; ++r) send->set(r, rank, r);
    if (blocking) {
        CHECK(MPI_Alltoallw(send->bytes.data(), send->counts.data(), send->places.data(), send->types.data(),
                            recv->bytes.data(), recv->counts.data(), recv->places.data(), recv->types.data(),
                            world) == MPI_SUCCESS);
        send->free_types();
        recv->free_types();
    } else {
        MPI_Request request;
        CHECK(MPI_Ialltoallw(send->bytes.data(), send->counts.data(), send->places.data(), send->types.data(),
                             recv->bytes.data(), recv->counts.data(), recv->places.data(), recv->types.data(),
                             world, &request) == MPI_SUCCESS);
        send->free_types();  // legal while the call is open
        recv->free_types();
        CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    }
    check_received(recv);
}

int one(int) {
    return 1;
}
int same_length(int) {
    return 9;
}

// As they are, packed on one side or the other, or with only some blocks with holes.
void strides(bool blocking) {
    const auto mixed = [](int peer) { return 1 + (rank + 2 * peer) % 3; };
    const auto some_rank = [](int) { return rank % 2 ? 4 : 1; };
    Side plain_send(one, same_length), plain_recv(one, same_length);
    exchange(&plain_send, &plain_recv, blocking);
    Side mixed_send(mixed, same_length), same_recv(one, same_length);
    exchange(&mixed_send, &same_recv, blocking);
    Side same_send(one, same_length), mixed_recv(mixed, same_length);
    exchange(&same_send, &mixed_recv, blocking);
    Side uneven_send(some_rank, same_length), uneven_recv(mixed, same_length);
    exchange(&uneven_send, &uneven_recv, blocking);
}

// Of another length for each pair, nothing for some; more than travels in a notification for others.
void lengths(bool blocking, int unit) {
    const auto length = [unit](int from, int to) { return unit * ((from + 3 * to) % 4); };
    const auto stride = [](int peer) { return 1 + (rank + peer) % 2; };
    Side send(stride, [&](int to) { return length(rank, to); });
    Side recv(stride, [&](int from) { return length(from, rank); });
    exchange(&send, &recv, blocking);
}

void in_place(bool blocking, bool holes) {
    // What a rank gives to another is as long as what it gets from it.
    const auto length = [](int peer) { return 3 + (rank + peer) % 3; };
    Side both([holes](int peer) { return holes ? 1 + peer % 2 : 1; }, length);
    for (int r = 0; r < size; ++r) both.set(r, rank, r);
    MPI_Request request = MPI_REQUEST_NULL;
    if (blocking)
        CHECK(MPI_Alltoallw(MPI_IN_PLACE, nullptr, nullptr, nullptr, both.bytes.data(), both.counts.data(),
                            both.places.data(), both.types.data(), world) == MPI_SUCCESS);
    else
        CHECK(MPI_Ialltoallw(MPI_IN_PLACE, nullptr, nullptr, nullptr, both.bytes.data(), both.counts.data(),
                             both.places.data(), both.types.data(), world, &request) == MPI_SUCCESS);
    both.free_types();
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    check_received(&both);
}

// Both sides are named by the addresses in the types.
void bottom() {
    const auto n = static_cast<size_t>(size);
    std::vector<int> send(n), recv(n, -1), ones(n, 1), zeros(n, 0);
    std::vector<MPI_Datatype> from(n), to(n);
    for (size_t r = 0; r < n; ++r) {
        send[r] = value(rank, static_cast<int>(r), 7);
        const int length = 1;
        MPI_Aint address;
        MPI_Get_address(&send[r], &address);
        MPI_Type_create_hindexed(1, &length, &address, MPI_INT, &from[r]);
        MPI_Type_commit(&from[r]);
        MPI_Get_address(&recv[r], &address);
        MPI_Type_create_hindexed(1, &length, &address, MPI_INT, &to[r]);
        MPI_Type_commit(&to[r]);
    }
    CHECK(MPI_Alltoallw(MPI_BOTTOM, ones.data(), zeros.data(), from.data(), MPI_BOTTOM, ones.data(),
                        zeros.data(), to.data(), world) == MPI_SUCCESS);
    for (size_t r = 0; r < n; ++r) {
        CHECK(recv[r] == value(static_cast<int>(r), rank, 7));
        MPI_Type_free(&from[r]);
        MPI_Type_free(&to[r]);
    }
}

// Displacements before the buffer's address; one block sent to all.
void negative_and_overlapping() {
    const auto n = static_cast<size_t>(size);
    std::vector<double> send(3), recv(3 * n, -1);
    std::vector<int> counts(n, 3), same(n, -3 * static_cast<int>(sizeof(double))), behind;
    std::vector<MPI_Datatype> types(n, MPI_DOUBLE);
    for (int i = 0; i < 3; ++i) send[static_cast<size_t>(i)] = value(rank, 0, i);
    for (int r = 0; r < size; ++r) behind.push_back((r - size) * 3 * static_cast<int>(sizeof(double)));
    CHECK(MPI_Alltoallw(send.data() + 3, counts.data(), same.data(), types.data(), recv.data() + 3 * n,
                        counts.data(), behind.data(), types.data(), world) == MPI_SUCCESS);
    for (int r = 0; r < size; ++r)
        for (int i = 0; i < 3; ++i) CHECK(recv[static_cast<size_t>(3 * r + i)] == value(r, 0, i));
}

// A type where there is nothing may be null with MPICH.
void nothing_of_no_type() {
#ifndef OPEN_MPI
    const auto n = static_cast<size_t>(size);
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    std::vector<int> scounts(n, 0), rcounts(n, 0), places(n, 0);
    std::vector<MPI_Datatype> stypes(n, MPI_DATATYPE_NULL), rtypes(n, MPI_DATATYPE_NULL);
    scounts[static_cast<size_t>(right)] = rcounts[static_cast<size_t>(left)] = 1;
    stypes[static_cast<size_t>(right)] = rtypes[static_cast<size_t>(left)] = MPI_INT;
    int got = -1;
    CHECK(MPI_Alltoallw(&rank, scounts.data(), places.data(), stypes.data(), &got, rcounts.data(),
                        places.data(), rtypes.data(), world) == MPI_SUCCESS);
    CHECK(got == left);
#endif
}

// More than one open at a time, beside an alltoallv: they are counted apart and not mixed up.
void beside_alltoallv() {
    const auto n = static_cast<size_t>(size);
    std::vector<int> send(n), first(n, -1), second(n, -1), ones(n, 1), places, byte_places;
    std::vector<MPI_Datatype> types(n, MPI_INT);
    for (int r = 0; r < size; ++r) {
        send[static_cast<size_t>(r)] = value(rank, r, 3);
        places.push_back(r);
        byte_places.push_back(r * static_cast<int>(sizeof(int)));
    }
    MPI_Request requests[2];
    MPI_Ialltoallw(send.data(), ones.data(), byte_places.data(), types.data(), first.data(), ones.data(),
                   byte_places.data(), types.data(), world, &requests[0]);
    MPI_Ialltoallv(send.data(), ones.data(), places.data(), MPI_INT, second.data(), ones.data(),
                   places.data(), MPI_INT, world, &requests[1]);
    CHECK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    for (int r = 0; r < size; ++r)
        CHECK(first[static_cast<size_t>(r)] == value(r, rank, 3) && second == first);
}

}  // namespace

PROGRAM(alltoallw) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    // One rank is the MPI's own affair, and Open MPI 4.1.4's results are wrong then.
    if (size == 1) return finish("alltoallw");
    for (bool blocking : {true, false}) {
        strides(blocking);
        for (int unit : {1, 700, 30'000}) lengths(blocking, unit);
        for (bool holes : {true, false}) in_place(blocking, holes);
    }
    bottom();
    negative_and_overlapping();
    nothing_of_no_type();
    beside_alltoallv();
    return finish("alltoallw");
}
