/* What a program may ask of Longshore while it runs under it. Optional: an unmodified program needs none of it.
 *
 * The preloaded library exports these symbols; look them up with dlsym(RTLD_DEFAULT, ...) so that the program also
 * starts without it. They may be called between MPI_Init and MPI_Finalize, from the thread that calls MPI. */
#ifndef LONGSHORE_H
#define LONGSHORE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counters of the calling rank since MPI_Init. Bytes are those of blocks that this rank received, by who moved them;
 * the self block counts in neither. */
typedef struct longshore_counters {
    uint64_t offloaded;        /* collective calls handed to Longshore */
    uint64_t host;             /* collective calls of the families left to MPI */
    uint64_t bytes_by_service; /* moved by service processes */
    uint64_t bytes_by_rank;    /* moved by ranks while they waited */
} longshore_counters;

/* Fills *out. Returns 0, or -1 when offload is off for this job (then *out is all zero). */
int longshore_get_counters(longshore_counters* out);

/* Changes one setting of the calling rank while the job runs. Settings that may change:
 *   "cooperative"          "on" | "off"           whether a waiting rank moves blocks itself
 *   "breakdown"            "on" | "off"           whether longshore_get_times has something to tell; on all ranks of
 *                                                 the job, which is to have one node, while none of their
 *                                                 operations is open
 *   "COLLECTIVE_algorithm" "mpi" | "direct" | ... forces one algorithm as LONGSHORE_COLLECTIVE_ALGORITHM does, for the
 *                                                 calls from now on; "" takes it back. The collective in lower case:
 *                                                 "bcast_algorithm". Every rank must say the same between the same
 *                                                 two calls.
 * Returns 0, or -1 for an unknown name or value, or when offload is off for this job. */
int longshore_set(const char* name, const char* value);

/* When the blocks of one operation of the calling rank moved: CLOCK_MONOTONIC in ns, 0 where nothing did, or not between
 * ranks of one node. */
typedef struct longshore_times {
    uint64_t published_ns;  /* the other ranks could see the operation */
    uint64_t first_copy_ns; /* the first chunk to or from this rank began to move */
    uint64_t landed_ns;     /* the last chunk to this rank had moved */
    uint64_t read_ns;       /* the last chunk from this rank to another had moved */
    uint64_t copies_by_ranks_ns, copies_by_services_ns; /* how long the chunks to this rank took, added up */
} longshore_times;

/* Fills *out for the operation that was last found complete since "breakdown" was switched on. Returns 0, or -1 when
 * offload is off for this job (then *out is all zero). */
int longshore_get_times(longshore_times* out);

#ifdef __cplusplus
}
#endif
#endif
