#define _GNU_SOURCE
#include "memory/heap_state.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void read_machine(longshore_machine_memory* out) {
    longshore_read_machine_memory("", out);
}

longshore_heap_state longshore_heap_all = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                                           .heap = {.file = -1},
                                           .backing = {.file = -1},
                                           .grows = 1,
                                           .read_memory = read_machine,
                                           .look_ms = 100};
static longshore_heap_state* const all = &longshore_heap_all;

int longshore_heap_holds(const void* block) {
    const size_t offset = (size_t)((const char*)block - (const char*)all->heap.base);
    return offset < __atomic_load_n(&all->there, __ATOMIC_RELAXED);
}

size_t longshore_private_bytes(void) {
    return all->has_private == 0 || all->opened != 1
               ? 0
               : (size_t)longshore_bits_count(all->is_private, 0, longshore_extents_end()) << kPageShift;
}

/* --- mappings. The page in front of a block is a mapping of its own, so that nobody's mremap makes the block
 * larger where it is: that refuses what lies in two. A page stays so when its block is freed, for the next
 * block there. */
int longshore_advise(uint32_t first, uint32_t pages, int advice) {
    /* Not by libc's function, whose name the library has itself, for the program: it would lead back here. */
    return (int)syscall(SYS_madvise, longshore_address_of(first), (size_t)pages << kPageShift, advice);
}

void longshore_forget_apart(uint32_t first, uint32_t pages) {
    all->apart_count -= longshore_bits_count(all->apart, first, pages);
    longshore_bits_set(all->apart, first, pages, 0);
}

static void join(uint32_t first, uint32_t pages) {
    if (!longshore_bits_any(all->apart, first, pages)) return;
    longshore_advise(first, pages, MADV_NORMAL);
    longshore_forget_apart(first, pages);
}

/* All but those in front of blocks. */
static void join_unused(void) {
    for (uint32_t page = kFirstPage, pages; page < longshore_extents_end(); page += pages) {
        const extent* const e = longshore_extent_at(page);
        pages = e->pages;
        if (e->state == kLive)
            join(page + 1, pages - 1);
        else if (e->state == kFree)
            join(page, pages);
    }
}

int longshore_set_apart(uint32_t page) {
    if (longshore_bits_any(all->apart, page, 1)) return 1;
    if (all->apart_count >= all->apart_max) join_unused();
    if (longshore_advise(page, 1, MADV_RANDOM) != 0) return 0;
    longshore_bits_set(all->apart, page, 1, 1);
    ++all->apart_count;
    return 1;
}
