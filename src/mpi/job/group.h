// What the shim hangs on a communicator, as an MPI attribute: its group, or why it has none.
#pragma once

#include <atomic>
#include <vector>

#include "base/remembered_rule.h"
#include "mpi/shim.h"
#include "mpi/statistics/stats.h"

namespace longshore::mpi {

// Counted: by the communicator (attribute) and by each open operation on it.
struct GroupRecord {
    ls_group* group = nullptr;  // null: never offloaded, for `reason`, equal on all members
    Reason reason = Reason::kNone;
    MPI_Comm comm = MPI_COMM_NULL;  // for its error handler; null once the communicator is gone
    int rank = 0, size = 0;
    uint32_t nodes = 1, ranks_per_node = 1;  // on which it has members; the most members on one
    RememberedRule rules[kSelectionForms][kSelectedCount];  // by form and Selected
    std::atomic<int> references = 1;
    std::vector<ls_group*> lanes;  // one for each persistent request (persistent.h)
    GroupRecord* previous = nullptr;
    GroupRecord* next = nullptr;
};

// The record of `comm`, or null: an intercommunicator, one made in a way we do not see, or none at all.
GroupRecord* find_group(MPI_Comm comm);

// Collective over `comm`, which no member has used yet. Without a group MPI serves it.
void make_group(MPI_Comm comm);

// A lane of the record's communicator, collective over it; null, on all of its members alike: there is none
// to be had. Set even where an exception passes.
void give_lane(GroupRecord* record, ls_group** lane);

void retain(GroupRecord* record);
void release(GroupRecord* record);

// At MPI_Finalize: frees the groups of communicators that the program did not free.
void free_all_groups();

int create_group_keyval(int* keyval);

}  // namespace longshore::mpi
