/* How much memory the machine and the control groups of this process have left. Plain C, system calls only:
 * no allocation, no lock, no point at which a thread is cancelled. Any thread, but one at a time. */
#ifndef LONGSHORE_MEMORY_NODE_MEMORY_H
#define LONGSHORE_MEMORY_NODE_MEMORY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { kMemoryLimitsMax = 12 };

typedef struct longshore_memory_limit {
    uint64_t bytes, available; /* available: free, or taken by nothing but a cache of files */
} longshore_memory_limit;

typedef struct longshore_machine_memory {
    uint32_t limit_count; /* 0: nothing could be read */
    longshore_memory_limit
        limits[kMemoryLimitsMax]; /* the machine's, then those of control groups that have one */
    int stalls; /* processes here wait for memory a tenth of the time or more (pressure stall information) */
} longshore_machine_memory;

/* Reads /proc and /sys/fs/cgroup, versions 1 and 2, both under the folder `root` ("": the real ones). */
void longshore_read_machine_memory(const char* root, longshore_machine_memory* out);

#ifdef __cplusplus
}
#endif
#endif
