/* liblongshore_task.a: the functions of longshore_task.h, which hand everything to whoever made the pool. Where the preloaded
 * library carries no tasks, inline.c does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "tasks/inline/inline.h"

static __thread char error_text[LONGSHORE_TASK_ERROR_BYTES];

const char* longshore_task_error(void) {
    return error_text;
}

static int refuse(int error, const char* why) {
    snprintf(error_text, sizeof error_text, "%s", why);
    return error;
}

/* Once for a program: it may open many pools. */
static void say_inline(const char* why) {
    static int said;
    if (!why || __atomic_exchange_n(&said, 1, __ATOMIC_RELAXED)) return;
    fprintf(stderr, "longshore: tasks run inside the program: %s\n", why);
}

static const longshore_task_functions* functions(void) {
    longshore_task_functions_getter* get =
        (longshore_task_functions_getter*)dlsym(RTLD_DEFAULT, LONGSHORE_TASK_FUNCTIONS_GETTER);
    const char* why = NULL;
    const longshore_task_functions* found = get ? get(LONGSHORE_TASK_API_VERSION, &why) : NULL;
    if (found) return found;
    say_inline(why);
    return &longshore_inline_tasks;
}

int longshore_open_pool(const char* plugin, longshore_pool** pool) {
    if (!pool) return refuse(LONGSHORE_ERR_ARGUMENT, "longshore_open_pool: no place for the pool");
    *pool = NULL;
    if (!plugin || !*plugin) return refuse(LONGSHORE_ERR_ARGUMENT, "longshore_open_pool: no plug-in is named");
    return functions()->open(plugin, pool, error_text);
}

int longshore_close_pool(longshore_pool** pool) {
    if (!pool || !*pool) return refuse(LONGSHORE_ERR_ARGUMENT, "longshore_close_pool: there is no pool");
    longshore_pool* closed = *pool;
    *pool = NULL;
    return closed->functions->close(closed, error_text);
}

int longshore_submit(longshore_pool* pool, const char* function, const void* arguments, size_t arguments_bytes,
                     const longshore_buffer* buffers, int buffers_count, longshore_task** task) {
    if (!task) return refuse(LONGSHORE_ERR_ARGUMENT, "longshore_submit: no place for the task");
    *task = NULL;
    if (!pool) return refuse(LONGSHORE_ERR_ARGUMENT, "longshore_submit: there is no pool");
    if (!function) return refuse(LONGSHORE_ERR_ARGUMENT, "longshore_submit: no function is named");
    if (arguments_bytes > LONGSHORE_ARGUMENTS_BYTES_MAX || (!arguments && arguments_bytes))
        return refuse(LONGSHORE_ERR_ARGUMENT,
                      "longshore_submit: the arguments have more than LONGSHORE_ARGUMENTS_BYTES_MAX bytes (give a buffer), or none");
    if (buffers_count < 0 || buffers_count > LONGSHORE_BUFFERS_MAX || (!buffers && buffers_count))
        return refuse(LONGSHORE_ERR_ARGUMENT, "longshore_submit: there can be 0 to LONGSHORE_BUFFERS_MAX buffers");
    for (int i = 0; i < buffers_count; ++i) {
        if (buffers[i].access < LONGSHORE_IN || buffers[i].access > LONGSHORE_KEPT || (!buffers[i].data && buffers[i].bytes)) {
            snprintf(error_text, sizeof error_text, "longshore_submit: %s: buffer %d has no data, or is not LONGSHORE_IN, _OUT, _INOUT or _KEPT",
                     function, i);
            return LONGSHORE_ERR_ARGUMENT;
        }
    }
    return pool->functions->submit(pool, function, arguments, arguments_bytes, buffers, buffers_count, task, error_text);
}

static int check_kept(longshore_pool* pool, const void* data, size_t bytes, longshore_task** task) {
    if (!task) return refuse(LONGSHORE_ERR_ARGUMENT, "longshore_keep, longshore_change: no place for the task");
    *task = NULL;
    if (!pool || !data || !bytes) return refuse(LONGSHORE_ERR_ARGUMENT, "longshore_keep, longshore_change: no pool, or no data");
    return 0;
}

int longshore_keep(longshore_pool* pool, const void* data, size_t bytes, longshore_task** task) {
    const int result = check_kept(pool, data, bytes, task);
    return result ? result : pool->functions->keep(pool, data, bytes, task, error_text);
}

int longshore_change(longshore_pool* pool, const void* data, size_t bytes, longshore_task** task) {
    const int result = check_kept(pool, data, bytes, task);
    return result ? result : pool->functions->change(pool, data, bytes, task, error_text);
}

int longshore_forget(longshore_pool* pool, const void* data) {
    if (!pool || !data) return refuse(LONGSHORE_ERR_ARGUMENT, "longshore_forget: no pool, or no data");
    return pool->functions->forget(pool, data, error_text);
}

static int none(const char* call) {
    snprintf(error_text, sizeof error_text, "%s: there is no task (it has been waited for already?)", call);
    return LONGSHORE_ERR_ARGUMENT;
}

int longshore_test(longshore_task** task, int* done) {
    if (!done) return refuse(LONGSHORE_ERR_ARGUMENT, "longshore_test: no place for the answer");
    *done = 0;
    if (!task || !*task) return none("longshore_test");
    int result = (*task)->functions->test(*task, done, error_text);
    if (*done) *task = NULL;
    return result;
}

int longshore_wait(longshore_task** task) {
    if (!task || !*task) return none("longshore_wait");
    longshore_task* waited = *task;
    *task = NULL;
    return waited->functions->wait(waited, error_text);
}

int longshore_get_pool_counters(const longshore_pool* pool, longshore_pool_counters* out) {
    if (!pool || !out) return refuse(LONGSHORE_ERR_ARGUMENT, "longshore_get_pool_counters: there is no pool, or no place for the answer");
    pool->functions->counters(pool, out);
    return 0;
}

longshore_request_maker* longshore_get_request_maker(const longshore_task* task) {
    return task ? task->functions->make_request : NULL;
}
