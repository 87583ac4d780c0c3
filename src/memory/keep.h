/* How many freed pages the heap keeps: a rule over counts, without clock, system calls or memory of its own.
 * The heap calls it under its lock. docs/decisions/0016-kept-pages.md has the reasons. */
#ifndef LONGSHORE_MEMORY_KEEP_H
#define LONGSHORE_MEMORY_KEEP_H

#include <stdint.h>

#include "memory/machine_memory.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    kKeepFirstPages = (256u << 20) / 4096, /* kept before the program has shown what it uses again */
    kKeepLeastPages = (16u << 20) / 4096   /* kept however little it uses again, unless memory is short */
};

/* All in pages of 4 KiB. */
typedef struct longshore_keep {
    uint32_t useful;             /* so many the program has been seen to use again */
    uint32_t own_max;            /* so many, live and kept, the machine's memory allows this process */
    uint32_t missed;             /* given back, and not asked for since */
    uint32_t kept_min, kept_max; /* of this period */
    uint64_t taken;              /* by allocations of this period */
    uint32_t processors;         /* of the machine: no more ranks than that are expected to share it */
    int is_short;                /* so short of memory that all goes back at once */
} longshore_keep;

void longshore_keep_begin(longshore_keep* keep, uint32_t processors);

/* At most so many freed pages stay while so many are allocated. */
uint32_t longshore_keep_max(const longshore_keep* keep, uint32_t live);

/* An allocation has taken `pages`, of which the system must give `fresh` anew; `kept` are left. live_max: the
 * most that has ever been allocated at once. */
void longshore_keep_took(longshore_keep* keep, uint32_t pages, uint32_t fresh, uint32_t kept,
                         uint32_t live_max);
/* A block has been freed, and what is too much has been given back; `kept` are left. */
void longshore_keep_freed(longshore_keep* keep, uint32_t kept);
void longshore_keep_gave_back(longshore_keep* keep, uint32_t pages);

/* What the machine has left, while so many pages are allocated and so many kept. */
void longshore_keep_look(longshore_keep* keep, const longshore_machine_memory* memory, uint32_t live,
                         uint32_t kept);

#ifdef __cplusplus
}
#endif
#endif
