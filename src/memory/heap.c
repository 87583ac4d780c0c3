#define _GNU_SOURCE
#include "memory/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "memory/keep.h"

/* Pages in extents, free ones in lists by size: two levels, as in TLSF (Masmano et al., ECRTS 2004). What
 * describes an extent lies beside the heap, not in it: no overrun of a block reaches it, and no page is
 * touched to keep books. */
enum {
    kPageBytes = 4096,
    kPageShift = 12,
    kSubBits = 3,
    kSubs = 1 << kSubBits,
    kClasses = 32,
    kNone = 0, /* page 0 is never given out */
};
/* Pages that go back to the system at a time, with the lock held: about a millisecond. */
enum { kSlicePagesMin = (1u << 20) / kPageBytes, kSlicePagesMax = (4u << 20) / kPageBytes };

enum { kInside = 0, kLive, kFree, kAdopted }; /* of an extent's first page; the pages behind it are inside */
enum { kAdoptedMax = 256 };
typedef struct extent {
    uint32_t pages;          /* of the extent that begins here */
    uint32_t before;         /* pages of the free extent that ends here, in its last page; else 0 */
    uint32_t next, previous; /* in the list of free extents */
    uint32_t state;
    uint32_t dirty;        /* free: so many of its pages may have been touched since the system gave them */
    uint32_t older, newer; /* free, and some dirty: in the list of those by when they were freed */
} extent;

static void read_machine(longshore_node_memory* out) {
    longshore_read_node_memory("", out);
}

static struct {
    pthread_mutex_t mutex;
    longshore_heap heap;
    extent* extents;     /* by page */
    uint64_t* dirty;     /* a bit per page: it is free, and may have been touched since the system gave it */
    uint32_t page_count; /* of the reservation */
    uint32_t top;        /* pages from here on have never been used */
    uint32_t live, live_max, kept, kept_max;
    uint64_t given_back;
    uint32_t oldest, newest;    /* of the free extents that have dirty pages */
    longshore_keep keep;        /* how many may be kept */
    int keeps_all;              /* pages are not given back */
    int looking;                /* some thread reads how much memory the machine has */
    int64_t looked_ms, look_ms; /* when that was last, and how long there is none after it */
    void (*read_memory)(longshore_node_memory*);
    uint64_t refused;
    uint32_t class_bits;
    uint8_t sub_bits[kClasses];
    uint32_t free_lists[kClasses][kSubs];
    struct adopted {
        char* at;
        uint32_t first, pages;
    } adopted[kAdoptedMax]; /* mapped at `at`, too */
    uint32_t adopted_count, adopted_pages;
    int opened; /* 1: there; -1: cannot be had, or not any more */
    struct fork_page {
        int copied; /* shared with the child */
    } * fork_page;
    int fork_pipe[2];
} all = {.mutex = PTHREAD_MUTEX_INITIALIZER,
         .heap = {.file = -1},
         .fork_pipe = {-1, -1},
         .read_memory = read_machine,
         .look_ms = 100};

static void* address_of(uint32_t page) {
    return (char*)all.heap.base + ((size_t)page << kPageShift);
}
static uint32_t page_of(const void* block) {
    return (uint32_t)((size_t)((const char*)block - (const char*)all.heap.base) >> kPageShift);
}

/* --- free lists */
/* The class whose extents all have at least as many pages, if `up`; else the one that an extent of so many is
 * in. */
static void class_of(uint32_t pages, int up, uint32_t* class, uint32_t* sub) {
    if (pages < kSubs) {
        *class = 0;
        *sub = pages;
        return;
    }
    uint32_t high = 31u - (uint32_t)__builtin_clz(pages);
    if (up) {
        pages += (1u << (high - kSubBits)) - 1;
        high = 31u - (uint32_t)__builtin_clz(pages);
    }
    *class = high - kSubBits + 1;
    *sub = pages >> (high - kSubBits) & (kSubs - 1);
}

static uint32_t at_most(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* --- free extents with dirty pages, by age */
static void append_dirty(uint32_t first) {
    all.extents[first].older = all.newest;
    all.extents[first].newer = kNone;
    if (all.newest != kNone)
        all.extents[all.newest].newer = first;
    else
        all.oldest = first;
    all.newest = first;
}

static void unlink_dirty(uint32_t first) {
    const extent* e = &all.extents[first];
    if (e->older != kNone)
        all.extents[e->older].newer = e->newer;
    else
        all.oldest = e->newer;
    if (e->newer != kNone)
        all.extents[e->newer].older = e->older;
    else
        all.newest = e->older;
}

/* --- which pages are dirty */
/* The bits of word `word` that stand for pages of [first, end). */
static uint64_t bits_of(uint32_t word, uint32_t first, uint32_t end) {
    const uint32_t begin = word * 64;
    uint64_t bits = ~(uint64_t)0;
    if (first > begin) bits &= ~(uint64_t)0 << (first - begin);
    if (end < begin + 64) bits &= ~(uint64_t)0 >> (begin + 64 - end);
    return bits;
}

static uint32_t count_dirty(uint32_t first, uint32_t pages) {
    uint32_t count = 0;
    for (uint32_t word = first / 64; pages != 0 && word <= (first + pages - 1) / 64; ++word)
        count += (uint32_t)__builtin_popcountll(all.dirty[word] & bits_of(word, first, first + pages));
    return count;
}

static void set_dirty(uint32_t first, uint32_t pages, int dirty) {
    for (uint32_t word = first / 64; word <= (first + pages - 1) / 64; ++word) {
        const uint64_t bits = bits_of(word, first, first + pages);
        if (dirty)
            all.dirty[word] |= bits;
        else
            all.dirty[word] &= ~bits;
    }
}

/* The page behind the last dirty one; `first` if there is none. */
static uint32_t end_of_dirty(uint32_t first, uint32_t pages) {
    for (uint32_t word = (first + pages - 1) / 64 + 1; word-- > first / 64;) {
        const uint64_t bits = all.dirty[word] & bits_of(word, first, first + pages);
        if (bits != 0) return word * 64 + 64 - (uint32_t)__builtin_clzll(bits);
    }
    return first;
}

static void push_free(uint32_t first, uint32_t pages, uint32_t dirty) {
    extent* e = &all.extents[first];
    uint32_t class, sub;
    class_of(pages, 0, &class, &sub);
    uint32_t* head = &all.free_lists[class][sub];
    *e = (extent){.pages = pages, .before = e->before, .next = *head, .state = kFree, .dirty = dirty};
    all.extents[first + pages - 1].before = pages;
    if (*head != kNone) all.extents[*head].previous = first;
    *head = first;
    all.class_bits |= 1u << class;
    all.sub_bits[class] |= (uint8_t)(1u << sub);
    all.kept += dirty;
    if (dirty != 0) append_dirty(first);
}

static void remove_free(uint32_t first) {
    extent* e = &all.extents[first];
    uint32_t class, sub;
    class_of(e->pages, 0, &class, &sub);
    if (e->previous != kNone)
        all.extents[e->previous].next = e->next;
    else
        all.free_lists[class][sub] = e->next;
    if (e->next != kNone) all.extents[e->next].previous = e->previous;
    if (all.free_lists[class][sub] == kNone) {
        all.sub_bits[class] &= (uint8_t) ~(1u << sub);
        if (all.sub_bits[class] == 0) all.class_bits &= ~(1u << class);
    }
    all.extents[first + e->pages - 1].before = 0;
    all.kept -= e->dirty;
    if (e->dirty != 0) unlink_dirty(first);
    e->state = kInside;
}

/* Some free extent of at least so many pages; kNone if the lists have none. */
static uint32_t find_free(uint32_t pages) {
    uint32_t class, sub;
    class_of(pages, 1, &class, &sub);
    if (class >= kClasses) return kNone;
    uint32_t bits = all.sub_bits[class] & (0xffu << sub);
    if (bits == 0) {
        uint32_t classes = class + 1 < kClasses ? all.class_bits & (~0u << (class + 1)) : 0;
        if (classes == 0) return kNone;
        class = (uint32_t)__builtin_ctz(classes);
        bits = all.sub_bits[class];
    }
    return all.free_lists[class][__builtin_ctz(bits)];
}

/* --- extents */
/* Back to the lists, together with free neighbours. `dirty`: so many of the pages are. */
static void free_pages(uint32_t first, uint32_t pages, uint32_t dirty) {
    const uint32_t before = all.extents[first - 1].before;
    if (before != 0) {
        first -= before;
        pages += before;
        dirty += all.extents[first].dirty;
        remove_free(first);
    }
    const uint32_t next = first + pages;
    if (next < all.top && all.extents[next].state == kFree) {
        pages += all.extents[next].pages;
        dirty += all.extents[next].dirty;
        remove_free(next);
    }
    push_free(first, pages, dirty);
}

/* Those that a block had, which may have written to all of them. */
static void free_used_pages(uint32_t first, uint32_t pages) {
    set_dirty(first, pages, 1);
    free_pages(first, pages, pages);
}

/* So many of a free extent's first pages, free of any list; the others stay in one. */
static void take_first_of(uint32_t first, uint32_t pages) {
    const uint32_t have = all.extents[first].pages, dirty = all.extents[first].dirty;
    remove_free(first);
    if (have == pages) return;
    const uint32_t rest = dirty == 0 ? 0 : dirty == have ? have - pages : dirty - count_dirty(first, pages);
    push_free(first + pages, have - pages, rest);
}

/* So many pages, free of any list. */
static uint32_t take_pages(uint32_t pages) {
    const uint32_t tail = all.extents[all.top - 1].before; /* free ones that end where the untouched begin */
    uint32_t first = find_free(pages);
    if (first == kNone && tail >= pages) first = all.top - tail;
    if (first != kNone) {
        take_first_of(first, pages);
        return first;
    }
    if (pages > tail + (all.page_count - all.top)) return kNone;
    first = all.top - tail;
    if (tail != 0) remove_free(first);
    all.top = first + pages;
    return first;
}

/* Pages that have been taken become part of a block. Returns the end of those that may have something in
 * them. */
static uint32_t use_pages(uint32_t first, uint32_t pages) {
    const uint32_t end = end_of_dirty(first, pages), dirty = count_dirty(first, end - first);
    if (dirty != 0) set_dirty(first, end - first, 0);
    longshore_keep_took(&all.keep, pages, pages - dirty, all.kept, all.live_max);
    return end;
}

static void make_live(uint32_t first, uint32_t pages) {
    all.extents[first].pages = pages;
    all.extents[first].state = kLive;
    all.live += pages;
    if (all.live > all.live_max) all.live_max = all.live;
}

/* --- giving back */
static uint32_t kept_pages_max(void) {
    return all.keeps_all ? UINT32_MAX : longshore_keep_max(&all.keep, all.live);
}

/* Gives the end of the extent that has been free for longest back to the system, at most about `pages`.
 * Returns how many that were; 0: there is nothing, or the system does not take it. */
static uint32_t give_back_slice(uint32_t pages) {
    const uint32_t first = all.oldest;
    if (first == kNone) return 0;
    extent* e = &all.extents[first];
    if (pages < kSlicePagesMin) pages = kSlicePagesMin;
    const uint32_t end = end_of_dirty(first, e->pages),
                   count = at_most(at_most(pages, kSlicePagesMax), end - first);
    /* By address, not by descriptor: the program may have closed that, and opened something else. What it has
     * locked in memory (mlock, mlockall) stays, with what is in it. */
    if (madvise(address_of(end - count), (size_t)count << kPageShift, MADV_REMOVE) != 0) {
        unlink_dirty(first);
        append_dirty(first);
        return 0;
    }
    const uint32_t given = count_dirty(end - count, count);
    set_dirty(end - count, count, 0);
    e->dirty -= given;
    if (e->dirty == 0) unlink_dirty(first);
    all.kept -= given;
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
    const int is_little = all.kept <= kKeepLeastPages && all.kept <= kept_pages_max();
    const int64_t now = is_little || all.looking ? 0 : now_ms();
    if (!is_little && !all.looking && now - all.looked_ms >= all.look_ms) {
        longshore_node_memory memory;
        void (*const read_memory)(longshore_node_memory*) = all.read_memory;
        all.looking = 1;
        pthread_mutex_unlock(&all.mutex);
        read_memory(&memory);
        pthread_mutex_lock(&all.mutex);
        all.looking = 0;
        all.looked_ms = now;
        longshore_keep_look(&all.keep, &memory, all.live, all.kept);
    }
    uint64_t budget = all.keep.is_short ? UINT64_MAX : 2 * (uint64_t)block_pages + kSlicePagesMin;
    while (all.kept > kept_pages_max() && budget != 0) {
        const uint32_t over = all.kept - kept_pages_max();
        const uint32_t done = give_back_slice(budget < over ? (uint32_t)budget : over);
        if (done == 0) break;
        budget -= done < budget ? done : budget;
        pthread_mutex_unlock(&all.mutex); /* others have a turn */
        pthread_mutex_lock(&all.mutex);
    }
    longshore_keep_freed(&all.keep, all.kept);
    if (all.kept > all.kept_max) all.kept_max = all.kept;
    pthread_mutex_unlock(&all.mutex);
    errno = error;
}

static uint32_t pages_of(size_t bytes) {
    return bytes == 0 ? 1 : (uint32_t)((bytes + kPageBytes - 1) >> kPageShift);
}

void* longshore_heap_allocate(size_t bytes, size_t alignment, int zeroed) {
    if (__atomic_load_n(&all.opened, __ATOMIC_ACQUIRE) != 1 || bytes > all.heap.bytes ||
        alignment > all.heap.bytes)
        return NULL;
    const uint32_t pages = pages_of(bytes);
    const uint32_t slack = alignment > kPageBytes ? (uint32_t)(alignment >> kPageShift) - 1 : 0;
    pthread_mutex_lock(&all.mutex);
    uint32_t first = pages + slack <= all.page_count ? take_pages(pages + slack) : kNone;
    uint32_t dirty_end = first;
    if (first != kNone && slack != 0) {
        const uintptr_t at = (uintptr_t)address_of(first);
        const uint32_t skip = (uint32_t)(((at + alignment - 1) & ~(alignment - 1)) - at) >> kPageShift;
        if (skip != 0) free_pages(first, skip, count_dirty(first, skip));
        first += skip;
        if (slack > skip) free_pages(first + pages, slack - skip, count_dirty(first + pages, slack - skip));
    }
    if (first != kNone) {
        make_live(first, pages);
        dirty_end = use_pages(first, pages);
    } else {
        ++all.refused;
    }
    settle_and_unlock(pages);
    if (first == kNone) return NULL;
    if (zeroed) memset(address_of(first), 0, (size_t)(dirty_end - first) << kPageShift);
    return address_of(first);
}

static extent* live_at(const void* block) {
    extent* e = &all.extents[page_of(block)];
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
    if (all.opened == 1)
        free_used_pages(page_of(block), pages);
    else /* in a forked child, whose copy is private: nothing is taken from here any more */
        madvise(block, (size_t)pages << kPageShift, MADV_DONTNEED);
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
        free_used_pages(first + wanted, moved);
    } else if (wanted > e->pages) {
        const uint32_t more = wanted - e->pages, next = first + e->pages;
        const uint32_t have =
            next < all.top && all.extents[next].state == kFree ? all.extents[next].pages : 0;
        if (have >= more) {
            take_first_of(next, more);
        } else if (next == all.top && more <= all.page_count - all.top) {
            all.top += more;
        } else {
            done = 0;
        }
        if (done) {
            moved = more;
            all.live -= e->pages;
            make_live(first, wanted);
            use_pages(next, more);
        }
    }
    settle_and_unlock(moved);
    return done;
}

int longshore_heap_holds(const void* block) {
    const size_t offset = (size_t)((const char*)block - (const char*)all.heap.base);
    return offset < all.heap.bytes; /* bytes is 0 until there is one */
}

longshore_heap_use longshore_heap_used(void) {
    pthread_mutex_lock(&all.mutex);
    const longshore_heap_use use = {(size_t)all.live << kPageShift,
                                    (size_t)all.kept << kPageShift,
                                    (size_t)all.live_max << kPageShift,
                                    (size_t)all.adopted_pages << kPageShift,
                                    all.refused,
                                    (size_t)all.kept_max << kPageShift,
                                    all.given_back << kPageShift};
    pthread_mutex_unlock(&all.mutex);
    return use;
}

void longshore_heap_read_memory_by(void (*read)(longshore_node_memory*), int64_t again_ms) {
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

int longshore_heap_adopt(void* pages, size_t bytes, uint64_t* offset) {
    const int error = errno;
    int done = 0;
    pthread_mutex_lock(&all.mutex);
    const uint32_t count = (uint32_t)(bytes >> kPageShift);
    uint32_t first = kNone;
    if (all.opened == 1 && bytes < all.heap.bytes && all.adopted_count < kAdoptedMax)
        first = take_pages(count);
    if (first != kNone) {
        use_pages(first, count);
        *offset = (size_t)first << kPageShift;
        memcpy(address_of(first), pages, bytes);
        /* By libc's function: whoever watches what is mapped (registration caches of networks) is told. */
        done = mmap(pages, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                    all.heap.file, (off_t)*offset) == pages;
        all.extents[first].pages = count;
        if (done) {
            all.extents[first].state = kAdopted;
            all.adopted[all.adopted_count++] = (struct adopted){pages, first, count};
            all.adopted_pages += count;
        } else {
            free_used_pages(first, count);
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
    all.fork_pipe[0] = all.fork_pipe[1] = -1;
    if (all.opened != 1 || all.live + all.adopted_pages == 0) return;
    all.fork_page->copied = 0;
    if (pipe2(all.fork_pipe, O_CLOEXEC) != 0) all.fork_pipe[0] = all.fork_pipe[1] = -1;
}

static void after_fork_in_parent(void) {
    if (all.opened == 1 && all.live + all.adopted_pages != 0) {
        const int error = errno;
        char byte;
        if (all.fork_pipe[1] >= 0) {
            /* Ends when the child has closed its end, be it because it is gone. */
            close(all.fork_pipe[1]);
            while (read(all.fork_pipe[0], &byte, 1) < 0 && errno == EINTR) {
            }
            close(all.fork_pipe[0]);
        } else {
            for (int i = 0; i < 10000 && !__atomic_load_n(&all.fork_page->copied, __ATOMIC_ACQUIRE); ++i)
                usleep(1000);
        }
        errno = error;
    }
    pthread_mutex_unlock(&all.mutex);
}

/* Private pages at `at` in the place of shared ones. Untouched ones stay so where the file can tell which
 * they are. */
static void copy_pages(char* at, uint32_t first, uint32_t pages, int file) {
    const size_t bytes = (size_t)pages << kPageShift;
    const off_t begin = (off_t)((size_t)first << kPageShift), end = begin + (off_t)bytes;
    char* const copy =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (copy == MAP_FAILED) {
        /* The next best: its writes are its own, and it may see some of the parent's later ones. */
        if (file >= 0)
            mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, begin);
        return;
    }
    for (off_t data = begin; data < end;) {
        off_t hole = end;
        if (file >= 0) {
            data = lseek(file, data, SEEK_DATA);
            if (data < 0 || data >= end) break;
            hole = lseek(file, data, SEEK_HOLE);
            if (hole < 0 || hole > end) hole = end;
        }
        memcpy(copy + (data - begin), at + (data - begin), (size_t)(hole - data));
        data = hole;
    }
    /* Not by libc's function: libraries that watch it (UCX 1.13) lose its last argument. */
    syscall(SYS_mremap, copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at);
}

static void after_fork_in_child(void) {
    pthread_mutex_init(&all.mutex, NULL); /* its owner is a thread of the parent */
    if (all.opened == 1) {
        struct stat file;
        const int ours = fstat(all.heap.file, &file) == 0 && file.st_ino == all.heap.identity;
        for (uint32_t page = 1; page < all.top; page += all.extents[page].pages)
            if (all.extents[page].state == kLive)
                copy_pages(address_of(page), page, all.extents[page].pages, ours ? all.heap.file : -1);
        for (uint32_t i = 0; i < all.adopted_count; ++i)
            copy_pages(all.adopted[i].at, all.adopted[i].first, all.adopted[i].pages,
                       ours ? all.heap.file : -1);
        all.opened = -1;
        if (ours) close(all.heap.file);
        all.heap.file = -1;
        __atomic_store_n(&all.fork_page->copied, 1, __ATOMIC_RELEASE);
    }
    if (all.fork_pipe[0] >= 0) close(all.fork_pipe[0]);
    if (all.fork_pipe[1] >= 0) close(all.fork_pipe[1]);
}

/* --- making it */
/* Programs count on low descriptors: daemons close them, shells number them. */
static int out_of_the_way(int file) {
    const int high = fcntl(file, F_DUPFD_CLOEXEC, 800);
    if (high < 0) return file;
    close(file);
    return high;
}

/* Whether a file of the system holds the text. No stdio: it allocates. */
static int says(const char* path, const char* text) {
    char line[64] = "";
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    const int found = read(file, line, sizeof line - 1) > 0 && strstr(line, text) != NULL;
    close(file);
    return found;
}

static int make_heap(size_t bytes) {
    const size_t pages = bytes >> kPageShift,
                 table = pages * sizeof(extent) + (pages / 64 + 1) * sizeof(uint64_t);
    struct stat file;
    /* Without overcommitment a page of a file that cannot be had is a SIGBUS, where malloc would have
     * returned null. */
    if (says("/proc/sys/vm/overcommit_memory", "2")) return 0;
    int fd = memfd_create("longshore-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return 0;
    fd = out_of_the_way(fd);
    void* base = MAP_FAILED;
    void* extents =
        mmap(NULL, table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void* page = mmap(NULL, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (extents != MAP_FAILED && page != MAP_FAILED && ftruncate(fd, (off_t)bytes) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0 && fstat(fd, &file) == 0)
        base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED || pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0) {
        if (base != MAP_FAILED) munmap(base, bytes);
        if (extents != MAP_FAILED) munmap(extents, table);
        if (page != MAP_FAILED) munmap(page, kPageBytes);
        close(fd);
        return 0;
    }
    /* Where ordinary memory gets huge pages unasked, this does as well, if the system lets shared memory have
     * them. */
    if (says("/sys/kernel/mm/transparent_hugepage/enabled", "[always]")) madvise(base, bytes, MADV_HUGEPAGE);
    all.extents = extents;
    all.dirty = (uint64_t*)((extent*)extents + pages);
    all.fork_page = page;
    all.page_count = (uint32_t)pages;
    all.top = 1;
    longshore_keep_begin(&all.keep, (uint32_t)sysconf(_SC_NPROCESSORS_CONF));
    all.heap = (longshore_heap){fd, file.st_ino, base, bytes};
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
