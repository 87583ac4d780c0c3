#define _GNU_SOURCE
#include "memory/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "memory/chunk.h"
#include "memory/heap_state.h"
#include "memory/open_buffers.h"

/* Pages that go back to the system at a time, with the lock held: about a millisecond. */
enum { kSlicePagesMin = (1u << 20) / kPageBytes, kSlicePagesMax = (4u << 20) / kPageBytes };

/* What a program has zeroed and only reads costs nothing in ordinary memory, and memory here. So no more of
 * it than a processor's share of half of the memory. */
enum { kZeroedPagesMin = (512u << 20) / kPageBytes };

static longshore_heap_state* const all = &longshore_heap_all;

/* Pages that have been taken become part of a block; what it had before counts as live already. Returns the
 * end of those that may have something in them. */
static uint32_t use_pages(uint32_t first, uint32_t pages) {
    uint32_t dirty_end = first;
    const uint32_t dirty = longshore_extents_use(first, pages, &dirty_end);
    all->live += pages;
    if (all->live > all->live_max) all->live_max = all->live;
    longshore_keep_took(&all->keep, pages, pages - dirty, longshore_extents_dirty(), all->live_max);
    return dirty_end;
}

static void make_extent(uint32_t first, uint32_t pages, uint32_t state) {
    longshore_extent_at(first)->pages = pages;
    longshore_extent_at(first)->state = state;
}

/* --- giving back */
static uint32_t at_most(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static uint32_t kept_pages_max(void) {
    return all->keeps_all ? UINT32_MAX : longshore_keep_max(&all->keep, all->live);
}

/* Gives the end of the extent that has been free for longest back to the system, at most about `pages`.
 * Returns how many that were; 0: there is nothing, or the system does not take it. */
static uint32_t give_back_slice(uint32_t pages) {
    uint32_t first = kNone;
    if (pages < kSlicePagesMin) pages = kSlicePagesMin;
    const uint32_t count = longshore_extents_oldest(at_most(pages, kSlicePagesMax), &first);
    if (count == 0) return 0;
    /* By address, not by descriptor: the program may have closed that, and opened something else. What it has
     * locked in memory (mlock, mlockall) stays, with what is in it. */
    if (madvise(longshore_address_of(first), (size_t)count << kPageShift, MADV_REMOVE) != 0) {
        longshore_extents_pass_over();
        return 0;
    }
    const uint32_t given = longshore_extents_clean(first, count);
    all->given_back += given;
    longshore_keep_gave_back(&all->keep, given);
    return given;
}

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now); /* no system call */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Ends what was done under the lock, after a block of so many pages has come or gone: looks at the machine's
 * memory if that was long ago, and gives back what is kept too much. At most twice the block and 1 MiB, so
 * that a call does as much as it brings; the rest is left to the next ones. Lets go of the lock. */
static void settle_and_unlock(uint32_t block_pages) {
    if (all->keeps_all || all->opened != 1) {
        pthread_mutex_unlock(&all->mutex);
        return;
    }
    const int error = errno; /* allocating and freeing leave it alone */
    const int is_little =
        longshore_extents_dirty() <= kKeepLeastPages && longshore_extents_dirty() <= kept_pages_max();
    const int64_t now = is_little || all->looking ? 0 : now_ms();
    if (!is_little && !all->looking && now - all->looked_ms >= all->look_ms) {
        longshore_machine_memory memory;
        void (*const read_memory)(longshore_machine_memory*) = all->read_memory;
        all->looking = 1;
        pthread_mutex_unlock(&all->mutex);
        read_memory(&memory);
        pthread_mutex_lock(&all->mutex);
        all->looking = 0;
        all->looked_ms = now;
        longshore_keep_look(&all->keep, &memory, all->live, longshore_extents_dirty());
    }
    uint64_t budget = all->keep.is_short ? UINT64_MAX : 2 * (uint64_t)block_pages + kSlicePagesMin;
    while (longshore_extents_dirty() > kept_pages_max() && budget != 0) {
        const uint32_t over = longshore_extents_dirty() - kept_pages_max();
        const uint32_t done = give_back_slice(budget < over ? (uint32_t)budget : over);
        if (done == 0) break;
        budget -= done < budget ? done : budget;
        pthread_mutex_unlock(&all->mutex); /* others have a turn */
        pthread_mutex_lock(&all->mutex);
    }
    longshore_keep_freed(&all->keep, longshore_extents_dirty());
    if (longshore_extents_dirty() > all->kept_max) all->kept_max = longshore_extents_dirty();
    pthread_mutex_unlock(&all->mutex);
    errno = error;
}

static uint32_t whole_units(size_t pages) {
    return (uint32_t)((pages + kUnitPages - 1) / kUnitPages * kUnitPages);
}

/* With the page in front of the block. */
static uint32_t pages_of(size_t bytes) {
    return whole_units(1 + (bytes == 0 ? 1 : (bytes + kPageBytes - 1) >> kPageShift));
}

static void note_growth(void) {
    longshore_extents_grow((uint32_t)(all->backing.pages.bytes >> kPageShift));
    __atomic_store_n(&all->there, all->backing.pages.bytes, __ATOMIC_RELAXED);
}

/* Pages behind those that are used, for so many more. */
static int grow(uint32_t pages) {
    const uint64_t bytes = longshore_extents_needed(pages) << kPageShift;
    if (!all->grows || bytes > all->heap.bytes || !longshore_backing_grow(&all->backing, (size_t)bytes))
        return 0;
    note_growth();
    return 1;
}

/* What others have freed is looked for before the heap grows, once half as many blocks as there are have been
 * asked for since the last look: looking costs two system calls for each of those, at most. */
static uint32_t take(uint32_t pages) {
    uint32_t first = longshore_extents_take(pages);
    ++all->asked_since_look;
    if (first == kNone && 2 * (uint64_t)all->asked_since_look >= all->blocks) {
        longshore_look_for_freed();
        first = longshore_extents_take(pages);
    }
    return first == kNone && grow(pages) ? longshore_extents_take(pages) : first;
}

static int take_here(uint32_t first, uint32_t pages) {
    if (longshore_extents_take_here(first, pages)) return 1;
    /* Where the block ends with what is used, more may come behind it. */
    const uint64_t end = (uint64_t)first + pages, needed = longshore_extents_needed(0);
    return end > needed && (first == needed || first == longshore_extents_end()) &&
           grow((uint32_t)(end - needed)) && longshore_extents_take_here(first, pages);
}

/* Of taken pages those from `first` on, with the page in front, become a block. 0: there may be no more of
 * them. */
static int make_block(uint32_t first, uint32_t pages, int zeroed) {
    if (all->blocks >= all->blocks_max || !longshore_set_apart(first)) return 0;
    make_extent(first, pages, kLive);
    longshore_extent_at(first)->flags = zeroed ? kZeroed : 0;
    if (zeroed) all->zeroed += pages - kUnitPages;
    ++all->blocks;
    return 1;
}

void* longshore_heap_allocate(size_t bytes, size_t alignment, int zeroed) {
    if (__atomic_load_n(&all->opened, __ATOMIC_ACQUIRE) != 1 || bytes > all->heap.bytes ||
        alignment > all->heap.bytes)
        return NULL;
    const uint32_t pages = pages_of(bytes);
    /* A block begins with a unit. */
    const uint32_t slack =
        alignment > kUnitPages * kPageBytes ? (uint32_t)(alignment >> kPageShift) - kUnitPages : 0;
    const int error = errno;
    char* block = NULL;
    pthread_mutex_lock(&all->mutex);
    const int is_too_much = zeroed && pages - kUnitPages > all->zeroed_max - all->zeroed;
    uint32_t first = is_too_much ? kNone : take(pages + slack);
    uint32_t dirty_end = first;
    if (first != kNone && slack != 0) {
        const uintptr_t at = (uintptr_t)longshore_address_of(first + 1);
        const uint32_t skip = (uint32_t)(((at + alignment - 1) & ~(alignment - 1)) - at) >> kPageShift;
        if (skip != 0) longshore_extents_put_unused(first, skip);
        first += skip;
        if (slack > skip) longshore_extents_put_unused(first + pages, slack - skip);
    }
    if (first != kNone && make_block(first, pages, zeroed)) {
        dirty_end = use_pages(first, pages);
        block = longshore_address_of(first + 1);
        longshore_chunk_write(block, (size_t)(pages - 1) << kPageShift);
    } else {
        if (first != kNone) longshore_extents_put_unused(first, pages);
        if (!is_too_much) ++all->refused;
    }
    settle_and_unlock(pages);
    errno = error;
    if (block != NULL && zeroed && dirty_end > first + 1)
        memset(block, 0, (size_t)(dirty_end - first - 1) << kPageShift);
    return block;
}

/* Private pages become zero, and their memory the system's: not those of the file behind them. */
static int drop_private(uint32_t first, uint32_t pages) {
    const size_t bytes = (size_t)pages << kPageShift;
    char* const at = longshore_address_of(first);
    return syscall(SYS_mmap, at, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == (long)at
               ? 0
               : -1;
}

static int share_again(uint32_t first, uint32_t pages) {
    const size_t at = (size_t)first << kPageShift;
    if (!longshore_backing_show(&all->backing, longshore_address_of(first), at, (size_t)pages << kPageShift))
        return 0;
    longshore_bits_set(all->is_private, first, pages, 0);
    longshore_forget_apart(first, pages);
    return 1;
}

/* The pages of a block are free, and shared again if they were private: those have nothing in the file, so
 * that nothing of the block stays there. */
static void free_block(uint32_t first, uint32_t pages, int flags) {
    const int was_private = all->has_private && longshore_bits_any(all->is_private, first, pages);
    if (was_private && !share_again(first, pages))
        make_extent(first, pages, kLost);
    else if (was_private && !longshore_is_read_by_children(flags) && !all->keeps_all &&
             longshore_advise(first, pages, MADV_REMOVE) == 0)
        longshore_extents_put_unused(first, pages);
    else
        longshore_put_pages(first, pages, flags);
}

void longshore_heap_release(void* block) {
    const int error = errno; /* free() leaves it alone */
    pthread_mutex_lock(&all->mutex);
    extent* e = longshore_live_extent(block);
    const uint32_t first = longshore_page_of(block) - 1, pages = e->pages;
    e->state = kInside;
    all->live -= pages;
    --all->blocks;
    if ((e->flags & kZeroed) != 0) all->zeroed -= pages - kUnitPages;
    if (all->opened != 1) /* in a forked child, whose copy is private: nothing is taken from here any more */
        drop_private(first + 1, pages - 1);
    else
        free_block(first, pages, e->flags);
    settle_and_unlock(pages);
    errno = error;
}

size_t longshore_heap_usable(const void* block) {
    pthread_mutex_lock(&all->mutex);
    const size_t bytes = (size_t)(longshore_live_extent(block)->pages - 1) << kPageShift;
    pthread_mutex_unlock(&all->mutex);
    return bytes;
}

int longshore_heap_resize(void* block, size_t bytes) {
    if (bytes > all->heap.bytes) return 0;
    const uint32_t first = longshore_page_of(block) - 1, wanted = pages_of(bytes);
    pthread_mutex_lock(&all->mutex);
    extent* e = longshore_live_extent(block);
    int done = 1;
    uint32_t moved = 0;
    if (all->opened != 1 || (all->has_private && longshore_bits_any(all->is_private, first, e->pages))) {
        done = wanted <= e->pages;
    } else if (wanted < e->pages) {
        moved = e->pages - wanted;
        e->pages = wanted;
        all->live -= moved;
        if ((e->flags & kZeroed) != 0) all->zeroed -= moved;
        longshore_put_pages(first + wanted, moved, e->flags);
    } else if (wanted > e->pages) {
        const uint32_t more = wanted - e->pages, next = first + e->pages;
        done = take_here(next, more);
        if (done) {
            /* What it grows by is not zeroed: it is for writing. */
            if ((e->flags & kZeroed) != 0) all->zeroed -= e->pages - kUnitPages;
            e->flags &= (uint16_t)~kZeroed;
            moved = more;
            e->pages = wanted;
            use_pages(next, more);
        }
    }
    if (moved != 0) longshore_chunk_write(block, (size_t)(e->pages - 1) << kPageShift);
    settle_and_unlock(moved);
    return done;
}

longshore_heap_use longshore_heap_used(void) {
    pthread_mutex_lock(&all->mutex);
    const longshore_heap_use use = {(size_t)all->live << kPageShift,
                                    (size_t)longshore_extents_dirty() << kPageShift,
                                    (size_t)all->live_max << kPageShift,
                                    (size_t)all->adopted_pages << kPageShift,
                                    all->refused,
                                    (size_t)all->kept_max << kPageShift,
                                    all->given_back << kPageShift,
                                    longshore_private_bytes(),
                                    all->private_max};
    pthread_mutex_unlock(&all->mutex);
    return use;
}

void longshore_heap_read_memory_by(void (*read)(longshore_machine_memory*), int64_t again_ms) {
    pthread_mutex_lock(&all->mutex);
    all->read_memory = read;
    all->look_ms = again_ms;
    all->looked_ms = now_ms() - again_ms;
    pthread_mutex_unlock(&all->mutex);
}

void longshore_heap_keep(void) {
    pthread_mutex_lock(&all->mutex);
    all->keeps_all = 1;
    pthread_mutex_unlock(&all->mutex);
}

void longshore_heap_stop_growing(void) {
    pthread_mutex_lock(&all->mutex);
    all->grows = 0;
    pthread_mutex_unlock(&all->mutex);
}

/* As ordinary memory does, pages of a block that the program does not need any more come back as zeros. */
int longshore_heap_discard(void* at, size_t bytes) {
    const uint32_t end = longshore_page_of((char*)at + bytes + kPageBytes - 1);
    int result = 0;
    pthread_mutex_lock(&all->mutex);
    for (uint32_t page = longshore_page_of(at), next; page < end && result == 0; page = next) {
        next = all->opened == 1 ? longshore_bits_run(all->is_private, page, end) : end;
        char* const piece = longshore_address_of(page);
        const size_t piece_bytes = (size_t)(next - page) << kPageShift;
        if (all->opened != 1 || longshore_bits_any(all->is_private, page, 1))
            result = drop_private(page, next - page);
        else if (!all->keeps_all)
            result = (int)syscall(SYS_madvise, piece, piece_bytes, MADV_REMOVE);
        else
            memset(piece, 0, piece_bytes);
    }
    pthread_mutex_unlock(&all->mutex);
    return result;
}

/* Whether a block that others can reach by way of the file now holds all of it. Another thread may be freeing
 * other blocks meanwhile. */
static int is_private(uint32_t first, uint32_t end) {
    for (uint32_t word = first / 64; word <= (end - 1) / 64; ++word)
        if ((__atomic_load_n(&all->is_private[word], __ATOMIC_RELAXED) &
             longshore_bits_of(word, first, end)) != 0)
            return 1;
    return 0;
}

/* Whether the caller stands on a stack that lies in the same block: a child would begin there, on pages that
 * its parent has, too. */
static __attribute__((noinline)) int is_on_stack(const void* frame, const void* base) {
    uint32_t page = longshore_page_of(frame < base ? frame : base) + 1;
    const uint32_t end = longshore_page_of(frame < base ? base : frame) + 1;
    pthread_mutex_lock(&all->mutex);
    while (page < end && longshore_extent_at(page)->state == kInside) ++page;
    pthread_mutex_unlock(&all->mutex);
    return page == end;
}

int longshore_heap_open_buffer(const void* base, size_t bytes, int anywhere) {
    const void* const frame = __builtin_frame_address(0);
    const int is_here = longshore_heap_holds(base) && longshore_heap_holds((const char*)base + bytes - 1);
    if (bytes == 0 || !(is_here || anywhere)) return -1;
    if (__builtin_expect(longshore_heap_holds(frame), 0) && is_here && is_on_stack(frame, base)) return -1;
    const int place = longshore_open_buffers_add(base, bytes);
    if (place < 0 || !is_here || __builtin_expect(!__atomic_load_n(&all->has_private, __ATOMIC_RELAXED), 1))
        return place;
    if (!is_private(longshore_page_of(base), longshore_page_of((const char*)base + bytes - 1) + 1))
        return place;
    longshore_open_buffers_remove(place);
    return -1;
}

void longshore_heap_close_buffer(int place) {
    if (place >= 0) longshore_open_buffers_remove(place);
}

uint32_t longshore_heap_adopted_forks(void) {
    return __atomic_load_n(&all->adopted_forks, __ATOMIC_ACQUIRE);
}

static int is_adopted(const char* pages, size_t bytes) {
    for (uint32_t i = 0; i < all->adopted_count; ++i) {
        const char* const at = all->adopted[i].at;
        if (pages < at + ((size_t)all->adopted[i].pages << kPageShift) && pages + bytes > at) return 1;
    }
    return 0;
}

int longshore_heap_adopt(void* pages, size_t bytes, uint64_t* offset) {
    const int error = errno;
    int done = 0;
    pthread_mutex_lock(&all->mutex);
    const uint32_t count = (uint32_t)(bytes >> kPageShift);
    uint32_t first = kNone;
    if (all->opened == 1 && bytes < all->heap.bytes && all->adopted_count < kAdoptedMax &&
        !is_adopted(pages, bytes))
        first = take(whole_units(count));
    if (first != kNone) {
        uint32_t dirty_end;
        longshore_extents_use(first, whole_units(count), &dirty_end);
        *offset = (size_t)first << kPageShift;
        memcpy(longshore_address_of(first), pages, bytes);
        done = longshore_backing_show(&all->backing, pages, (size_t)*offset, bytes);
        if (done) {
            make_extent(first, whole_units(count), kAdopted);
            all->adopted[all->adopted_count].at = pages;
            all->adopted[all->adopted_count].first = first;
            all->adopted[all->adopted_count++].pages = count;
            all->adopted_pages += count;
        } else {
            longshore_extents_put(first, whole_units(count));
        }
    }
    pthread_mutex_unlock(&all->mutex);
    errno = error;
    return done;
}

/* --- making it */
void longshore_heap_prepare(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, longshore_watch_forks);
}

/* Mappings that a process may have. No stdio: it allocates. */
static uint32_t mappings_max(void) {
    char text[32] = "";
    const int file = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 65530;
    const long got = read(file, text, sizeof text - 1);
    close(file);
    const unsigned long most = got > 0 ? strtoul(text, NULL, 10) : 65530;
    return most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

static int make_heap(size_t bytes) {
    static const size_t kBookBits[kBookCount] = {8 * sizeof(extent), 1, 1, 1, 1};
    const uint32_t processors = (uint32_t)sysconf(_SC_NPROCESSORS_CONF);
    void* const page = mmap(NULL, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return 0;
    if (!longshore_backing_open(&all->backing, bytes, kBookBits)) {
        munmap(page, kPageBytes);
        return 0;
    }
    longshore_extents_begin(all->backing.books[0].base, all->backing.books[1].base);
    note_growth();
    all->apart = (uint64_t*)all->backing.books[2].base;
    all->is_private = (uint64_t*)all->backing.books[3].base;
    all->open = (uint64_t*)all->backing.books[4].base;
    /* Each page in front of a block makes two mappings of one: blocks and what was left by former ones take
     * at most half of those that there may be. */
    all->apart_max = mappings_max() / 4;
    all->blocks_max = all->apart_max / 2;
    all->children_done = page;
    longshore_keep_begin(&all->keep, processors);
    all->zeroed_max = (uint32_t)(bytes >> kPageShift) / 2 / (processors != 0 ? processors : 1);
    if (all->zeroed_max < kZeroedPagesMin) all->zeroed_max = kZeroedPagesMin;
    all->heap = (longshore_heap){all->backing.file, all->backing.identity, all->backing.pages.base,
                                 all->backing.is_far, bytes};
    return 1;
}

const longshore_heap* longshore_heap_open(size_t bytes_max) {
    if (__atomic_load_n(&all->opened, __ATOMIC_ACQUIRE) == 0) {
        const int error = errno;
        const size_t pages_there = (size_t)sysconf(_SC_PHYS_PAGES), page = (size_t)sysconf(_SC_PAGESIZE);
        size_t bytes = pages_there * page;
        if (bytes_max != 0 && bytes_max < bytes) bytes = bytes_max;
        if (bytes > (size_t)1 << 43) bytes = (size_t)1 << 43; /* pages are counted in 32 bits */
        bytes &= ~(size_t)(kPageBytes - 1);
        /* Larger ones (Arm has kernels with 64 KiB) cannot be given back, nor zeroed, one of ours at a time.
         */
        if (page != kPageBytes) bytes = 0;
        longshore_heap_prepare();
        pthread_mutex_lock(&all->mutex);
        if (all->opened == 0)
            __atomic_store_n(&all->opened, bytes >= 2 * kPageBytes && make_heap(bytes) ? 1 : -1,
                             __ATOMIC_RELEASE);
        pthread_mutex_unlock(&all->mutex);
        errno = error;
    }
    return longshore_heap_get();
}

const longshore_heap* longshore_heap_get(void) {
    return __atomic_load_n(&all->opened, __ATOMIC_ACQUIRE) == 1 ? &all->heap : NULL;
}
