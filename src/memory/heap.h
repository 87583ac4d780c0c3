/* Large blocks from memory that other processes of this user can map: one memfd per process, which grows.
 * Whoever maps it too reads and writes a rank's buffers with plain loads and stores. Plain C, libc only: it
 * lives in foreign processes, below malloc. Any thread. docs/decisions/0011-shared-allocations.md has the
 * reasons. */
#ifndef LONGSHORE_MEMORY_HEAP_H
#define LONGSHORE_MEMORY_HEAP_H

#include <stddef.h>
#include <stdint.h>

#include "memory/machine_memory.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where the heap lies; file -1: there is none. The same from longshore_heap_open() on. */
typedef struct longshore_heap {
    int file;          /* the memfd; the program may have closed it: compare `identity` */
    uint64_t identity; /* its inode number */
    void* base;
    int is_far;   /* no other memory comes to lie where somebody else has unmapped a block */
    size_t bytes; /* that it may have; the file says how many it has now: a multiple of 16 MiB, or all */
} longshore_heap;

/* Makes the heap, once; later calls give the same. `bytes_max`: 0 is the machine's memory. Null: not
 * possible, or taken back by a fork. */
const longshore_heap* longshore_heap_open(size_t bytes_max);
/* Before a heap is opened by some thread while others may fork: their children then know of it. */
void longshore_heap_prepare(void);
/* Null until it has been opened, and in a forked child. */
const longshore_heap* longshore_heap_get(void);

int longshore_heap_holds(const void* block);

/* As posix_memalign and calloc: null if there is no room (errno as before). `alignment`: a power of two. Not
 * too much of it can be `zeroed`: pages that are only read take memory here, and none elsewhere. */
void* longshore_heap_allocate(size_t bytes, size_t alignment, int zeroed);
void longshore_heap_release(void* block);
/* Bytes that fit in the block. */
size_t longshore_heap_usable(const void* block);
/* Whether the block has been made as large (or small) as that where it is. */
int longshore_heap_resize(void* block, size_t bytes);

/* For tests: who tells from now on how much memory the machine has left. The next call that needs it asks,
 * and others not before so many milliseconds after it. */
void longshore_heap_read_memory_by(void (*read)(longshore_machine_memory*), int64_t again_ms);

/* From now on pages are never given back to the system: freed blocks are used again as ever, and what has
 * been touched stays. For memory that a network's card reads and writes: its pages are those from when it was
 * registered, and if they went, others would come in their place, of which the card knows nothing. */
void longshore_heap_keep(void);

/* From now on the heap does not become larger: what does not fit is refused. */
void longshore_heap_stop_growing(void);

/* Whole pages in a block, of which the program wants to have zeros in their place: madvise's MADV_DONTNEED
 * for memory that is shared. Returns what madvise does, with its errno. */
int longshore_heap_discard(void* pages, size_t bytes);

/* Before others read or write a buffer by way of the file: a place where it stands until they are through
 * with it, and -1 if all of it is not in blocks that they can reach so. While it stands there a fork leaves
 * its pages shared; waits for a fork that is under way. `anywhere`: of memory that is no block's, too, as
 * that which was adopted. */
int longshore_heap_open_buffer(const void* base, size_t bytes, int anywhere);
/* -1: nothing. */
void longshore_heap_close_buffer(int place);
/* So many forks have made adopted memory private again. */
uint32_t longshore_heap_adopted_forks(void);

/* Makes whole pages of ordinary memory shared where they are, with what is in them; *offset: where they lie
 * in the file. Nobody may write to them meanwhile. 0: it is not possible, and nothing has changed. They stay
 * so until a fork: the caller knows that they are never unmapped (adopt.h). */
int longshore_heap_adopt(void* pages, size_t bytes, uint64_t* offset);

typedef struct longshore_heap_use {
    size_t live_bytes, kept_bytes, live_bytes_max; /* kept: freed, and not given back to the system */
    size_t adopted_bytes;
    uint64_t refused; /* allocations that did not fit */
    size_t kept_bytes_max;
    uint64_t given_back_bytes;               /* to the system, of freed blocks */
    size_t private_bytes, private_bytes_max; /* of live blocks, since a fork */
} longshore_heap_use;
longshore_heap_use longshore_heap_used(void);

#ifdef __cplusplus
}
#endif
#endif
