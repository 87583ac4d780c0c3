/* How liblongshore_task.a, which is part of the program, calls what carries its tasks: the preloaded library,
 * which runs them in task processes, or its own inline.c. A pool and a task begin with the table of who made
 * them. Plain C, no MPI in it. */
#ifndef LONGSHORE_TASK_API_H
#define LONGSHORE_TASK_API_H

#include "longshore_task.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LONGSHORE_TASK_API_VERSION = 2, LONGSHORE_TASK_ERROR_BYTES = 512 };

/* The functions of longshore_task.h. On an error `error`, of so many bytes, is the reason. Their arguments
 * have been checked for null pointers and for the limits of longshore_task.h. */
typedef struct longshore_task_functions {
    uint32_t version;
    int (*open)(const char* plugin, longshore_pool** pool, char* error);
    int (*close)(longshore_pool* pool, char* error);
    int (*submit)(longshore_pool* pool, const char* function, const void* arguments, size_t arguments_bytes,
                  const longshore_buffer* buffers, int buffers_count, longshore_task** task, char* error);
    /* *done: the task is over, and gone, unless LONGSHORE_ERR_ARGUMENT says that it is none. */
    int (*test)(longshore_task* task, int* done, char* error);
    int (*wait)(longshore_task* task, char* error);
    void (*counters)(const longshore_pool* pool, longshore_pool_counters* out);
    longshore_request_maker* make_request; /* may be null */
    /* Since version 2, and the last: who knows version 1 alone is given the same table. */
    int (*keep)(longshore_pool* pool, const void* data, size_t bytes, longshore_task** task, char* error);
    int (*change)(longshore_pool* pool, const void* data, size_t bytes, longshore_task** task, char* error);
    int (*forget)(longshore_pool* pool, const void* data, char* error);
} longshore_task_functions;

struct longshore_pool {
    const longshore_task_functions* functions;
};
struct longshore_task {
    const longshore_task_functions* functions;
};

/* Exported by the preloaded library: null, with the reason in *why, where tasks have to run inline. */
typedef const longshore_task_functions* longshore_task_functions_getter(uint32_t version, const char** why);
#define LONGSHORE_TASK_FUNCTIONS_GETTER "longshore_get_task_functions"

/* The file of a plug-in as longshore_open_pool describes it, into `path` (of `bytes`). If there is no such
 * file, what dlopen is to look for: NAME.so. Returns 0, or -1 where it does not fit. */
int longshore_find_plugin(const char* plugin, char* path, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
