/* What a plug-in is: a shared library whose functions a program hands work to (longshore_task.h). It runs in task
 * processes beside the program's ranks or, without Longshore, inside the program itself. No MPI in it.
 *
 *     static int scale(const longshore_call* call) { ... return 0; }
 *     static const longshore_function functions[] = {{"scale", scale}};
 *     LONGSHORE_PLUGIN = {LONGSHORE_PLUGIN_VERSION, 1, functions, NULL, NULL};
 *
 * Build it with -shared -fPIC. Several ranks may share a task process: keep what belongs to one of them in `state`, not in
 * static variables. Functions are called by one thread, one at a time in a process; they may start threads of their own, which
 * have ended when the function returns. */
#ifndef LONGSHORE_PLUGIN_H
#define LONGSHORE_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LONGSHORE_PLUGIN_VERSION 1u

/* A buffer as this process sees it. Its address is another than in the program, may be another for each task, and is valid
 * until the function returns. */
typedef struct longshore_view {
    void* data;
    size_t bytes;
} longshore_view;

typedef struct longshore_call {
    const void* arguments; /* a copy, aligned to 16 bytes; valid until the function returns */
    size_t arguments_bytes;
    const longshore_view* buffers; /* in the order in which they were submitted */
    size_t buffers_count;
    void* state; /* what `open` has made for the rank that submitted the task; null without `open` */
} longshore_call;

typedef struct longshore_function {
    const char* name; /* at most 63 letters */
    /* Returns 0, or a positive number that longshore_wait gives to the program. A function that throws a C++ exception has
     * failed, too. */
    int (*run)(const longshore_call* call);
} longshore_function;

typedef struct longshore_plugin {
    uint32_t version; /* LONGSHORE_PLUGIN_VERSION */
    uint32_t functions_count; /* at most 64 */
    const longshore_function* functions;
    /* Called before a rank's first task in this process and after its last; either may be null. `open` returns 0 and sets
     * *state, or returns a positive number, and the rank's longshore_open_pool fails. A task process that took another's
     * place opens anew: the state of the first is lost with it. */
    int (*open)(void** state);
    void (*close)(void* state);
} longshore_plugin;

/* The one symbol that is looked up in a plug-in. */
#ifdef __cplusplus
#define LONGSHORE_PLUGIN extern "C" __attribute__((visibility("default"))) const longshore_plugin longshore_plugin_table
#else
#define LONGSHORE_PLUGIN __attribute__((visibility("default"))) const longshore_plugin longshore_plugin_table
#endif

#ifdef __cplusplus
}
#endif
#endif
