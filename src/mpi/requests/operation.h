// One collective call handed to Longshore: what its rank must still do when it completes, and the MPI request
// that stands for it. Open nonblocking ones are on a list that every interposed wait and test works on.
#pragma once

#include <atomic>
#include <vector>

#include "mpi/data/elements.h"
#include "mpi/job/group.h"
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

// Counts and displacements in bytes, for the host library.
struct ByteVector {
    std::vector<int64_t> counts, displacements;

    void clear() {
        counts.clear();
        displacements.clear();
    }
    ls_vector vector() const { return {counts.data(), displacements.data(), 1, 1}; }
};

struct Operation {
    ls_operation* host = nullptr;
    GroupRecord* group = nullptr;
    Call call{};
    CommIndex comm = CommIndex::kNone;  // with statistics: for which communicator it counts
    uint64_t bytes = 0;                 // that arrive at this rank, its own block included
    uint64_t table_bytes = 0;           // as the table of rules counts them; 0 where it does not
    bool open = false;                  // on the list of open operations; threads look at it with is_open()
    int error = MPI_SUCCESS;
    MPI_Request request = MPI_REQUEST_NULL;
    bool reported = false;  // said who is missing

    // Why this rank could not stage its data. It takes part all the same, with blocks that fit nobody's: left
    // to MPI alone, it would keep its peers waiting.
    int lost = MPI_SUCCESS;
    bool given_up = false;  // the arguments say so

    Staging send, recv;
    std::vector<Piece> packed_first;   // before it starts, into `send` or, if it is in place, `recv`
    std::vector<Piece> unpacked_last;  // when it is complete, from `recv`
    std::vector<MPI_Datatype> own_types;

    ls_arguments arguments{};
    ByteVector send_bytes, recv_bytes;  // what the vectors of the arguments point to, if not to the program's

    // Of a persistent request: its group, in which only it is started; the tag of its messages. `active`:
    // started, and the program has not been given its result.
    ls_group* lane = nullptr;
    int tag = 0;
    bool active = false;

    // With statistics, of one that is not blocking (at_once.h): when it started, and as which of the rank's;
    // whether no other was open then; when the program waited for it first, 0: not yet.
    uint64_t logged_ns = 0;  // when it was handed over, as the log has it
    uint64_t started_ns = 0, nth = 0;
    bool alone = false;
    std::atomic<uint64_t> waited_ns = 0, first_wait_ns = 0;

    bool is_persistent() const { return call.form == Form::kPersistent; }
    void reset();  // as new, with the memory of its vectors
};

inline bool is_open(Operation& operation) {
    return std::atomic_ref<bool>(operation.open).load(std::memory_order_acquire);
}

// Recycled; references its group. Give it to run_blocking, start_request or make_persistent.
Operation* new_operation(GroupRecord* group, Call call);

// Both take `operation`. The return value is MPI's, already through the communicator's error handler.
int run_blocking(Operation* operation);
int start_request(Operation* operation, MPI_Request* request);

// The parts of these, for other kinds of requests (persistent.h).
// Hands it to the host library: LS_OK or an error, of which nobody has been told.
int start(Operation* operation);
void add_open(Operation* operation);
void add_request(Operation* operation);
void remove_request(Operation* operation);
// The program may free its types: from now on they are our own.
void hold_types(Operation* operation, std::vector<Piece>* pieces);
// Gives back all that it has, and itself. It is not with the host library.
void drop(Operation* operation);

// A generalized request that is completed elsewhere, as those of operations are: so that waits which this
// library does not see look at what is open, too. While it is open it counts as an operation.
int start_generalized(MPI_Grequest_query_function* query, MPI_Grequest_free_function* free,
                      MPI_Grequest_cancel_function* cancel, void* extra, MPI_Request* request);
void count_open(int change);

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
int raise_error(Call call, GroupRecord* group, int error);

}  // namespace longshore::mpi
