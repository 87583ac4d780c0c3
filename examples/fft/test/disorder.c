// Preloaded by a test: an MPI that finishes exchanges in another order on each rank. MPI_Waitany and
// MPI_Testany look at the requests in a random order, by DISORDER_SEED and the rank; MPI_Testany does not
// look at all every other time. DISORDER_PROMPT: every exchange is complete when it is started. At the end
// rank 0 says how many exchanges it posted in which way: see MPI_Finalize.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRequestsMax = 64, kCallsMax = 4096 };
static unsigned random_;
static MPI_Comm calls_of_[kCallsMax];  // the communicators of MPI_Ialltoallv, in the order of the calls
static int calls_;

static unsigned next_random(void) {
    if (random_ == 0) {
        int rank = 0;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        const char* seed = getenv("DISORDER_SEED");
        random_ = (seed ? (unsigned)atoi(seed) : 1u) * 7919u + (unsigned)rank * 104729u + 1u;
    }
    random_ = random_ * 1664525u + 1013904223u;
    return random_ >> 16;
}

static int is_prompt(void) {
    return getenv("DISORDER_PROMPT") != NULL;
}

// Finishes one of the completed requests, if there is one.
static int finish_one(int count, MPI_Request requests[], int* index, int* open, MPI_Status* status) {
    if (count > kRequestsMax) abort();
    const int first = count > 0 ? (int)(next_random() % (unsigned)count) : 0;
    *index = MPI_UNDEFINED;
    *open = 0;
    for (int i = 0; i < count; ++i) {
        const int at = (first + i) % count;
        int completed = 0;
        if (requests[at] == MPI_REQUEST_NULL) continue;
        ++*open;
        PMPI_Request_get_status(requests[at], &completed, MPI_STATUS_IGNORE);
        if (!completed) continue;
        *index = at;
        return PMPI_Wait(&requests[at], status);
    }
    return MPI_SUCCESS;
}

int MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
    int open = 0, rc;
    do rc = finish_one(count, requests, index, &open, status);
    while (*index == MPI_UNDEFINED && open > 0);
    return rc;
}

int MPI_Testany(int count, MPI_Request requests[], int* index, int* completed, MPI_Status* status) {
    int open = 0;
    *index = MPI_UNDEFINED;
    *completed = 0;
    if (!is_prompt() && next_random() % 2) return MPI_SUCCESS;
    const int rc = finish_one(count, requests, index, &open, status);
    *completed = *index != MPI_UNDEFINED || open == 0;
    return rc;
}

// Prompt: what it gives back is complete.
int MPI_Ialltoallv(const void* send, const int send_counts[], const int send_places[], MPI_Datatype send_type,
                   void* receive, const int receive_counts[], const int receive_places[],
                   MPI_Datatype receive_type, MPI_Comm comm, MPI_Request* request) {
    if (calls_ < kCallsMax) calls_of_[calls_++] = comm;
    if (!is_prompt())
        return PMPI_Ialltoallv(send, send_counts, send_places, send_type, receive, receive_counts,
                               receive_places, receive_type, comm, request);
    PMPI_Alltoallv(send, send_counts, send_places, send_type, receive, receive_counts, receive_places,
                   receive_type, comm);
    return PMPI_Ibarrier(MPI_COMM_SELF, request);
}

// "early" are second exchanges of a variable that are posted before another variable's first, in the same
// transform, whose first call says which communicator is the first's.
int MPI_Finalize(void) {
    int rank = 0, early = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char* variables = getenv("DISORDER_VARIABLES");
    const int calls = variables ? 2 * atoi(variables) : 0;  // of one transform
    for (int begin = 0; calls > 0 && begin + calls <= calls_; begin += calls)
        for (int i = begin + 1; i < begin + calls; ++i)
            early += calls_of_[i] == calls_of_[begin] && calls_of_[i - 1] != calls_of_[begin];
    if (rank == 0) printf("early second exchanges: %d\n", early);
    return PMPI_Finalize();
}
