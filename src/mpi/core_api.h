/* What the stub and a shim core tell each other: the one symbol that a core exports. Plain C, no MPI in it.
 */
#ifndef LONGSHORE_CORE_API_H
#define LONGSHORE_CORE_API_H

#include <stdint.h>

#include "longshore.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LONGSHORE_CORE_VERSION = 3 };

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
    const char* flavour; /* the ABI that it was compiled for: openmpi, mpich or abi */
    /* Called before each of the process's PMIx_Commit, with the address of that of PMIx. */
    void (*before_pmix_commit)(void* commit);
} longshore_core_api;

/* Exported by liblongshore-<flavour>.so. The stub gives its version, its number of entries and the MPI's own
 * PMPI_ functions, in the order of entry_points.inc, null for what the MPI does not have. Null if the two do
 * not belong together; else the answer lives as long as the core is loaded. */
const longshore_core_api* longshore_core_open(uint32_t version, uint32_t entry_count,
                                              const void* const* natives);

#ifdef __cplusplus
}
#endif
#endif
