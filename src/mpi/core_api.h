/* What the stub and a shim core tell each other: the one symbol that a core exports. Plain C, no MPI in it.
 */
#ifndef LONGSHORE_CORE_API_H
#define LONGSHORE_CORE_API_H

#include <stdint.h>

#include "longshore.h"
#include "memory/heap.h"
#include "tasks/task_api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LONGSHORE_CORE_VERSION = 11 };

enum {
#define LONGSHORE_ENTRY(name) LONGSHORE_INDEX_##name,
#include "mpi/entry_points.inc"
#undef LONGSHORE_ENTRY
    LONGSHORE_ENTRY_COUNT
};

typedef struct longshore_core_api {
    uint32_t version, entry_count;
    const void* const* entries; /* in the order of entry_points.inc */
    int (*get_counters)(longshore_counters* out);
    int (*set)(const char* name, const char* value);
    int (*get_times)(longshore_times* out);
    /* Of longshore_task.h; null, with the reason in *why, where the job has no supervisor to start task processes. */
    longshore_task_functions_getter* get_tasks;
    const char* flavour; /* the ABI that it was compiled for: openmpi, mpich or abi */
    /* Called before each of the process's PMIx_Commit, with the address of that of PMIx. */
    void (*before_pmix_commit)(void* commit);
} longshore_core_api;

/* What the stub gives. */
typedef struct longshore_stub_api {
    uint32_t version, entry_count;
    const void* const*
        natives; /* the MPI's own PMPI_ functions, as above; null for what the MPI does not have */
    /* The heap of large blocks (memory/heap.h). */
    const longshore_heap* (*heap)(void);
    const longshore_heap* (*share)(void); /* of interpose.h: longshore_share_large_blocks */
    void (*share_no_more)(void);
    void* (*allocate)(size_t bytes, size_t alignment, int zeroed);
    void (*release)(void* block);
    int (*holds)(const void* block);
    longshore_heap_use (*used)(void);
    int (*adopt)(const void* base, size_t bytes, uint64_t* begin, uint64_t* end,
                 uint64_t* offset); /* adopt.h */
    void (*keep)(void);
    int (*open_buffer)(const void* base, size_t bytes, int anywhere);
    void (*close_buffer)(int place);
    uint32_t (*adopted_forks)(void);
    const char* (*why_malloc_is_not_shared)(void); /* of interpose.h */
} longshore_stub_api;

/* Exported by liblongshore-<flavour>.so. Null if the two do not belong together; else the answer lives as
 * long as the core is loaded, and `stub` has to as well. */
const longshore_core_api* longshore_core_open(const longshore_stub_api* stub);

#ifdef __cplusplus
}
#endif
#endif
