/* Blocks that somebody has freed or made smaller by glibc's own functions (chunk.h): by way of the system
 * alone, so that they leave holes in what is mapped. The system does not put anything else there: it looks
 * from above, and the heap lies far below (backing.c). */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "memory/chunk.h"
#include "memory/heap_state.h"

static longshore_heap_state* const all = &longshore_heap_all;

int longshore_children_are_done(void) {
    return __atomic_load_n(all->children_done, __ATOMIC_ACQUIRE) == all->children;
}

static void set_extent(uint32_t first, uint32_t pages, uint32_t state) {
    longshore_extent_at(first)->pages = pages;
    longshore_extent_at(first)->state = (uint16_t)state;
}

int longshore_is_read_by_children(int flags) {
    return (flags & (kReadByChildren | kFrozen)) != 0 && !longshore_children_are_done();
}

void longshore_put_pages(uint32_t first, uint32_t pages, int flags) {
    if (longshore_is_read_by_children(flags))
        set_extent(first, pages, kRetired);
    else
        longshore_extents_put(first, pages);
}

/* Pages that nobody has mapped any more are the heap's again, and shared. 0: something else has come in their
 * place, and they are lost. */
static int take_back(uint32_t first, uint32_t pages) {
    const size_t at = (size_t)first << kPageShift;
    longshore_bits_set(all->is_private, first, pages, 0);
    longshore_forget_apart(first, pages);
    if (longshore_backing_show_again(&all->backing, longshore_address_of(first), at,
                                     (size_t)pages << kPageShift))
        return 1;
    set_extent(first, pages, kLost);
    return 0;
}

/* What is left of a block has so many pages, with the one in front. */
static void take_back_end(extent* e, uint32_t first, uint32_t left) {
    const uint32_t had = e->pages;
    e->pages = left;
    if (all->opened == 1 && take_back(first + left, had - left)) {
        e->pages = (left + kUnitPages - 1) / kUnitPages * kUnitPages;
        longshore_chunk_write(longshore_address_of(first + 1), (size_t)(e->pages - 1) << kPageShift);
        if (e->pages != had) longshore_put_pages(first + e->pages, had - e->pages, e->flags);
    }
    all->live -= had - e->pages;
    if ((e->flags & kZeroed) != 0) all->zeroed -= had - e->pages;
}

extent* longshore_live_extent(const void* block) {
    const uint32_t page = longshore_page_of(block), first = page - 1;
    /* As glibc does where it sees that its caller has freed what he did not have. */
    if (((uintptr_t)block & (kPageBytes - 1)) != 0 || page <= kFirstPage) abort();
    extent* const e = longshore_extent_at(first);
    if (e->state != kLive) abort();
    const size_t bytes = longshore_chunk_read(block), had = (size_t)(e->pages - 1) << kPageShift;
    if (bytes == had) return e;
    if (bytes == 0 || bytes > had) abort();
    take_back_end(e, first, 1 + (uint32_t)(bytes >> kPageShift));
    return e;
}

static int is_mapped(uint32_t page) {
    unsigned char there;
    return mincore(longshore_address_of(page), kPageBytes, &there) == 0 || errno != ENOMEM;
}

void longshore_look_for_freed(void) {
    const int are_done = longshore_children_are_done();
    all->asked_since_look = 0;
    for (uint32_t page = kFirstPage, pages; page < longshore_extents_end(); page += pages) {
        extent* const e = longshore_extent_at(page);
        pages = e->pages;
        if (e->state == kRetired && are_done) {
            e->state = kInside;
            longshore_extents_put(page, pages);
        } else if (e->state == kLive && !is_mapped(page)) {
            e->state = kInside;
            all->live -= pages;
            --all->blocks;
            if ((e->flags & kZeroed) != 0) all->zeroed -= pages - kUnitPages;
            if (take_back(page, pages)) longshore_put_pages(page, pages, e->flags);
        }
    }
}
