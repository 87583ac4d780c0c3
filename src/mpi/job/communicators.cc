// Communicators: each one made by a call that all its members are in gets a group at once, agreed by them.
#include <sched.h>

#include <cstring>
#include <memory>
#include <optional>

#include "mpi/entry.h"
#include "mpi/job/exchange.h"
#include "mpi/job/group.h"
#include "mpi/leaving.h"
#include "mpi/statistics/log.h"

namespace longshore::mpi {
namespace {

GroupRecord* first_record = nullptr;  // all of them, for MPI_Finalize
GroupRecord* last_used = nullptr;     // of a communicator that still exists; not with several threads

void link(GroupRecord* record) {
    ContextLock lock;
    record->next = first_record;
    if (first_record) first_record->previous = record;
    first_record = record;
}

void unlink(GroupRecord* record) {
    if (record->previous) record->previous->next = record->next;
    if (record->next) record->next->previous = record->previous;
    if (first_record == record) first_record = record->next;
}

// A duplicate gets a group of its own, so nothing is copied (our own, because the MPIs' constants differ in
// kind).
int do_not_copy(MPI_Comm, int, void*, void*, void*, int* flag) {
    *flag = 0;
    return MPI_SUCCESS;
}

int on_delete(MPI_Comm, int, void* value, void*) {
    auto* record = static_cast<GroupRecord*>(value);
    record->comm = MPI_COMM_NULL;
    if (last_used == record) last_used = nullptr;
    release(record);
    return MPI_SUCCESS;
}

// Groups come from parents that have a record only: then every member is a rank of this job under the shim.
bool may_have_group(MPI_Comm parent) {
    return shim().on && find_group(parent) != nullptr;
}

// The members of a communicator agree on a group of theirs. Where finish() is left, it goes on when it is
// called again.
class GroupAgreement {
  public:
    explicit GroupAgreement(MPI_Comm comm) : exchange_(comm) {
        {
            ContextLock lock;
            rc_ = fails_for_tests("group") ? static_cast<int>(LS_ERR_UNAVAILABLE)
                                           : ls_group_start(shim().context, &exchange_.api, &group_);
        }
        if (rc_ != LS_OK && rc_ != LS_IN_PROGRESS)
            end_job("has no memory for a communicator or persistent request");
    }

    // Null, on all members alike: there is none to be had.
    ls_group* finish() {
        while (!is_agreed_ && (rc_ == LS_OK || rc_ == LS_IN_PROGRESS)) {
            exchange_.drive();
            {
                ContextLock lock;
                rc_ = ls_group_test(group_);
            }
            is_agreed_ = rc_ == LS_OK;
            if (!is_agreed_) sched_yield();  // the supervisor has to answer
        }
        if (is_agreed_) return group_;
        ContextLock lock;
        if (group_) ls_group_free(group_);
        return group_ = nullptr;
    }

  private:
    CommExchange exchange_;
    ls_group* group_ = nullptr;
    int rc_ = LS_OK;
    bool is_agreed_ = false;
};

// Whether any member asks by the info key longshore_offload=false that MPI serves `comm`. Members may differ
// by mistake, and none may take another way than the others: so they ask each other. Collective over `comm`.
class OptOut {
  public:
    OptOut(MPI_Comm comm, MPI_Info info) : comm_(comm) {
        char value[8] = "";
        int found = 0;
        if (info != MPI_INFO_NULL) PMPI_Info_get(info, "longshore_offload", sizeof value - 1, value, &found);
        mine_ =
            found && (strcmp(value, "false") == 0 || strcmp(value, "off") == 0 || strcmp(value, "0") == 0);
    }

    // Where it is left, it goes on when it is called again.
    bool finish() {
        int rc = MPI_SUCCESS;
        if (!is_begun_) {
            is_begun_ = true;
            rc = PMPI_Iallreduce(&mine_, &any_, 1, MPI_INT, MPI_MAX, comm_, &request_);
        }
        if (rc == MPI_SUCCESS) rc = PMPI_Wait(&request_, MPI_STATUS_IGNORE);
        if (rc != MPI_SUCCESS) end_job("cannot agree on the info of a communicator");
        return any_ != 0;
    }

  private:
    MPI_Comm comm_;
    MPI_Request request_ = MPI_REQUEST_NULL;
    bool is_begun_ = false;
    int mine_ = 0, any_ = 0;
};

// Hangs a record on a new communicator. All of it or nothing: its members go on to the same end, even if an
// exception passes on one of them.
void make_record(MPI_Comm comm, OptOut* opt_out) {
    const Uncancelled uncancelled;
    int inter = 0;
    if (PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter) return;
    std::optional<GroupAgreement> agreement;
    run_to_the_end([&] {
        const bool opted_out = opt_out && opt_out->finish();
        auto record = std::make_unique<GroupRecord>();
        record->comm = comm;
        PMPI_Comm_rank(comm, &record->rank);
        PMPI_Comm_size(comm, &record->size);
        if (record->size == 1) {
            record->reason = Reason::kOneRank;
        } else if (opted_out) {
            record->reason = Reason::kOptedOut;
        } else {
            if (!agreement) agreement.emplace(comm);
            record->group = agreement->finish();
            if (!record->group) record->reason = Reason::kNoGroup;
        }
        if (record->group) ls_group_shape(record->group, &record->nodes, &record->ranks_per_node);
        GroupRecord* const linked = record.release();
        link(linked);
        log_group(*linked);
        // Without its mark this rank alone would take the MPI's way.
        if (PMPI_Comm_set_attr(comm, shim().keyval, linked) != MPI_SUCCESS)
            end_job("cannot mark a communicator");
    });
}

// A new communicator has its parent's error handler. What this library does on it before the program has it
// is not for that handler.
class QuietErrors {
  public:
    explicit QuietErrors(MPI_Comm comm) : comm_(comm) {
        if (PMPI_Comm_get_errhandler(comm_, &handler_) == MPI_SUCCESS)
            PMPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    }
    ~QuietErrors() {
        if (handler_ == MPI_ERRHANDLER_NULL) return;
        PMPI_Comm_set_errhandler(comm_, handler_);
        PMPI_Errhandler_free(&handler_);
    }
    QuietErrors(const QuietErrors&) = delete;
    QuietErrors& operator=(const QuietErrors&) = delete;

  private:
    MPI_Comm comm_;
    MPI_Errhandler handler_ = MPI_ERRHANDLER_NULL;
};

// For calls that take hints.
int made_with(MPI_Info info, int rc, MPI_Comm parent, const MPI_Comm* comm) {
    if (rc != MPI_SUCCESS || !may_have_group(parent) || *comm == MPI_COMM_NULL) return rc;
    const QuietErrors quiet(*comm);
    OptOut opt_out(*comm, info);
    make_record(*comm, &opt_out);
    return rc;
}

int made(int rc, MPI_Comm parent, const MPI_Comm* comm) {
    if (rc == MPI_SUCCESS && may_have_group(parent) && *comm != MPI_COMM_NULL) {
        const QuietErrors quiet(*comm);
        make_group(*comm);
    }
    return rc;
}

}  // namespace

GroupRecord* find_group(MPI_Comm comm) {
    if (last_used && last_used->comm == comm) return last_used;
    void* value = nullptr;
    int found = 0;
    if (comm == MPI_COMM_NULL || PMPI_Comm_get_attr(comm, shim().keyval, &value, &found) != MPI_SUCCESS ||
        !found)
        return nullptr;
    auto* record = static_cast<GroupRecord*>(value);
    if (!shim().multiple) last_used = record;
    return record;
}

void give_lane(GroupRecord* record, ls_group** lane) {
    GroupAgreement agreement(record->comm);
    run_to_the_end([&] {
        *lane = agreement.finish();
        if (!*lane) return;
        ContextLock lock;
        record->lanes.push_back(*lane);
    });
}

void make_group(MPI_Comm comm) {
    make_record(comm, nullptr);
}

void retain(GroupRecord* record) {
    ++record->references;
}

void release(GroupRecord* record) {
    ContextLock lock;
    if (--record->references > 0) return;
    unlink(record);
    if (record->group) ls_group_free(record->group);
    delete record;
}

void free_all_groups() {
    ContextLock lock;
    for (GroupRecord* record = first_record; record; record = record->next) {
        if (record->group) ls_group_free(record->group);
        for (ls_group* lane : record->lanes) ls_group_free(lane);
        record->lanes.clear();
        record->group = nullptr;
        record->reason = Reason::kOff;
    }
}

int create_group_keyval(int* keyval) {
    return PMPI_Comm_create_keyval(do_not_copy, on_delete, keyval, nullptr);
}

namespace entry {

int comm_dup(MPI_Comm comm, MPI_Comm* newcomm) {
    if (!shim().on) return PMPI_Comm_dup(comm, newcomm);
    return made(PMPI_Comm_dup(comm, newcomm), comm, newcomm);
}

int comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm) {
    if (!shim().on) return PMPI_Comm_dup_with_info(comm, info, newcomm);
    return made_with(info, PMPI_Comm_dup_with_info(comm, info, newcomm), comm, newcomm);
}

int comm_split(MPI_Comm comm, int color, int key, MPI_Comm* newcomm) {
    if (!shim().on) return PMPI_Comm_split(comm, color, key, newcomm);
    return made(PMPI_Comm_split(comm, color, key, newcomm), comm, newcomm);
}

int comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* newcomm) {
    if (!shim().on) return PMPI_Comm_split_type(comm, type, key, info, newcomm);
    return made_with(info, PMPI_Comm_split_type(comm, type, key, info, newcomm), comm, newcomm);
}

int comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm* newcomm) {
    if (!shim().on) return PMPI_Comm_create(comm, group, newcomm);
    return made(PMPI_Comm_create(comm, group, newcomm), comm, newcomm);
}

int comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* newcomm) {
    if (!shim().on) return PMPI_Comm_create_group(comm, group, tag, newcomm);
    return made(PMPI_Comm_create_group(comm, group, tag, newcomm), comm, newcomm);
}

int cart_create(MPI_Comm comm, int ndims, const int dims[], const int periods[], int reorder,
                MPI_Comm* newcomm) {
    if (!shim().on) return PMPI_Cart_create(comm, ndims, dims, periods, reorder, newcomm);
    return made(PMPI_Cart_create(comm, ndims, dims, periods, reorder, newcomm), comm, newcomm);
}

int cart_sub(MPI_Comm comm, const int remain[], MPI_Comm* newcomm) {
    if (!shim().on) return PMPI_Cart_sub(comm, remain, newcomm);
    return made(PMPI_Cart_sub(comm, remain, newcomm), comm, newcomm);
}

int graph_create(MPI_Comm comm, int nnodes, const int index[], const int edges[], int reorder,
                 MPI_Comm* newcomm) {
    if (!shim().on) return PMPI_Graph_create(comm, nnodes, index, edges, reorder, newcomm);
    return made(PMPI_Graph_create(comm, nnodes, index, edges, reorder, newcomm), comm, newcomm);
}

int dist_graph_create(MPI_Comm comm, int n, const int sources[], const int degrees[],
                      const int destinations[], const int weights[], MPI_Info info, int reorder,
                      MPI_Comm* newcomm) {
    if (!shim().on)
        return PMPI_Dist_graph_create(comm, n, sources, degrees, destinations, weights, info, reorder,
                                      newcomm);
    return made(
        PMPI_Dist_graph_create(comm, n, sources, degrees, destinations, weights, info, reorder, newcomm),
        comm, newcomm);
}

int dist_graph_create_adjacent(MPI_Comm comm, int indegree, const int sources[], const int sourceweights[],
                               int outdegree, const int destinations[], const int destweights[],
                               MPI_Info info, int reorder, MPI_Comm* newcomm) {
    if (!shim().on)
        return PMPI_Dist_graph_create_adjacent(comm, indegree, sources, sourceweights, outdegree,
                                               destinations, destweights, info, reorder, newcomm);
    return made(PMPI_Dist_graph_create_adjacent(comm, indegree, sources, sourceweights, outdegree,
                                                destinations, destweights, info, reorder, newcomm),
                comm, newcomm);
}

}  // namespace entry
}  // namespace longshore::mpi
