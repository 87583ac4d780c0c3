/* malloc and its kin as the preloaded library shows them: large blocks come from the heap (heap.h), all else
 * from whoever would serve it without us. */
#ifndef LONGSHORE_MEMORY_INTERPOSE_H
#define LONGSHORE_MEMORY_INTERPOSE_H

/* From now on large blocks come from the heap, if it can be had and LONGSHORE_MEMORY_ALIAS does not say off.
 */
void longshore_serve_large_blocks(void);

#endif
