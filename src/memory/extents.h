/* Pages in extents, free ones in lists by size: two levels, as in TLSF (Masmano et al., ECRTS 2004). What
 * describes an extent lies beside the pages, not in them: no overrun of a block reaches it, and no page is
 * touched to keep books. Part of the heap (heap.c), which calls all of this under its lock. Pages are numbers
 * from kFirstPage on, and asked for in whole units. */
#ifndef LONGSHORE_MEMORY_EXTENTS_H
#define LONGSHORE_MEMORY_EXTENTS_H

#include <stddef.h>
#include <stdint.h>

/* Extents begin and end where units do, so that not every page comes to stand in front of a block (heap.c): a
 * unit's last page does. The first one of all begins the extents; no page before it is given out. */
enum { kNone = 0, kUnitPages = 4, kFirstPage = kUnitPages - 1 };

/* Of an extent's first page; the pages behind it are inside. Retired: free, but a forked child may still read
 * its pages of the file (fork.c). Lost: other memory lies there, or it cannot be mapped any more. */
enum { kInside = 0, kLive, kFree, kAdopted, kRetired, kLost };
/* Of a live extent. Zeroed: it was when it was allocated. Read by children: not all of its pages of the file
 * had been copied when a child was forked, so that children may read them there; frozen: and some of those
 * are not empty. */
enum { kZeroed = 1, kReadByChildren = 2, kFrozen = 4 };
typedef struct extent {
    uint32_t pages;          /* of the extent that begins here */
    uint32_t before;         /* pages of the free extent that ends here, in its last page; else 0 */
    uint32_t next, previous; /* in the list of free extents */
    uint16_t state;
    uint16_t flags;        /* live */
    uint32_t dirty;        /* free: so many of its pages may have been touched since the system gave them */
    uint32_t older, newer; /* free, and some dirty: in the list of those by when they were freed */
} extent;

/* Two books, zero as far as pages are there: an extent for each page, and a bit for each. */
void longshore_extents_begin(void* extents, void* dirty);
/* From now on there are so many pages: more than before. */
void longshore_extents_grow(uint32_t page_count);
/* So many there must be for this many more to fit behind those that are used. */
uint64_t longshore_extents_needed(uint32_t pages);

extent* longshore_extent_at(uint32_t first);
/* Pages from here on have never been used. */
uint32_t longshore_extents_end(void);
/* Of all free pages, so many are dirty. */
uint32_t longshore_extents_dirty(void);

/* So many pages, free of any list, their dirty bits as they were; kNone: there is no room. */
uint32_t longshore_extents_take(uint32_t pages);
/* The same, but these pages; 0: they are not free. */
int longshore_extents_take_here(uint32_t first, uint32_t pages);
/* Pages that have been taken become part of a block. Returns how many of them were dirty; *dirty_end: the
 * page behind the last of those. */
uint32_t longshore_extents_use(uint32_t first, uint32_t pages, uint32_t* dirty_end);
/* Pages that were taken and are not used after all. */
void longshore_extents_put_unused(uint32_t first, uint32_t pages);
/* Those that a block had, which may have written to all of them. */
void longshore_extents_put(uint32_t first, uint32_t pages);

/* At most so many pages, the last of which is the last dirty one of the extent that has been free for
 * longest; 0: none is dirty. */
uint32_t longshore_extents_oldest(uint32_t pages_max, uint32_t* first);
/* Those have been given back to the system: they are clean. Returns how many were not. */
uint32_t longshore_extents_clean(uint32_t first, uint32_t pages);
/* They could not be: it is another extent's turn. */
void longshore_extents_pass_over(void);

#endif
