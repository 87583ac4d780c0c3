// Types made by every constructor, the large-count ones too, of every kind of inner type: predefined ones,
// those of Fortran's parametrised kinds, pairs of a value and an index, derived ones. What arrives is what
// MPI_Unpack makes of what MPI_Pack gives, also where the type was freed while the call was open; and no
// error handler hears of what Longshore asks the MPI about a type.
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "check.h"
#include "persistent.h"

namespace {

int rank, size, errors_heard = 0;

void on_error(MPI_Comm*, int* code, ...) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(*code, text, &length);
    fprintf(stderr, "rank %d: an error handler hears of: %s\n", rank, text);
    ++errors_heard;
}

MPI_Aint extent_of(MPI_Datatype type) {
    MPI_Aint lb = 0, extent = 0;
    MPI_Type_get_extent(type, &lb, &extent);
    return extent;
}

struct Inner {
    std::string name;
    MPI_Datatype type;
    bool derived;
};

// Without Fortran an MPI has no type for its kinds.
template <class Make>
void add_if_made(const char* name, std::vector<Inner>* inners, Make make) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (make(&made) == MPI_SUCCESS && made != MPI_DATATYPE_NULL) inners->push_back({name, made, false});
}

std::vector<Inner> all_inners() {
    std::vector<Inner> inners = {{"int", MPI_INT, false}, {"double_int", MPI_DOUBLE_INT, false}};
    add_if_made("f90 real", &inners, [](MPI_Datatype* t) { return MPI_Type_create_f90_real(15, 300, t); });
    add_if_made("f90 complex", &inners,
                [](MPI_Datatype* t) { return MPI_Type_create_f90_complex(6, 30, t); });
    add_if_made("f90 integer", &inners, [](MPI_Datatype* t) { return MPI_Type_create_f90_integer(8, t); });
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
    add_if_made("named pair", &inners,
                [](MPI_Datatype* t) { return MPI_Type_get_value_index(MPI_FLOAT, MPI_INT, t); });
    add_if_made("pair", &inners,
                [](MPI_Datatype* t) { return MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT64_T, t); });
#endif
    MPI_Datatype dense, holes;
    MPI_Type_contiguous(3, MPI_SHORT, &dense);
    MPI_Type_vector(2, 1, 3, MPI_INT, &holes);
    inners.push_back({"3 shorts", dense, true});
    inners.push_back({"holes", holes, true});
    return inners;
}

struct Outer {
    std::string name;
    std::function<void(MPI_Datatype inner, MPI_Datatype* made)> make;
};

// Each constructor by the name of its function and the type of its counts and displacements.
#define OUTERS(_c, Count, Place)                                                                             \
    outers.push_back({"contiguous" #_c,                                                                      \
                      [](MPI_Datatype t, MPI_Datatype* made) { MPI_Type_contiguous##_c(3, t, made); }});     \
    outers.push_back({"resized" #_c, [](MPI_Datatype t, MPI_Datatype* made) {                                \
                          MPI_Type_create_resized##_c(t, 0, extent_of(t), made);                             \
                      }});                                                                                   \
    for (Count gap : {0, 1}) {                                                                               \
        const std::string gaps = gap ? #_c ", gaps" : #_c;                                                   \
        outers.push_back({"vector" + gaps, [gap](MPI_Datatype t, MPI_Datatype* made) {                       \
                              MPI_Type_vector##_c(3, 2, 2 + gap, t, made);                                   \
                          }});                                                                               \
        outers.push_back({"hvector" + gaps, [gap](MPI_Datatype t, MPI_Datatype* made) {                      \
                              MPI_Type_create_hvector##_c(3, 2, (2 + gap) * extent_of(t), t, made);          \
                          }});                                                                               \
    }                                                                                                        \
    for (bool swapped : {false, true}) {                                                                     \
        const std::string order = swapped ? #_c ", swapped" : #_c;                                           \
        const std::vector<Count> ones = {1, 1, 1}, places = {0, swapped ? 2 : 1, swapped ? 1 : 2};           \
        const auto bytes = [places](MPI_Datatype t) {                                                        \
            std::vector<Place> all;                                                                          \
            for (Count place : places) all.push_back(static_cast<Place>(place) * extent_of(t));              \
            return all;                                                                                      \
        };                                                                                                   \
        outers.push_back({"indexed" + order, [=](MPI_Datatype t, MPI_Datatype* made) {                       \
                              MPI_Type_indexed##_c(3, ones.data(), places.data(), t, made);                  \
                          }});                                                                               \
        outers.push_back({"hindexed" + order, [=](MPI_Datatype t, MPI_Datatype* made) {                      \
                              MPI_Type_create_hindexed##_c(3, ones.data(), bytes(t).data(), t, made);        \
                          }});                                                                               \
        outers.push_back({"indexed block" + order, [=](MPI_Datatype t, MPI_Datatype* made) {                 \
                              MPI_Type_create_indexed_block##_c(3, 1, places.data(), t, made);               \
                          }});                                                                               \
        outers.push_back({"hindexed block" + order, [=](MPI_Datatype t, MPI_Datatype* made) {                \
                              MPI_Type_create_hindexed_block##_c(3, 1, bytes(t).data(), t, made);            \
                          }});                                                                               \
        outers.push_back({"struct" + order, [=](MPI_Datatype t, MPI_Datatype* made) {                        \
                              const MPI_Datatype types[] = {t, t, t};                                        \
                              MPI_Type_create_struct##_c(3, ones.data(), bytes(t).data(), types, made);      \
                          }});                                                                               \
        outers.push_back({"subarray" + order, [=](MPI_Datatype t, MPI_Datatype* made) {                      \
                              const Count sizes[] = {2, 3}, parts[] = {2, swapped ? 2 : 3}, from[] = {0, 0}; \
                              MPI_Type_create_subarray##_c(2, sizes, parts, from, MPI_ORDER_C, t, made);     \
                          }});                                                                               \
    }                                                                                                        \
    outers.push_back({"darray" #_c, [](MPI_Datatype t, MPI_Datatype* made) {                                 \
                          const Count sizes[] = {4};                                                         \
                          const int ways[] = {MPI_DISTRIBUTE_CYCLIC}, blocks[] = {1}, processes[] = {2};     \
                          MPI_Type_create_darray##_c(2, 1, 1, sizes, ways, blocks, processes, MPI_ORDER_C,   \
                                                     t, made);                                               \
                      }});

std::vector<Outer> all_outers() {
    std::vector<Outer> outers;
    outers.push_back({"dup", [](MPI_Datatype t, MPI_Datatype* made) { MPI_Type_dup(t, made); }});
    OUTERS(, int, MPI_Aint)
#if MPI_VERSION >= 4
    OUTERS(_c, MPI_Count, MPI_Count)
#endif
    return outers;
}

// `count` elements of a type, and room for its gaps.
struct Buffer {
    std::vector<char> bytes;

    Buffer(MPI_Datatype type, int count) {
        MPI_Aint lb = 0, extent = 0, true_lb = 0, true_extent = 0;
        MPI_Type_get_extent(type, &lb, &extent);
        MPI_Type_get_true_extent(type, &true_lb, &true_extent);
        CHECK(lb >= 0 && true_lb >= 0);
        bytes.assign(static_cast<size_t>((count - 1) * extent + true_lb + true_extent), '\xEE');
    }
    Buffer& fill_from(int source) {
        fill(bytes.data(), bytes.size(), source, 0, 0);
        return *this;
    }
    char* data() { return bytes.data(); }
};

// What `to` holds once it has received `count` elements from element `first` of `from` on, at element `at`.
void move(Buffer& from, int first, Buffer* to, int at, int count, MPI_Datatype type) {
    int bytes = 0, position = 0;
    MPI_Pack_size(count, type, MPI_COMM_SELF, &bytes);
    std::vector<char> packed(static_cast<size_t>(bytes));
    const MPI_Aint extent = extent_of(type);
    MPI_Pack(from.data() + first * extent, count, type, packed.data(), bytes, &position, MPI_COMM_SELF);
    bytes = position;
    position = 0;
    MPI_Unpack(packed.data(), bytes, &position, to->data() + at * extent, count, type, MPI_COMM_SELF);
}

constexpr int kCount = 2;

void exchange(const std::string& name, MPI_Datatype type) {
    const auto same = [&](const char* call, const Buffer& got, const Buffer& expected) {
        if (got.bytes != expected.bytes) fprintf(stderr, "rank %d: %s of %s\n", rank, call, name.c_str());
        CHECK(got.bytes == expected.bytes);
    };
    const int root = size - 1;
    Buffer sent = Buffer(type, kCount).fill_from(root), expected(type, kCount);
    move(sent, 0, &expected, 0, kCount, type);
    Buffer& result = rank == root ? sent : expected;
    Buffer blocking = rank == root ? sent : Buffer(type, kCount), open = blocking, started = blocking;
    Buffer all(type, kCount * size), all_sent(type, kCount * size), all_expected(type, kCount * size);
    for (int r = 0; r < size; ++r)
        move(all_sent.fill_from(r), rank * kCount, &all_expected, r * kCount, kCount, type);
    all_sent.fill_from(rank);

    MPI_Bcast(blocking.data(), kCount, type, root, MPI_COMM_WORLD);
    same("MPI_Bcast", blocking, result);
    MPI_Request requests[2], kept;
    INIT(Bcast)(started.data(), kCount, type, root, MPI_COMM_WORLD, MPI_INFO_NULL, &kept);
    MPI_Ibcast(open.data(), kCount, type, root, MPI_COMM_WORLD, &requests[0]);
    MPI_Ialltoall(all_sent.data(), kCount, type, all.data(), kCount, type, MPI_COMM_WORLD, &requests[1]);
    MPI_Start(&kept);
    MPI_Type_free(&type);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    same("MPI_Ibcast", open, result);
    same("MPI_Ialltoall", all, all_expected);
    MPI_Wait(&kept, MPI_STATUS_IGNORE);
    same("MPI_Bcast_init", started, result);
    MPI_Request_free(&kept);
}

}  // namespace

PROGRAM(combiners) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::vector<Inner> inners = all_inners();
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    for (const Outer& outer : all_outers()) {
        for (const Inner& inner : inners) {
            MPI_Datatype once, twice;
            outer.make(inner.type, &once);
            MPI_Type_commit(&once);
            MPI_Type_contiguous(2, once, &twice);
            MPI_Type_commit(&twice);
            exchange(outer.name + " of " + inner.name, once);
            exchange("2 of " + outer.name + " of " + inner.name, twice);
        }
    }
    for (Inner& inner : inners)
        if (inner.derived) MPI_Type_free(&inner.type);
    CHECK(errors_heard == 0);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    return finish("combiners");
}
