/* What the heap keeps of itself, for its parts: blocks (heap.c), which use blocks that others have freed or
 * made smaller (others_frees.c) and forks (fork.c); below them what all need (heap_state.c). All of it under
 * its mutex, where nothing else is said. */
#ifndef LONGSHORE_MEMORY_HEAP_STATE_H
#define LONGSHORE_MEMORY_HEAP_STATE_H

#include <pthread.h>

#include "memory/backing.h"
#include "memory/extents.h"
#include "memory/heap.h"
#include "memory/keep.h"
#include "memory/page_bits.h"

enum { kPageBytes = 4096, kPageShift = 12, kAdoptedMax = 256 };

/* A piece of memory of which a child gets a copy. */
typedef struct longshore_piece {
    char* at;
    size_t bytes;
    char* copy; /* null: there is no memory for one */
    int protection;
} longshore_piece;

typedef struct longshore_heap_state {
    pthread_mutex_t mutex;
    longshore_heap heap;
    longshore_backing backing;
    size_t there; /* bytes of it that have memory, or can have; read without the lock, too */
    int grows;    /* there may be more of them */
    int opened;   /* 1: there; -1: cannot be had, or not any more; read without the lock, too */
    uint32_t live, live_max, kept_max; /* pages, with those in front of blocks */
    uint32_t zeroed, zeroed_max;       /* pages of blocks that were zeroed when they were allocated */
    uint32_t blocks, blocks_max; /* live ones: each takes two mappings of those that a process may have */
    uint32_t asked_since_look;   /* blocks, since the last look for those that others have freed */
    uint64_t given_back;
    longshore_keep keep;        /* how many may be kept */
    int keeps_all;              /* pages are not given back */
    int looking;                /* some thread reads how much memory the machine has */
    int64_t looked_ms, look_ms; /* when that was last, and how long there is none after it */
    void (*read_memory)(longshore_machine_memory*);
    uint64_t refused;
    struct {
        char* at;
        uint32_t first, pages;
    } adopted[kAdoptedMax]; /* mapped at `at`, too */
    uint32_t adopted_count, adopted_pages;

    /* A bit for each page: in front of a block, and a mapping of its own; of a live block, but private to
     * this process; of a buffer that is open while this process forks. */
    uint64_t *apart, *is_private, *open;
    uint32_t apart_count, apart_max;
    int has_private; /* once and for all; read without the lock, too */

    size_t private_max;      /* bytes of live blocks, after a fork */
    uint32_t* children_done; /* in memory that children share: so many have nothing of the file any more */
    uint32_t children;       /* that were to do so */
    uint32_t adopted_forks;  /* that made adopted memory private; read without the lock, too */
    longshore_piece* pieces; /* for the child that is being forked */
    uint32_t piece_count;
    char *copies, *copies_end; /* of the pieces, one after the other */
    size_t copies_bytes;
    int copies_failed;
} longshore_heap_state;

extern longshore_heap_state longshore_heap_all __attribute__((visibility("hidden")));

static inline char* longshore_address_of(uint32_t page) {
    return (char*)longshore_heap_all.heap.base + ((size_t)page << kPageShift);
}
static inline uint32_t longshore_page_of(const void* block) {
    return (uint32_t)((size_t)((const char*)block - (const char*)longshore_heap_all.heap.base) >> kPageShift);
}

/* madvise of pages, past whoever shows that name to the program. */
int longshore_advise(uint32_t first, uint32_t pages, int advice);
/* The page in front of a block becomes a mapping of its own; 0: the system does not make any more. */
int longshore_set_apart(uint32_t page);
/* Pages have been mapped anew. */
void longshore_forget_apart(uint32_t first, uint32_t pages);

/* Pages that a block had go back to the free ones, or, where children may still read them in the file, are
 * retired. They are mapped, and shared. */
void longshore_put_pages(uint32_t first, uint32_t pages, int flags);
/* Whether no child has anything of the file any more; whether one may read pages of a block with those flags
 * there. */
int longshore_children_are_done(void);
int longshore_is_read_by_children(int flags);

/* Block and page in front of it, as they are now: what others have made of it by glibc's own functions is
 * made good. Ends the process where that is no block. */
extent* longshore_live_extent(const void* block);
/* Takes back what others have freed, and what is retired and no child reads any more. */
void longshore_look_for_freed(void);

/* Of live blocks. */
size_t longshore_private_bytes(void);

void longshore_watch_forks(void);

#endif
