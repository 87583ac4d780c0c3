/* Tasks: a program hands computing to processes at its side. Link liblongshore_task.a (and -ldl where the C library is older
 * than glibc 2.34). Under `longshore run`, between MPI_Init and MPI_Finalize, tasks run in *task processes* that the node's
 * supervisor starts and watches; everywhere else the same plug-in runs inside longshore_submit. No MPI in this header;
 * longshore_mpi.h makes an MPI_Request of a task.
 *
 *     longshore_pool* pool;
 *     longshore_open_pool("pennant", &pool);
 *     longshore_buffer buffers[] = {{x, n * sizeof *x, LONGSHORE_IN}, {y, n * sizeof *y, LONGSHORE_OUT}};
 *     longshore_task* task;
 *     longshore_submit(pool, "corrector", &arguments, sizeof arguments, buffers, 2, &task);
 *     ... compute something else ...
 *     longshore_wait(&task);
 *     longshore_close_pool(&pool);
 *
 * From submit until wait (or a test that says done) buffers are the task's, as those of a nonblocking MPI call are MPI's: the
 * program must not write to IN buffers, nor touch OUT and INOUT ones. Two open tasks may share a buffer only if both have it as
 * IN, or if they are of the same pool and rank and the pool has at most one process per rank (then they run in the order of
 * submission). Large blocks of malloc (from 64 KiB on) are mapped by the task process, and nothing is copied; others (small blocks,
 * the stack, static data) are copied there and back. A function must write all of an OUT buffer: where task processes run on another
 * node (LONGSHORE_TASK_NODE) it begins as zeros. A buffer of which parts are written is INOUT.
 *
 * Threads: as MPI allows for the job; with less than MPI_THREAD_MULTIPLE from the thread that calls MPI. A forked child has no pools. */
#ifndef LONGSHORE_TASK_H
#define LONGSHORE_TASK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct longshore_pool longshore_pool;
typedef struct longshore_task longshore_task;

typedef enum longshore_access {
    LONGSHORE_IN = 1,
    LONGSHORE_OUT = 2,
    LONGSHORE_INOUT = 3,
    LONGSHORE_KEPT = 4 /* a kept buffer or a part of one (longshore_keep): the function reads the copy, and must not write to it */
} longshore_access;
typedef struct longshore_buffer {
    void* data;
    size_t bytes; /* may be 0 */
    longshore_access access;
} longshore_buffer;

/* Every function returns 0 or an error. A positive one is a task's own, as its function returned it; negative ones are: */
enum {
    LONGSHORE_ERR_PLUGIN = -1,   /* the plug-in is not found, is not one, or is of another version */
    LONGSHORE_ERR_FUNCTION = -2, /* it has no function of that name */
    LONGSHORE_ERR_ARGUMENT = -3, /* a null pointer, a task that is over, too many or too large arguments */
    LONGSHORE_ERR_FULL = -4,     /* LONGSHORE_TASKS_MAX tasks of this pool are open: wait for one */
    LONGSHORE_ERR_LOST = -5,     /* the task process ended while it ran the task, or before it could */
    LONGSHORE_ERR_MEMORY = -6,   /* a buffer cannot be read or written, or there is no memory for it */
    LONGSHORE_ERR_THROWN = -7,   /* the function threw an exception */
    LONGSHORE_ERR_NO_PROCESS = -8 /* no task process could be had */
};
/* One line about the calling thread's last error, which names the plug-in and function; valid until its next call. */
const char* longshore_task_error(void);

enum {
    LONGSHORE_TASKS_MAX = 64,             /* open at once for a rank and task process */
    LONGSHORE_ARGUMENTS_BYTES_MAX = 4096, /* of a task */
    LONGSHORE_BUFFERS_MAX = 32,           /* of a task */
    LONGSHORE_KEPT_MAX = 256              /* of a pool */
};

/* Local to the rank; ranks may open different pools, or none. `plugin`: a file name with a slash in it, or a name: NAME.so is
 * then looked for in the folders of LONGSHORE_TASK_PATH, beside the program, and where the system looks for libraries. A pool has
 * LONGSHORE_TASK_PROCESSES processes on each node (as many as the node has ranks, unless set), which all ranks that open the same
 * plug-in share; LONGSHORE_TASK_CORES says where they run. */
int longshore_open_pool(const char* plugin, longshore_pool** pool);
/* Waits until the pool's tasks are over, throws away their results and sets *pool to null. The plug-in's close has run when
 * it returns. */
int longshore_close_pool(longshore_pool** pool);

/* Copies `arguments`, `buffers` and the name, and returns at once (inline: when the function has run). Arguments should hold no
 * addresses, which differ in the task process: name a place as (number of the buffer, offset). A rank's tasks begin in the order
 * of submission; in one process they run one after another. */
int longshore_submit(longshore_pool* pool, const char* function, const void* arguments, size_t arguments_bytes,
                     const longshore_buffer* buffers, int buffers_count, longshore_task** task);
/* *done: whether it is over; then its result is returned and *task set to null. */
int longshore_test(longshore_task** task, int* done);
/* Its result; sets *task to null. While it waits, MPI and collectives make progress. */
int longshore_wait(longshore_task** task);

/* Kept buffers: given once, changed in parts, read by any number of tasks. The task processes have copies. A task that has
 * longshore_buffer {data, bytes, LONGSHORE_KEPT}, all of the buffer or a part, reads what was kept and changed before it was
 * submitted, so the program may write to its own memory meanwhile.
 *
 * longshore_keep copies bytes of data to all processes of the pool, longshore_change a part of a kept buffer that has changed. Both
 * submit a task that has the bytes as IN: wait for it before you write to them. Tasks behind it see them without a wait. Kept
 * buffers may not overlap; to keep the same one again replaces the copy. A task process that is lost loses its copies: tasks
 * that read them fail with LONGSHORE_ERR_LOST until the buffer is kept again. longshore_forget frees the copies, when the tasks
 * before it are over; longshore_close_pool does for all.
 * Inline there are no copies, and tasks read the program's memory: change what you write to before the next task that reads it. */
int longshore_keep(longshore_pool* pool, const void* data, size_t bytes, longshore_task** task);
int longshore_change(longshore_pool* pool, const void* data, size_t bytes, longshore_task** task);
int longshore_forget(longshore_pool* pool, const void* data);

typedef struct longshore_pool_counters {
    uint64_t tasks;        /* that are over, those of longshore_keep, _change and _forget among them */
    uint64_t bytes_mapped; /* of their buffers, by how the task process reached them */
    uint64_t bytes_copied; /* counted in both directions for INOUT buffers */
    uint32_t processes;    /* that serve this rank; 0: tasks run inline */
} longshore_pool_counters;
int longshore_get_pool_counters(const longshore_pool* pool, longshore_pool_counters* out);

/* For longshore_mpi.h: makes an MPI_Request of the task; null where it runs inline, and is over already. */
typedef int longshore_request_maker(longshore_task** task, void* request);
longshore_request_maker* longshore_get_request_maker(const longshore_task* task);

#ifdef __cplusplus
}
#endif
#endif
