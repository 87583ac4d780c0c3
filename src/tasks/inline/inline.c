#include "tasks/inline/inline.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "longshore_plugin.h"

typedef struct inline_pool {
    longshore_pool base;
    const longshore_plugin* plugin;
    void* state;
    char path[PATH_MAX];
    longshore_pool_counters counters;
    /* What the program has given to be kept: tasks read it where it is, so there is nothing else to keep. */
    longshore_view kept[LONGSHORE_KEPT_MAX];
    int kept_count;
} inline_pool;

/* Over when it has been made: what remains is to tell its result. */
typedef struct inline_task {
    longshore_task base;
    int result;
    const char* plugin; /* of its pool */
    char function[64];
} inline_task;

/* Cut off where a path is too long for it. */
__attribute__((format(printf, 2, 3))) static void say(char* error, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, LONGSHORE_TASK_ERROR_BYTES, format, arguments);
    va_end(arguments);
}

static int inline_open(const char* name, longshore_pool** out, char* error) {
    inline_pool* pool = calloc(1, sizeof *pool);
    if (!pool) {
        say(error, "no memory for a pool of %s", name);
        return LONGSHORE_ERR_MEMORY;
    }
    pool->base.functions = &longshore_inline_tasks;
    int result = LONGSHORE_ERR_PLUGIN;
    void* handle = NULL;
    if (longshore_find_plugin(name, pool->path, sizeof pool->path) != 0)
        say(error, "%s: the plug-in's path is too long", name);
    else if (!(handle = dlopen(pool->path, RTLD_NOW | RTLD_LOCAL)))
        say(error, "%s: the plug-in cannot be loaded: %s", name, dlerror());
    else if (!(pool->plugin = dlsym(handle, "longshore_plugin_table")))
        say(error, "the plug-in %s cannot be used: it has no longshore_plugin_table (see longshore_plugin.h)", pool->path);
    else if (pool->plugin->version != LONGSHORE_PLUGIN_VERSION)
        say(error, "the plug-in %s is of version %u of longshore_plugin.h, and this library takes %u: compile it anew", pool->path,
            pool->plugin->version, LONGSHORE_PLUGIN_VERSION);
    else if (pool->plugin->open && (result = pool->plugin->open(&pool->state)) != 0)
        say(error, "the plug-in %s cannot be used: its open returned %d", pool->path, result);
    else
        result = 0;
    if (result != 0) {
        free(pool);
        return result;
    }
    *out = &pool->base;
    return 0;
}

static int inline_close(longshore_pool* base, char* error) {
    (void)error;
    inline_pool* pool = (inline_pool*)base;
    if (pool->plugin->close) pool->plugin->close(pool->state);
    free(pool);
    return 0;
}

static const longshore_function* find_function(const longshore_plugin* plugin, const char* name) {
    for (uint32_t i = 0; i < plugin->functions_count; ++i)
        if (strcmp(plugin->functions[i].name, name) == 0) return &plugin->functions[i];
    return NULL;
}

static longshore_view* find_kept(inline_pool* pool, const void* data, size_t bytes) {
    for (int i = 0; i < pool->kept_count; ++i) {
        const size_t offset = (size_t)((const char*)data - (const char*)pool->kept[i].data);
        if (data >= pool->kept[i].data && offset <= pool->kept[i].bytes && bytes <= pool->kept[i].bytes - offset) return &pool->kept[i];
    }
    return NULL;
}

static int over(inline_pool* pool, const char* function, longshore_task** out, char* error) {
    inline_task* task = calloc(1, sizeof *task);
    if (!task) {
        say(error, "%s: no memory for a task", function);
        return LONGSHORE_ERR_MEMORY;
    }
    task->base.functions = &longshore_inline_tasks;
    task->plugin = pool->path;
    snprintf(task->function, sizeof task->function, "%s", function);
    ++pool->counters.tasks;
    *out = &task->base;
    return 0;
}

static int inline_keep(longshore_pool* base, const void* data, size_t bytes, longshore_task** out, char* error) {
    inline_pool* pool = (inline_pool*)base;
    const char *begin = data, *end = begin + bytes;
    for (int i = 0; i < pool->kept_count; ++i) {
        const char *other = pool->kept[i].data, *other_end = other + pool->kept[i].bytes;
        if (begin == other && end == other_end) return over(pool, "longshore_keep", out, error);
        if (begin < other_end && other < end) {
            say(error, "%s: longshore_keep: it overlaps a buffer that is kept; forget that one first", pool->path);
            return LONGSHORE_ERR_ARGUMENT;
        }
    }
    if (pool->kept_count == LONGSHORE_KEPT_MAX) {
        say(error, "%s: longshore_keep: LONGSHORE_KEPT_MAX buffers of this pool are kept; forget one first", pool->path);
        return LONGSHORE_ERR_ARGUMENT;
    }
    const int result = over(pool, "longshore_keep", out, error);
    if (result == 0) pool->kept[pool->kept_count++] = (longshore_view){(void*)data, bytes};
    return result;
}

static int inline_change(longshore_pool* base, const void* data, size_t bytes, longshore_task** out, char* error) {
    inline_pool* pool = (inline_pool*)base;
    if (find_kept(pool, data, bytes)) return over(pool, "longshore_change", out, error);
    say(error, "%s: longshore_change: it is not within a buffer that is kept", pool->path);
    return LONGSHORE_ERR_ARGUMENT;
}

static int inline_forget(longshore_pool* base, const void* data, char* error) {
    inline_pool* pool = (inline_pool*)base;
    longshore_view* kept = find_kept(pool, data, 0);
    if (!kept || kept->data != data) {
        say(error, "%s: longshore_forget: no buffer that is kept begins there", pool->path);
        return LONGSHORE_ERR_ARGUMENT;
    }
    *kept = pool->kept[--pool->kept_count];
    ++pool->counters.tasks;
    return 0;
}

static int inline_submit(longshore_pool* base, const char* name, const void* arguments, size_t arguments_bytes,
                         const longshore_buffer* buffers, int buffers_count, longshore_task** out, char* error) {
    inline_pool* pool = (inline_pool*)base;
    const longshore_function* function = find_function(pool->plugin, name);
    if (!function) {
        say(error, "%s: the plug-in has no function '%s'", pool->path, name);
        return LONGSHORE_ERR_FUNCTION;
    }
    for (int i = 0; i < buffers_count; ++i) {
        if (buffers[i].access == LONGSHORE_KEPT && !find_kept(pool, buffers[i].data, buffers[i].bytes)) {
            say(error, "%s: %s: buffer %d is LONGSHORE_KEPT, but is not within one that longshore_keep was called for", pool->path, name,
                i);
            return LONGSHORE_ERR_ARGUMENT;
        }
    }
    inline_task* task = malloc(sizeof *task);
    if (!task) {
        say(error, "%s: no memory for a task", name);
        return LONGSHORE_ERR_MEMORY;
    }
    longshore_view views[LONGSHORE_BUFFERS_MAX];
    for (int i = 0; i < buffers_count; ++i) {
        views[i].data = buffers[i].data;
        views[i].bytes = buffers[i].bytes;
        pool->counters.bytes_mapped += buffers[i].bytes;
    }
    _Alignas(16) char copy[LONGSHORE_ARGUMENTS_BYTES_MAX];
    if (arguments_bytes) memcpy(copy, arguments, arguments_bytes);
    const longshore_call call = {copy, arguments_bytes, views, (size_t)buffers_count, pool->state};
    task->base.functions = &longshore_inline_tasks;
    task->plugin = pool->path;
    snprintf(task->function, sizeof task->function, "%s", name);
    task->result = function->run(&call);
    if (task->result < 0) task->result = -task->result; /* negative results are Longshore's own */
    ++pool->counters.tasks;
    *out = &task->base;
    return 0;
}

static int inline_wait(longshore_task* base, char* error) {
    inline_task* task = (inline_task*)base;
    const int result = task->result;
    if (result) say(error, "%s in %s returned %d", task->function, task->plugin, result);
    free(task);
    return result;
}

static int inline_test(longshore_task* task, int* done, char* error) {
    *done = 1;
    return inline_wait(task, error);
}

static void inline_counters(const longshore_pool* pool, longshore_pool_counters* out) {
    *out = ((const inline_pool*)pool)->counters;
}

const longshore_task_functions longshore_inline_tasks = {
    LONGSHORE_TASK_API_VERSION, inline_open, inline_close, inline_submit, inline_test, inline_wait, inline_counters, NULL,
    inline_keep, inline_change, inline_forget,
};
