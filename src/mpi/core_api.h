/* What the stub and a shim core tell each other: the one symbol that a core exports. Plain C, no MPI in it.
 */
#ifndef LONGSHORE_CORE_API_H
#define LONGSHORE_CORE_API_H

#include <stdint.h>

#include "longshore.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LONGSHORE_CORE_VERSION = 1 };

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
} longshore_core_api;

/* Exported by liblongshore-<flavour>.so. The answer lives as long as the core is loaded. */
const longshore_core_api* longshore_core(void);

#ifdef __cplusplus
}
#endif
#endif
