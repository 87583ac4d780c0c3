// One collective call handed to Longshore: what its rank must still do when it completes, and the MPI request
// that stands for it. Open nonblocking ones are on a list that every interposed wait and test works on.
#pragma once

#include <vector>

#include "mpi/datatype.h"
#include "mpi/group.h"
#include "mpi/shim.h"

namespace longshore::mpi {

// Packed blocks, from the context's fast memory or else malloc.
struct Staging {
    std::byte* memory = nullptr;
    size_t bytes = 0;
    bool from_context = false;

    bool allocate(size_t wanted);
    void free();
};

struct Operation {
    ls_operation* host = nullptr;
    GroupRecord* group = nullptr;
    Call call{};
    uint64_t bytes = 0;  // that arrive at this rank, its own block included
    bool open = false;   // on the list of open operations
    int error = MPI_SUCCESS;
    MPI_Request request = MPI_REQUEST_NULL;
    bool reported = false;  // said who is missing

    // Why this rank could not stage its data. It takes part all the same, with blocks that fit nobody's: left
    // to MPI alone, it would keep its peers waiting.
    int lost = MPI_SUCCESS;

    Staging send, recv;
    // recv staged: unpack_count elements at unpack_to, or one run per rank at its displacement.
    bool unpack = false, own_type = false;
    Layout layout;
    void* unpack_to = nullptr;
    uint64_t unpack_count = 0;
    std::vector<int> unpack_counts, unpack_displacements;

    ls_arguments arguments{};
};

// Recycled; references its group. Give it to run_blocking or start_request, or drop it.
Operation* new_operation(GroupRecord* group, Call call);
void drop(Operation* operation);

// Both take `operation`. The return value is MPI's, already through the communicator's error handler.
int run_blocking(Operation* operation);
int start_request(Operation* operation, MPI_Request* request);

// Whether any operation is open: the only thing that a wait looks at when there is none.
bool any_open();
// Whether the program holds any request of ours, open or complete.
bool any_request();
// The operation behind a request, open or complete, or null if the request is not ours.
Operation* find_operation(MPI_Request request);

struct Progress {
    bool moved = false;      // some operation got something done: ask again soon
    bool completed = false;  // some request has become complete
};
// Works on every open operation once, at most a chunk each.
Progress progress_open();

// At MPI_Finalize: waits for what is open, at most `limit_s`. False if something stays open.
bool finish_open(uint32_t limit_s);

int error_of(int ls_error);
int raise_error(GroupRecord* group, int error);

}  // namespace longshore::mpi
