/* malloc and its kin as the preloaded library shows them: large blocks come from the heap (heap.h), all else
 * from whoever would serve it without us. */
#ifndef LONGSHORE_MEMORY_INTERPOSE_H
#define LONGSHORE_MEMORY_INTERPOSE_H

#include "memory/heap.h"

/* From now on large blocks come from the heap, which the first of them makes: if the launcher's variables say
 * that this process is one of several, and neither LONGSHORE_MEMORY_ALIAS=off nor a sanitizer speaks against
 * it. */
void longshore_serve_large_blocks(void);
/* The same whatever the launcher says: the processes have found each other. Null: there is no heap. */
const longshore_heap* longshore_share_large_blocks(void);
/* Why blocks of malloc come from elsewhere although there is a heap, which MPI_Alloc_mem has; null: they do
 * not. */
const char* longshore_why_malloc_is_not_shared(void);
/* They have not: blocks come from elsewhere from now on, and those that are there stay as they are. */
void longshore_share_no_more(void);

#endif
