/* A profiling tool as many are: it counts and times the MPI_ calls of a program, calls PMPI_ for each, and
 * says at MPI_Finalize how many all ranks made, and how long they took. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

enum { kCallsMax = 64 };
static const char* names[kCallsMax];
static struct { double calls, seconds; } counts[kCallsMax];
static int calls;

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int register_call(const char* name) {
    names[calls] = name;
    return calls++;
}

/* The functions register themselves at start, in the order of this file, so that all ranks have the same
 * order. */
#define COUNTED(name, parameters, arguments)                         \
    static int place_##name;                                         \
    __attribute__((constructor)) static void register_##name(void) { \
        place_##name = register_call(#name);                         \
    }                                                                \
    int MPI_##name parameters {                                      \
        const double begin = now_s();                                \
        const int code = PMPI_##name arguments;                      \
        ++counts[place_##name].calls;                                \
        counts[place_##name].seconds += now_s() - begin;             \
        return code;                                                 \
    }

COUNTED(Init, (int* argc, char*** argv), (argc, argv))
COUNTED(Init_thread, (int* argc, char*** argv, int wanted, int* given), (argc, argv, wanted, given))
COUNTED(Comm_dup, (MPI_Comm comm, MPI_Comm* made), (comm, made))
COUNTED(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm* made), (comm, color, key, made))
COUNTED(Barrier, (MPI_Comm comm), (comm))
COUNTED(Allreduce, (const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
        (from, to, count, type, op, comm))
COUNTED(Wait, (MPI_Request * request, MPI_Status* status), (request, status))
COUNTED(Waitall, (int count, MPI_Request* requests, MPI_Status* statuses), (count, requests, statuses))

#define UNIFORM                                                                           \
    const void *send, int send_count, MPI_Datatype send_type, void *recv, int recv_count, \
        MPI_Datatype recv_type
#define UNIFORM_NAMES send, send_count, send_type, recv, recv_count, recv_type
COUNTED(Alltoall, (UNIFORM, MPI_Comm comm), (UNIFORM_NAMES, comm))
COUNTED(Ialltoall, (UNIFORM, MPI_Comm comm, MPI_Request* request), (UNIFORM_NAMES, comm, request))
COUNTED(Allgather, (UNIFORM, MPI_Comm comm), (UNIFORM_NAMES, comm))
COUNTED(Iallgather, (UNIFORM, MPI_Comm comm, MPI_Request* request), (UNIFORM_NAMES, comm, request))
COUNTED(Gather, (UNIFORM, int root, MPI_Comm comm), (UNIFORM_NAMES, root, comm))
COUNTED(Igather, (UNIFORM, int root, MPI_Comm comm, MPI_Request* request),
        (UNIFORM_NAMES, root, comm, request))
COUNTED(Scatter, (UNIFORM, int root, MPI_Comm comm), (UNIFORM_NAMES, root, comm))
COUNTED(Iscatter, (UNIFORM, int root, MPI_Comm comm, MPI_Request* request),
        (UNIFORM_NAMES, root, comm, request))

#define BUFFER void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm
COUNTED(Bcast, (BUFFER), (buffer, count, type, root, comm))
COUNTED(Ibcast, (BUFFER, MPI_Request* request), (buffer, count, type, root, comm, request))

#define PAIRS                                                                                             \
    const void *send, const int *send_counts, const int *send_places, MPI_Datatype send_type, void *recv, \
        const int *recv_counts, const int *recv_places, MPI_Datatype recv_type, MPI_Comm comm
#define PAIRS_NAMES send, send_counts, send_places, send_type, recv, recv_counts, recv_places, recv_type, comm
COUNTED(Alltoallv, (PAIRS), (PAIRS_NAMES))
COUNTED(Ialltoallv, (PAIRS, MPI_Request* request), (PAIRS_NAMES, request))

#define COLLECTED                                                                                 \
    const void *send, int send_count, MPI_Datatype send_type, void *recv, const int *recv_counts, \
        const int *recv_places, MPI_Datatype recv_type
#define COLLECTED_NAMES send, send_count, send_type, recv, recv_counts, recv_places, recv_type
COUNTED(Allgatherv, (COLLECTED, MPI_Comm comm), (COLLECTED_NAMES, comm))
COUNTED(Iallgatherv, (COLLECTED, MPI_Comm comm, MPI_Request* request), (COLLECTED_NAMES, comm, request))
COUNTED(Gatherv, (COLLECTED, int root, MPI_Comm comm), (COLLECTED_NAMES, root, comm))
COUNTED(Igatherv, (COLLECTED, int root, MPI_Comm comm, MPI_Request* request),
        (COLLECTED_NAMES, root, comm, request))

#define SHARED_OUT                                                                                        \
    const void *send, const int *send_counts, const int *send_places, MPI_Datatype send_type, void *recv, \
        int recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm
#define SHARED_OUT_NAMES send, send_counts, send_places, send_type, recv, recv_count, recv_type, root, comm
COUNTED(Scatterv, (SHARED_OUT), (SHARED_OUT_NAMES))
COUNTED(Iscatterv, (SHARED_OUT, MPI_Request* request), (SHARED_OUT_NAMES, request))

int MPI_Finalize(void) {
    double sums[kCallsMax][2];
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Reduce(counts, sums, 2 * calls, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < calls; ++i)
        if (sums[i][0] > 0)
            printf("tool: MPI_%s %.0f\ntool took: MPI_%s %.9f s\n", names[i], sums[i][0], names[i],
                   sums[i][1]);
    return PMPI_Finalize();
}
