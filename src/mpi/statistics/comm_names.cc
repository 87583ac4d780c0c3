#include "mpi/statistics/comm_names.h"

#include <cstring>

#include "mpi/entry.h"
#include "mpi/statistics/stats.h"

namespace longshore::mpi {
namespace {

// The attribute of a communicator: 1 + its index, as a pointer's value.
int names_keyval = MPI_KEYVAL_INVALID;
std::mutex names_mutex;
// The last that was asked for; not with several threads.
MPI_Comm last_comm = MPI_COMM_NULL;
CommIndex last_index = CommIndex::kNone;

// A duplicate has no name yet (a function of our own, because the MPIs' constants differ in kind).
int copy_no_name(MPI_Comm, int, void*, void*, void*, int* flag) {
    *flag = 0;
    return MPI_SUCCESS;
}

// The handle may be another communicator's next.
int on_name_delete(MPI_Comm, int, void*, void*) {
    last_comm = MPI_COMM_NULL;
    return MPI_SUCCESS;
}

// A place in the figures for that name and size. With names_mutex.
CommIndex place_of(const char* name, int ranks) {
    Figures& f = figures();
    char short_name[kCommNameBytes];
    set_comm_name(short_name, name);
    const uint64_t count = f.comm_count.load(std::memory_order_relaxed);
    for (uint64_t i = 0; i < count; ++i)
        if (strcmp(f.comms[i].name, short_name) == 0 && f.comms[i].ranks == static_cast<uint32_t>(ranks))
            return static_cast<CommIndex>(i);
    if (count == kCommsMax) return static_cast<CommIndex>(kCommsMax - 1);
    const bool is_last = count == kCommsMax - 1;
    strcpy(f.comms[count].name, is_last ? "(others)" : short_name);
    f.comms[count].ranks = is_last ? 0 : static_cast<uint32_t>(ranks);
    f.comm_count.store(count + 1, std::memory_order_release);
    return static_cast<CommIndex>(count);
}

CommIndex find_or_make(MPI_Comm comm) {
    const std::lock_guard lock(names_mutex);
    if (names_keyval == MPI_KEYVAL_INVALID &&
        PMPI_Comm_create_keyval(copy_no_name, on_name_delete, &names_keyval, nullptr) != MPI_SUCCESS)
        return CommIndex::kNone;
    void* value = nullptr;
    int found = 0;
    if (PMPI_Comm_get_attr(comm, names_keyval, &value, &found) != MPI_SUCCESS) return CommIndex::kNone;
    if (found) return static_cast<CommIndex>(reinterpret_cast<uintptr_t>(value) - 1);
    char name[MPI_MAX_OBJECT_NAME + 1] = "";
    int length = 0, ranks = 0;
    if (PMPI_Comm_get_name(comm, name, &length) != MPI_SUCCESS || PMPI_Comm_size(comm, &ranks) != MPI_SUCCESS)
        return CommIndex::kNone;
    const CommIndex index = place_of(name, ranks);
    PMPI_Comm_set_attr(comm, names_keyval, reinterpret_cast<void*>(static_cast<uintptr_t>(index) + 1));
    return index;
}

}  // namespace

CommIndex comm_index(MPI_Comm comm) {
    if (!stats_wanted() || comm == MPI_COMM_NULL) return CommIndex::kNone;
    if (last_comm == comm && !shim().multiple) return last_index;
    const CommIndex index = find_or_make(comm);
    if (shim().multiple) return index;
    last_index = index;
    last_comm = comm;
    return index;
}

void forget_comm_name(MPI_Comm comm) {
    const std::lock_guard lock(names_mutex);
    void* value = nullptr;
    int found = 0;
    if (names_keyval == MPI_KEYVAL_INVALID ||
        PMPI_Comm_get_attr(comm, names_keyval, &value, &found) != MPI_SUCCESS || !found)
        return;
    PMPI_Comm_delete_attr(comm, names_keyval);
}

namespace entry {

int comm_set_name(MPI_Comm comm, const char* name) {
    const int rc = PMPI_Comm_set_name(comm, name);
    if (rc == MPI_SUCCESS && stats_wanted()) forget_comm_name(comm);
    return rc;
}

}  // namespace entry
}  // namespace longshore::mpi
