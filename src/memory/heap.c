#define _GNU_SOURCE
#include "memory/heap.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "memory/backing.h"
#include "memory/extents.h"
#include "memory/fork_wait.h"
#include "memory/keep.h"

enum { kPageBytes = 4096, kPageShift = 12 };
/* Pages that go back to the system at a time, with the lock held: about a millisecond. */
enum { kSlicePagesMin = (1u << 20) / kPageBytes, kSlicePagesMax = (4u << 20) / kPageBytes };

enum { kAdoptedMax = 256 };
/* What a program has zeroed and only reads costs nothing in ordinary memory, and memory here. So no more of
 * it than a processor's share of half of the memory. */
enum { kZeroedPagesMin = (512u << 20) / kPageBytes };

static void read_machine(longshore_machine_memory* out) {
    longshore_read_machine_memory("", out);
}

static struct {
    pthread_mutex_t mutex;
    longshore_heap heap;
    longshore_backing backing;
    size_t there; /* bytes of it that have memory, or can have */
    int grows;    /* there may be more of them */
    uint32_t live, live_max, kept_max;
    uint32_t zeroed, zeroed_max; /* pages of blocks that were zeroed when they were allocated */
    uint64_t given_back;
    longshore_keep keep;        /* how many may be kept */
    int keeps_all;              /* pages are not given back */
    int looking;                /* some thread reads how much memory the machine has */
    int64_t looked_ms, look_ms; /* when that was last, and how long there is none after it */
    void (*read_memory)(longshore_machine_memory*);
    uint64_t refused;
    struct adopted {
        char* at;
        uint32_t first, pages;
    } adopted[kAdoptedMax]; /* mapped at `at`, too */
    uint32_t adopted_count, adopted_pages;
    int opened;     /* 1: there; -1: cannot be had, or not any more */
    int* fork_word; /* shared with a forked child */
    longshore_fork_wait fork_wait;
    int waits_in_fork;
} all = {.mutex = PTHREAD_MUTEX_INITIALIZER,
         .heap = {.file = -1},
         .backing = {.file = -1},
         .grows = 1,
         .read_memory = read_machine,
         .look_ms = 100};

static void* address_of(uint32_t page) {
    return (char*)all.heap.base + ((size_t)page << kPageShift);
}
static uint32_t page_of(const void* block) {
    return (uint32_t)((size_t)((const char*)block - (const char*)all.heap.base) >> kPageShift);
}

/* Pages that have been taken become part of a block; what it had before counts as live already. Returns the
 * end of those that may have something in them. */
static uint32_t use_pages(uint32_t first, uint32_t pages) {
    uint32_t dirty_end = first;
    const uint32_t dirty = longshore_extents_use(first, pages, &dirty_end);
    all.live += pages;
    if (all.live > all.live_max) all.live_max = all.live;
    longshore_keep_took(&all.keep, pages, pages - dirty, longshore_extents_dirty(), all.live_max);
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
    return all.keeps_all ? UINT32_MAX : longshore_keep_max(&all.keep, all.live);
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
    if (madvise(address_of(first), (size_t)count << kPageShift, MADV_REMOVE) != 0) {
        longshore_extents_pass_over();
        return 0;
    }
    const uint32_t given = longshore_extents_clean(first, count);
    all.given_back += given;
    longshore_keep_gave_back(&all.keep, given);
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
    if (all.keeps_all || all.opened != 1) {
        pthread_mutex_unlock(&all.mutex);
        return;
    }
    const int error = errno; /* allocating and freeing leave it alone */
    const int is_little =
        longshore_extents_dirty() <= kKeepLeastPages && longshore_extents_dirty() <= kept_pages_max();
    const int64_t now = is_little || all.looking ? 0 : now_ms();
    if (!is_little && !all.looking && now - all.looked_ms >= all.look_ms) {
        longshore_machine_memory memory;
        void (*const read_memory)(longshore_machine_memory*) = all.read_memory;
        all.looking = 1;
        pthread_mutex_unlock(&all.mutex);
        read_memory(&memory);
        pthread_mutex_lock(&all.mutex);
        all.looking = 0;
        all.looked_ms = now;
        longshore_keep_look(&all.keep, &memory, all.live, longshore_extents_dirty());
    }
    uint64_t budget = all.keep.is_short ? UINT64_MAX : 2 * (uint64_t)block_pages + kSlicePagesMin;
    while (longshore_extents_dirty() > kept_pages_max() && budget != 0) {
        const uint32_t over = longshore_extents_dirty() - kept_pages_max();
        const uint32_t done = give_back_slice(budget < over ? (uint32_t)budget : over);
        if (done == 0) break;
        budget -= done < budget ? done : budget;
        pthread_mutex_unlock(&all.mutex); /* others have a turn */
        pthread_mutex_lock(&all.mutex);
    }
    longshore_keep_freed(&all.keep, longshore_extents_dirty());
    if (longshore_extents_dirty() > all.kept_max) all.kept_max = longshore_extents_dirty();
    pthread_mutex_unlock(&all.mutex);
    errno = error;
}

static uint32_t pages_of(size_t bytes) {
    return bytes == 0 ? 1 : (uint32_t)((bytes + kPageBytes - 1) >> kPageShift);
}

static void note_growth(void) {
    longshore_extents_grow((uint32_t)(all.backing.pages.bytes >> kPageShift));
    __atomic_store_n(&all.there, all.backing.pages.bytes, __ATOMIC_RELAXED);
}

/* Pages behind those that are used, for so many more. */
static int grow(uint32_t pages) {
    const uint64_t bytes = longshore_extents_needed(pages) << kPageShift;
    if (!all.grows || bytes > all.heap.bytes || !longshore_backing_grow(&all.backing, (size_t)bytes))
        return 0;
    note_growth();
    return 1;
}

static uint32_t take(uint32_t pages) {
    const uint32_t first = longshore_extents_take(pages);
    return first == kNone && grow(pages) ? longshore_extents_take(pages) : first;
}

static int take_here(uint32_t first, uint32_t pages) {
    if (longshore_extents_take_here(first, pages)) return 1;
    /* Where the block ends with what is used, more may come behind it. */
    const uint64_t end = (uint64_t)first + pages, needed = longshore_extents_needed(0);
    return end > needed && (first == needed || first == longshore_extents_end()) &&
           grow((uint32_t)(end - needed)) && longshore_extents_take_here(first, pages);
}

void* longshore_heap_allocate(size_t bytes, size_t alignment, int zeroed) {
    if (__atomic_load_n(&all.opened, __ATOMIC_ACQUIRE) != 1 || bytes > all.heap.bytes ||
        alignment > all.heap.bytes)
        return NULL;
    const uint32_t pages = pages_of(bytes);
    const uint32_t slack = alignment > kPageBytes ? (uint32_t)(alignment >> kPageShift) - 1 : 0;
    const int error = errno;
    pthread_mutex_lock(&all.mutex);
    const int is_too_much = zeroed && pages > all.zeroed_max - all.zeroed;
    uint32_t first = is_too_much ? kNone : take(pages + slack);
    uint32_t dirty_end = first;
    if (first != kNone && slack != 0) {
        const uintptr_t at = (uintptr_t)address_of(first);
        const uint32_t skip = (uint32_t)(((at + alignment - 1) & ~(alignment - 1)) - at) >> kPageShift;
        if (skip != 0) longshore_extents_put_unused(first, skip);
        first += skip;
        if (slack > skip) longshore_extents_put_unused(first + pages, slack - skip);
    }
    if (first != kNone) {
        make_extent(first, pages, kLive);
        longshore_extent_at(first)->is_zeroed = zeroed != 0;
        if (zeroed) all.zeroed += pages;
        dirty_end = use_pages(first, pages);
    } else if (!is_too_much) {
        ++all.refused;
    }
    settle_and_unlock(pages);
    errno = error;
    if (first == kNone) return NULL;
    if (zeroed) memset(address_of(first), 0, (size_t)(dirty_end - first) << kPageShift);
    return address_of(first);
}

/* Not by libc's function, whose name the library has itself, for the program: it would lead back here. */
static int drop_private(void* at, size_t bytes) {
    return (int)syscall(SYS_madvise, at, bytes, MADV_DONTNEED);
}

static extent* live_at(const void* block) {
    extent* e = longshore_extent_at(page_of(block));
    /* As glibc does where it sees that its caller has freed what he did not have. */
    if (e->state != kLive || ((uintptr_t)block & (kPageBytes - 1)) != 0) abort();
    return e;
}

void longshore_heap_release(void* block) {
    const int error = errno; /* free() leaves it alone */
    pthread_mutex_lock(&all.mutex);
    extent* e = live_at(block);
    const uint32_t pages = e->pages;
    e->state = kInside;
    all.live -= pages;
    if (e->is_zeroed) all.zeroed -= pages;
    if (all.opened == 1)
        longshore_extents_put(page_of(block), pages);
    else /* in a forked child, whose copy is private: nothing is taken from here any more */
        drop_private(block, (size_t)pages << kPageShift);
    settle_and_unlock(pages);
    errno = error;
}

size_t longshore_heap_usable(const void* block) {
    pthread_mutex_lock(&all.mutex);
    const size_t bytes = (size_t)live_at(block)->pages << kPageShift;
    pthread_mutex_unlock(&all.mutex);
    return bytes;
}

int longshore_heap_resize(void* block, size_t bytes) {
    if (bytes > all.heap.bytes) return 0;
    const uint32_t first = page_of(block), wanted = pages_of(bytes);
    pthread_mutex_lock(&all.mutex);
    extent* e = live_at(block);
    int done = 1;
    uint32_t moved = 0;
    if (all.opened != 1) {
        done = wanted <= e->pages;
    } else if (wanted < e->pages) {
        moved = e->pages - wanted;
        e->pages = wanted;
        all.live -= moved;
        if (e->is_zeroed) all.zeroed -= moved;
        longshore_extents_put(first + wanted, moved);
    } else if (wanted > e->pages) {
        const uint32_t more = wanted - e->pages, next = first + e->pages;
        done = take_here(next, more);
        if (done) {
            /* What it grows by is not zeroed: it is for writing. */
            if (e->is_zeroed) all.zeroed -= e->pages;
            e->is_zeroed = 0;
            moved = more;
            e->pages = wanted;
            use_pages(next, more);
        }
    }
    settle_and_unlock(moved);
    return done;
}

int longshore_heap_holds(const void* block) {
    const size_t offset = (size_t)((const char*)block - (const char*)all.heap.base);
    return offset < __atomic_load_n(&all.there, __ATOMIC_RELAXED);
}

longshore_heap_use longshore_heap_used(void) {
    pthread_mutex_lock(&all.mutex);
    const longshore_heap_use use = {(size_t)all.live << kPageShift,
                                    (size_t)longshore_extents_dirty() << kPageShift,
                                    (size_t)all.live_max << kPageShift,
                                    (size_t)all.adopted_pages << kPageShift,
                                    all.refused,
                                    (size_t)all.kept_max << kPageShift,
                                    all.given_back << kPageShift};
    pthread_mutex_unlock(&all.mutex);
    return use;
}

void longshore_heap_read_memory_by(void (*read)(longshore_machine_memory*), int64_t again_ms) {
    pthread_mutex_lock(&all.mutex);
    all.read_memory = read;
    all.look_ms = again_ms;
    all.looked_ms = now_ms() - again_ms;
    pthread_mutex_unlock(&all.mutex);
}

void longshore_heap_keep(void) {
    pthread_mutex_lock(&all.mutex);
    all.keeps_all = 1;
    pthread_mutex_unlock(&all.mutex);
}

void longshore_heap_stop_growing(void) {
    pthread_mutex_lock(&all.mutex);
    all.grows = 0;
    pthread_mutex_unlock(&all.mutex);
}

/* As ordinary memory does, pages of a block that the program does not need any more come back as zeros. */
int longshore_heap_discard(void* at, size_t bytes) {
    pthread_mutex_lock(&all.mutex);
    const int is_private = all.opened != 1, keeps = all.keeps_all;
    pthread_mutex_unlock(&all.mutex);
    if (is_private) return drop_private(at, bytes);
    if (!keeps) return madvise(at, bytes, MADV_REMOVE);
    memset(at, 0, bytes);
    return 0;
}

int longshore_heap_adopt(void* pages, size_t bytes, uint64_t* offset) {
    const int error = errno;
    int done = 0;
    pthread_mutex_lock(&all.mutex);
    const uint32_t count = (uint32_t)(bytes >> kPageShift);
    uint32_t first = kNone;
    if (all.opened == 1 && bytes < all.heap.bytes && all.adopted_count < kAdoptedMax) first = take(count);
    if (first != kNone) {
        uint32_t dirty_end;
        longshore_extents_use(first, count, &dirty_end);
        *offset = (size_t)first << kPageShift;
        memcpy(address_of(first), pages, bytes);
        done = longshore_backing_show(&all.backing, pages, (size_t)*offset, bytes);
        if (done) {
            make_extent(first, count, kAdopted);
            all.adopted[all.adopted_count++] = (struct adopted){pages, first, count};
            all.adopted_pages += count;
        } else {
            longshore_extents_put(first, count);
        }
    }
    pthread_mutex_unlock(&all.mutex);
    errno = error;
    return done;
}

/* --- fork. A child must have its own copy, but these pages are shared: the child copies them at once, and
 * the parent waits until it has. */
static void before_fork(void) {
    pthread_mutex_lock(&all.mutex);
    all.waits_in_fork = all.opened == 1 && all.live + all.adopted_pages != 0;
    if (all.waits_in_fork) longshore_fork_wait_begin(&all.fork_wait, all.fork_word);
}

static void after_fork_in_parent(void) {
    if (all.waits_in_fork) longshore_fork_wait_in_parent(&all.fork_wait);
    pthread_mutex_unlock(&all.mutex);
}

static int copy_blocks(const longshore_copying* copying) {
    int done = 1;
    for (uint32_t page = 1, pages; page < longshore_extents_end(); page += pages) {
        pages = longshore_extent_at(page)->pages;
        if (longshore_extent_at(page)->state == kLive)
            done &= longshore_backing_copy(copying, address_of(page), (size_t)page << kPageShift,
                                           (size_t)pages << kPageShift, 0);
    }
    for (uint32_t i = 0; i < all.adopted_count; ++i)
        done &= longshore_backing_copy(copying, all.adopted[i].at, (size_t)all.adopted[i].first << kPageShift,
                                       (size_t)all.adopted[i].pages << kPageShift, 1);
    return done;
}

static void after_fork_in_child(void) {
    static const char kWithout[] =
        "longshore: a forked process cannot have a copy of its parent's large blocks: out of memory\n";
    pthread_mutex_init(&all.mutex, NULL); /* its owner is a thread of the parent */
    if (all.opened == 1) {
        longshore_copying copying;
        const int done = longshore_backing_leave(&all.backing, &copying) && copy_blocks(&copying);
        longshore_backing_left(&all.backing, &copying);
        if (!done && write(STDERR_FILENO, kWithout, sizeof kWithout - 1) < 0) {
        } /* nobody to tell */
        all.heap.file = -1;
    }
    all.opened = -1;
    if (all.waits_in_fork) longshore_fork_wait_end_in_child(&all.fork_wait);
    all.waits_in_fork = 0;
}

/* --- making it */
static void watch_forks(void) {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void longshore_heap_prepare(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
}

static int make_heap(size_t bytes) {
    static const size_t kBookBits[kBookCount] = {8 * sizeof(extent), 1};
    const uint32_t processors = (uint32_t)sysconf(_SC_NPROCESSORS_CONF);
    void* const page = mmap(NULL, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return 0;
    if (!longshore_backing_open(&all.backing, bytes, kBookBits)) {
        munmap(page, kPageBytes);
        return 0;
    }
    longshore_extents_begin(all.backing.books[0].base, all.backing.books[1].base);
    note_growth();
    all.fork_word = page;
    longshore_keep_begin(&all.keep, processors);
    all.zeroed_max = (uint32_t)(bytes >> kPageShift) / 2 / (processors != 0 ? processors : 1);
    if (all.zeroed_max < kZeroedPagesMin) all.zeroed_max = kZeroedPagesMin;
    all.heap = (longshore_heap){all.backing.file, all.backing.identity, all.backing.pages.base, bytes};
    return 1;
}

const longshore_heap* longshore_heap_open(size_t bytes_max) {
    if (__atomic_load_n(&all.opened, __ATOMIC_ACQUIRE) == 0) {
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
        pthread_mutex_lock(&all.mutex);
        if (all.opened == 0)
            __atomic_store_n(&all.opened, bytes >= 2 * kPageBytes && make_heap(bytes) ? 1 : -1,
                             __ATOMIC_RELEASE);
        pthread_mutex_unlock(&all.mutex);
        errno = error;
    }
    return longshore_heap_get();
}

const longshore_heap* longshore_heap_get(void) {
    return __atomic_load_n(&all.opened, __ATOMIC_ACQUIRE) == 1 ? &all.heap : NULL;
}
