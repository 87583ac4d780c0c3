// What a program's own functions and objects see of the library between it and the MPI: calls of its
// attributes' functions and error handlers, names, infos and handlers of what it holds. Each rank
// writes it to a file; test_guest.py compares that with what the MPI alone shows.
//      unnoticed FOLDER
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "check.h"
#include "persistent.h"

namespace {

int rank, size;
int copies, deletions, refusals, errors_heard, last_error;

std::string seen_by_this_rank;

void say(const std::string& text) {
    seen_by_this_rank += text + "\n";
}

// With what was counted since the last line.
void show(const std::string& what) {
    say(what + ": " + std::to_string(copies) + " copied, " + std::to_string(refusals) + " refused, " +
        std::to_string(deletions) + " deleted, " + std::to_string(errors_heard) + " errors" +
        (errors_heard ? ", the last of class " + std::to_string(class_of(last_error)) : ""));
    copies = deletions = refusals = errors_heard = 0;
}

void on_error(MPI_Comm*, int* code, ...) {
    ++errors_heard;
    last_error = *code;
}

template <class Handle>
int copy(Handle, int, void*, void* value, void* copied, int* flag) {
    ++copies;
    memcpy(copied, &value, sizeof value);
    *flag = 1;
    return MPI_SUCCESS;
}

template <class Handle>
int refuse(Handle, int, void*, void*, void*, int*) {
    ++refusals;
    return MPI_ERR_OTHER;
}

template <class Handle>
int deleted(Handle, int, void*, void*) {
    ++deletions;
    return MPI_SUCCESS;
}

struct Keys {
    int type_copied, type_refused, comm_copied, comm_refused;
};

MPI_Datatype type_with(int key) {
    MPI_Datatype type = with_hole(5000, 8);
    MPI_Type_set_name(type, "the program's");
    MPI_Type_set_attr(type, key, nullptr);
    return type;
}

// Calls of every form, in which the type stands where it is packed first and where it is unpacked last.
void exchange(MPI_Comm comm, MPI_Datatype type, MPI_Datatype other) {
    constexpr size_t kStep = 5008;
    std::vector<char> send(kStep * static_cast<size_t>(size)), recv(send), last(send);
    std::vector<int> ones(static_cast<size_t>(size), 1), places;
    std::vector<MPI_Datatype> types;
    for (int r = 0; r < size; ++r) {
        places.push_back(r * static_cast<int>(kStep));
        types.push_back(r % 2 ? type : other);
    }
    for (int r = 0; r < size; ++r) fill(&send[static_cast<size_t>(r) * kStep], 5000, rank, r, 7);
    MPI_Request requests[4];
    MPI_Alltoall(send.data(), 1, type, recv.data(), 1, type, comm);
    MPI_Ialltoall(send.data(), 1, type, recv.data(), 1, type, comm, &requests[0]);
    MPI_Ialltoallw(send.data(), ones.data(), places.data(), types.data(), last.data(), ones.data(),
                   places.data(), types.data(), comm, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int r = 0; r < size; ++r) {
        CHECK(is_filled(&recv[static_cast<size_t>(r) * kStep], 5000, r, rank, 7));
        CHECK(is_filled(&last[static_cast<size_t>(r) * kStep], 5000, r, rank, 7));
    }
    MPI_Request kept;
    INIT(Alltoall)(send.data(), 1, type, recv.data(), 1, type, comm, MPI_INFO_NULL, &kept);
    for (int i = 0; i < 2; ++i) {
        MPI_Start(&kept);
        MPI_Wait(&kept, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&kept);
}

void freed_while_open(MPI_Datatype type) {
    std::vector<char> send(5008 * static_cast<size_t>(size)), recv(send);
    MPI_Request request, kept;
    INIT(Alltoall)(send.data(), 1, type, recv.data(), 1, type, MPI_COMM_WORLD, MPI_INFO_NULL, &kept);
    MPI_Ialltoall(send.data(), 1, type, recv.data(), 1, type, MPI_COMM_WORLD, &request);
    MPI_Type_free(&type);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Start(&kept);
    MPI_Wait(&kept, MPI_STATUS_IGNORE);
    MPI_Request_free(&kept);
    show("a type freed while calls with it were open");
}

void types(const Keys& keys) {
    MPI_Datatype copied = type_with(keys.type_copied), refused = type_with(keys.type_refused);
    MPI_Type_set_attr(refused, keys.type_copied, nullptr);
    exchange(MPI_COMM_WORLD, copied, copied);
    show("calls with a type whose attribute is copied");
    exchange(MPI_COMM_WORLD, refused, copied);
    show("calls with a type whose attribute refuses");
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    MPI_Type_get_name(copied, name, &length);
    say(std::string("the type is called ") + name);
    freed_while_open(refused);
    MPI_Type_free(&copied);
    show("types freed");
}

std::string keys_of(MPI_Info info) {
    if (info == MPI_INFO_NULL) return " none";
    std::string all;
    int count = 0;
    MPI_Info_get_nkeys(info, &count);
    for (int i = 0; i < count; ++i) {
        char key[MPI_MAX_INFO_KEY + 1] = "", value[MPI_MAX_INFO_VAL + 1] = "";
        int found = 0;
        MPI_Info_get_nthkey(info, i, key);
        MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found);
        all += std::string(" ") + key + "=" + value;
    }
    return all;
}

// Name, info, handler and attributes of a communicator.
void describe(const char* what, MPI_Comm comm, MPI_Errhandler own, const Keys& keys) {
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0, copied = 0, refused = 0;
    void* value = nullptr;
    MPI_Comm_get_name(comm, name, &length);
    MPI_Info info = MPI_INFO_NULL;  // Open MPI has none for some communicators
    MPI_Comm_get_info(comm, &info);
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(comm, &handler);
    MPI_Comm_get_attr(comm, keys.comm_copied, &value, &copied);
    MPI_Comm_get_attr(comm, keys.comm_refused, &value, &refused);
    say(std::string(what) + ": name '" + name + "', info" + keys_of(info) + ", " +
        (handler == own ? "the program's handler" : "another handler") + ", attributes " +
        std::to_string(copied) + " " + std::to_string(refused));
    if (info != MPI_INFO_NULL) MPI_Info_free(&info);
    if (handler != MPI_ERRHANDLER_NULL) MPI_Errhandler_free(&handler);
    show(what);
}

void communicators(const Keys& keys, MPI_Errhandler handler) {
    MPI_Comm parent, made;
    MPI_Datatype type = with_hole(5000, 8);
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &parent);
    MPI_Comm_set_name(parent, "parent");
    MPI_Comm_set_errhandler(parent, handler);
    MPI_Comm_set_attr(parent, keys.comm_copied, nullptr);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    exchange(parent, type, type);
    describe("parent", parent, handler, keys);
    const auto seen = [&](const char* what) {
        describe(what, made, handler, keys);
        MPI_Comm_free(&made);
        show(std::string(what) + ", freed");
    };
    MPI_Comm_dup(parent, &made);
    seen("MPI_Comm_dup");
    MPI_Comm_dup_with_info(parent, info, &made);
    seen("MPI_Comm_dup_with_info");
    MPI_Group group;
    MPI_Comm_group(parent, &group);
    // Copies attributes with Open MPI.
    MPI_Comm_create_group(parent, group, 3, &made);
    seen("MPI_Comm_create_group");
    MPI_Comm_set_attr(parent, keys.comm_refused, nullptr);
    MPI_Comm_split(parent, 0, 0, &made);
    seen("MPI_Comm_split");
    MPI_Comm_split_type(parent, MPI_COMM_TYPE_SHARED, 0, info, &made);
    seen("MPI_Comm_split_type");
    MPI_Comm_create(parent, group, &made);
    seen("MPI_Comm_create");
    MPI_Group_free(&group);
    const int periodic[] = {1};
    MPI_Cart_create(parent, 1, &size, periodic, 0, &made);
    seen("MPI_Cart_create");
    exchange(parent, type, type);
    show("calls on a communicator with both attributes");
    // Every rank refuses alike, before any of them has spoken of the new communicator.
    say(MPI_Comm_dup(parent, &made) == MPI_SUCCESS ? "duplicated" : "refused");
    show("MPI_Comm_dup of a communicator whose attribute refuses");
    MPI_Type_free(&type);
    MPI_Info_free(&info);
    MPI_Comm_free(&parent);
    show("parent freed");
}

// Every wrong call is told once, by whose handler it should be.
void wrong_calls(MPI_Errhandler handler) {
    std::vector<int> places(static_cast<size_t>(size), 0), bad(static_cast<size_t>(size), -1), room(1000);
    int *p = places.data(), *b = bad.data(), *r = room.data();
    MPI_Request q = MPI_REQUEST_NULL;
    MPI_Comm own;
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &own);
    MPI_Comm_set_errhandler(own, handler);
    MPI_Alltoall(r, -1, MPI_INT, r + 500, 1, MPI_INT, own);
    show("a negative count");
    MPI_Bcast(r, 1, MPI_DATATYPE_NULL, 0, own);
    show("no type");
    MPI_Bcast(r, 1, MPI_INT, size, own);
    show("a root that is none");
    MPI_Ialltoallv(r, b, p, MPI_INT, r + 500, p, p, MPI_INT, own, &q);
    show("negative counts");
    MPI_Comm_free(&own);
    MPI_Alltoall(r, 1, MPI_INT, r + 500, 1, MPI_INT, MPI_COMM_NULL);
    show("no communicator");
    MPI_Ibcast(r, 1, MPI_INT, 0, MPI_COMM_NULL, &q);
    show("no communicator, nonblocking");
    MPI_Comm_dup(MPI_COMM_NULL, &own);
    show("MPI_Comm_dup of none");
}

// MPI_Finalize frees MPI_COMM_SELF first, when all of MPI still works (MPI 4.0, 11.2.4).
int at_the_end(MPI_Comm, int, void*, void*) {
    MPI_Datatype type = with_hole(5000, 8);
    MPI_Comm made;
    exchange(MPI_COMM_WORLD, type, type);
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &made);
    exchange(made, type, type);
    MPI_Comm_free(&made);
    MPI_Type_free(&type);
    show("calls while MPI_Finalize frees MPI_COMM_SELF");
    return MPI_SUCCESS;
}

}  // namespace

PROGRAM(unnoticed) {
    MPI_Init(&argc, &argv);
    CHECK(argc == 2);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    Keys keys;
    MPI_Type_create_keyval(copy<MPI_Datatype>, deleted<MPI_Datatype>, &keys.type_copied, nullptr);
    MPI_Type_create_keyval(refuse<MPI_Datatype>, deleted<MPI_Datatype>, &keys.type_refused, nullptr);
    MPI_Comm_create_keyval(copy<MPI_Comm>, deleted<MPI_Comm>, &keys.comm_copied, nullptr);
    MPI_Comm_create_keyval(refuse<MPI_Comm>, deleted<MPI_Comm>, &keys.comm_refused, nullptr);
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(on_error, &handler);
    describe("MPI_COMM_WORLD", MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL, keys);
    describe("MPI_COMM_SELF", MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL, keys);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    MPI_Comm_set_attr(MPI_COMM_WORLD, keys.comm_refused, nullptr);
    MPI_Comm_set_attr(MPI_COMM_SELF, keys.comm_copied, nullptr);
    int last_key = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_the_end, &last_key, nullptr);
    MPI_Comm_set_attr(MPI_COMM_SELF, last_key, nullptr);
    types(keys);
    communicators(keys, handler);
    wrong_calls(handler);
    describe("MPI_COMM_WORLD at the end", MPI_COMM_WORLD, handler, keys);
    MPI_Errhandler_free(&handler);
    MPI_Finalize();
    show("MPI_Finalize");
    std::ofstream(argv[1] + std::string("/rank-") + std::to_string(rank)) << seen_by_this_rank;
    return 0;
}
