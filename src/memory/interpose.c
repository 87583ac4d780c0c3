#define _GNU_SOURCE
#include "memory/interpose.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "memory/chunk.h"
#include "memory/heap.h"

#define SHOWN __attribute__((visibility("default")))

enum {
    kLargeBytes = 64 * 1024,
    kPageBytes = 4096,
    kEarlyBytes = 8 * 1024,
};

static int serving = 0; /* a stale value only means one more block here or elsewhere */
static const char* not_served = NULL;
static size_t bytes_max = 0; /* of the heap, when it is made; 0: the machine's memory */

/* Of the next library in the order of symbols: libc's, or an allocator that the program brings. */
static struct {
    void* (*malloc)(size_t);
    void* (*calloc)(size_t, size_t);
    void* (*realloc)(void*, size_t);
    void (*free)(void*);
    void* (*memalign)(size_t, size_t);
    void* (*aligned_alloc)(size_t, size_t);
    int (*posix_memalign)(void**, size_t, size_t);
    void* (*valloc)(size_t);
    void* (*pvalloc)(size_t);
    size_t (*malloc_usable_size)(void*);
    int (*madvise)(void*, size_t, int);
} next;

/* What dlsym itself allocates while it is asked for `next`. Never given back. */
static char early[kEarlyBytes] __attribute__((aligned(16)));
static size_t early_used = 0;

static int is_early(const void* block) {
    return (size_t)((const char*)block - early) < sizeof early;
}

static void* early_allocate(size_t bytes) {
    bytes = (bytes + 15) & ~(size_t)15;
    const size_t at = __atomic_fetch_add(&early_used, bytes, __ATOMIC_RELAXED);
    return at + bytes <= sizeof early ? early + at : NULL;
}

static __attribute__((noinline)) int find_next(void) {
    /* Volatile: libc's header promises that dlsym calls nothing of ours, but it allocates. */
    static __thread volatile int finding __attribute__((tls_model("initial-exec"))) = 0;
    if (finding) return 0;
    finding = 1;
#define FIND(name) *(void**)&next.name = dlsym(RTLD_NEXT, #name)
    FIND(calloc);
    FIND(realloc);
    FIND(free);
    FIND(memalign);
    FIND(aligned_alloc);
    FIND(posix_memalign);
    FIND(valloc);
    FIND(pvalloc);
    FIND(malloc_usable_size);
    FIND(madvise);
    FIND(malloc); /* last: the others are looked at only when it is there */
#undef FIND
    finding = 0;
    return next.malloc != NULL;
}

static inline int have_next(void) {
    return __builtin_expect(next.malloc != NULL, 1) || find_next();
}

static inline int is_large(size_t bytes) {
    return __builtin_expect(bytes >= kLargeBytes, 0) && __atomic_load_n(&serving, __ATOMIC_RELAXED);
}

/* The first one makes the heap. */
static void* allocate_large(size_t bytes, size_t alignment, int zeroed) {
    const longshore_heap* const heap = longshore_heap_open(bytes_max);
    if (heap == NULL) return NULL;
    if (heap->is_far) return longshore_heap_allocate(bytes, alignment, zeroed);
    not_served = "the addresses where they would lie are taken";
    __atomic_store_n(&serving, 0, __ATOMIC_RELAXED);
    return NULL;
}

SHOWN void* malloc(size_t bytes) {
    if (is_large(bytes)) {
        void* block = allocate_large(bytes, 1, 0);
        if (block) return block;
    }
    return have_next() ? next.malloc(bytes) : early_allocate(bytes);
}

SHOWN void* calloc(size_t count, size_t each) {
    size_t bytes;
    if (!__builtin_mul_overflow(count, each, &bytes) && is_large(bytes)) {
        void* block = allocate_large(bytes, 1, 1);
        if (block) return block;
    }
    return have_next() ? next.calloc(count, each) : early_allocate(count * each); /* static memory is zero */
}

SHOWN void free(void* block) {
    if (block == NULL) return;
    if (__builtin_expect(longshore_heap_holds(block), 0))
        longshore_heap_release(block);
    else if (!is_early(block) && have_next())
        next.free(block);
}

/* From one kind of memory into another, by its function. */
static void* move(void* block, size_t old_bytes, size_t bytes, void* (*allocate)(size_t)) {
    void* other = allocate(bytes);
    if (other == NULL) return NULL;
    memcpy(other, block, old_bytes < bytes ? old_bytes : bytes);
    free(block);
    return other;
}

SHOWN void* realloc(void* block, size_t bytes) {
    if (block == NULL) return malloc(bytes);
    if (is_early(block)) return move(block, (size_t)(early + sizeof early - (char*)block), bytes, malloc);
    if (!longshore_heap_holds(block)) {
        if (!have_next()) return NULL;
        /* What grows large moves to the heap; what is large already was there before it. */
        if (!is_large(bytes) || next.malloc_usable_size(block) >= kLargeBytes)
            return next.realloc(block, bytes);
        return move(block, next.malloc_usable_size(block), bytes, malloc);
    }
    if (bytes == 0) {
        free(block);
        return NULL;
    }
    if (bytes >= kLargeBytes && longshore_heap_resize(block, bytes)) return block;
    /* What grows little by little and has no room is copied once more, to where the system moves its pages
     * instead. */
    const size_t had = longshore_heap_usable(block);
    const int creeps = bytes > had && bytes - had < had / 4 && have_next();
    return move(block, had, bytes, creeps ? next.malloc : malloc);
}

SHOWN void* reallocarray(void* block, size_t count, size_t each) {
    size_t bytes;
    if (__builtin_mul_overflow(count, each, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(block, bytes);
}

static int is_power_of_two(size_t value) {
    return value != 0 && (value & (value - 1)) == 0;
}

/* Null: not one for the heap. */
static void* large_aligned(size_t alignment, size_t bytes) {
    return is_large(bytes) && is_power_of_two(alignment) ? allocate_large(bytes, alignment, 0) : NULL;
}

SHOWN int posix_memalign(void** out, size_t alignment, size_t bytes) {
    void* block = alignment % sizeof(void*) == 0 ? large_aligned(alignment, bytes) : NULL;
    if (block != NULL) {
        *out = block;
        return 0;
    }
    return have_next() ? next.posix_memalign(out, alignment, bytes) : ENOMEM;
}

SHOWN void* memalign(size_t alignment, size_t bytes) {
    void* block = large_aligned(alignment, bytes);
    return block ? block : have_next() ? next.memalign(alignment, bytes) : NULL;
}

SHOWN void* aligned_alloc(size_t alignment, size_t bytes) {
    void* block = large_aligned(alignment, bytes);
    return block ? block : have_next() ? next.aligned_alloc(alignment, bytes) : NULL;
}

SHOWN void* valloc(size_t bytes) {
    void* block = large_aligned(kPageBytes, bytes);
    return block ? block : have_next() ? next.valloc(bytes) : NULL;
}

SHOWN void* pvalloc(size_t bytes) {
    void* block = large_aligned(kPageBytes, bytes);
    return block ? block : have_next() ? next.pvalloc(bytes) : NULL;
}

SHOWN size_t malloc_usable_size(void* block) {
    if (block == NULL || is_early(block)) return 0;
    if (longshore_heap_holds(block)) return longshore_heap_usable(block);
    return have_next() ? next.malloc_usable_size(block) : 0;
}

/* Who says that he does not need what a block holds finds zeros there, as in memory that is not shared. The
 * system drops no more than the mapping of shared pages. */
SHOWN int madvise(void* at, size_t bytes, int advice) {
    const int discards = advice == MADV_DONTNEED || advice == MADV_FREE;
    if (discards && bytes != 0 && ((uintptr_t)at & (kPageBytes - 1)) == 0 && longshore_heap_holds(at) &&
        longshore_heap_holds((char*)at + bytes - 1))
        return longshore_heap_discard(at, bytes);
    if (have_next() && next.madvise != NULL) return next.madvise(at, bytes, advice);
    errno = ENOSYS;
    return -1;
}

/* The spelling that src/base/settings.cc reads; 0 if there is none, and what is malformed the core complains
 * about. */
static size_t bytes_wanted(void) {
    const char* text = getenv("LONGSHORE_MEMORY_SHARED_BYTES_MAX");
    if (text == NULL) return 0;
    char* end = NULL;
    const unsigned long long number = strtoull(text, &end, 10);
    const char* const units = "KMG";
    const char* unit = *end != 0 ? strchr(units, *end) : NULL;
    return (size_t)number << (unit ? 10 * (unit - units + 1) : 0);
}

/* Sanitizers want to see every block, and what points to it. */
static int is_watched(void) {
    static const char* const kWatchers[] = {"__asan_init", "__hwasan_init", "__lsan_init", "__msan_init",
                                            "__tsan_init"};
    for (size_t i = 0; i < sizeof kWatchers / sizeof *kWatchers; ++i)
        if (dlsym(RTLD_DEFAULT, kWatchers[i]) != NULL) return 1;
    return 0;
}

/* Launchers tell a process how many there are. */
static int is_one_of_several(void) {
    static const char* const kSizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                                         "SLURM_STEP_NUM_TASKS", "FLUX_JOB_SIZE"};
    for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; ++i) {
        const char* const size = getenv(kSizes[i]);
        if (size != NULL && strtoul(size, NULL, 10) > 1) return 1;
    }
    return 0;
}

/* Whether the functions behind ours are libc's own. Other allocators have functions that only they know
 * (dallocx, mi_free_size), and whoever uses those gives them what malloc gave. */
static int is_libcs(void) {
    void* const known = dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
    const void* const own[] = {*(void**)&next.malloc, *(void**)&next.free, *(void**)&next.realloc,
                               *(void**)&next.calloc, *(void**)&next.malloc_usable_size};
    Dl_info libc, other;
    if (known == NULL || dladdr(known, &libc) == 0) return 0;
    for (size_t i = 0; i < sizeof own / sizeof *own; ++i)
        if (own[i] == NULL || dladdr(own[i], &other) == 0 || other.dli_fbase != libc.dli_fbase) return 0;
    return 1;
}

/* Whether this libc keeps in front of a block what chunk.h says: for a block of its own that it certainly
 * maps by itself, unless it has been told to map none, and for one that is made up. */
static int is_chunk_as_expected(void) {
    enum { kMappedBytes = 33 << 20 };
    size_t* const block = next.malloc(kMappedBytes);
    if (block == NULL) return 0;
    const size_t words[2] = {block[-2], block[-1]}, usable = next.malloc_usable_size(block);
    next.free(block);
    const int is_mapped = (words[1] & kChunkBits) == kChunkIsMapped;
    if (is_mapped && (words[0] != 0 || (words[1] & ~(size_t)kChunkBits) != usable + sizeof words ||
                      (usable + sizeof words) % kPageBytes != 0))
        return 0;
    char* const pages =
        mmap(NULL, 3 * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return 0;
    longshore_chunk_write(pages + kPageBytes, 2 * kPageBytes);
    const int is_right = next.malloc_usable_size(pages + kPageBytes) == 2 * kPageBytes;
    munmap(pages, 3 * kPageBytes);
    return is_right;
}

/* Whether there may be a heap; whether malloc's blocks come from it is decided once. */
static int serve(void) {
    const char* const wanted = getenv("LONGSHORE_MEMORY_ALIAS");
    if ((wanted != NULL && strcmp(wanted, "off") == 0) || is_watched() || !have_next()) return 0;
    bytes_max = bytes_wanted();
    longshore_heap_prepare();
    if (__atomic_load_n(&serving, __ATOMIC_RELAXED) != 0 || not_served != NULL) return 1;
    if (!is_libcs())
        not_served = "the program brings an allocator of its own";
    else if (!is_chunk_as_expected())
        not_served = "this C library keeps other things in front of its blocks than are known";
    else
        __atomic_store_n(&serving, 1, __ATOMIC_RELAXED);
    return 1;
}

const char* longshore_why_malloc_is_not_shared(void) {
    return not_served;
}

void longshore_serve_large_blocks(void) {
    if (is_one_of_several()) serve();
}

const longshore_heap* longshore_share_large_blocks(void) {
    return serve() ? longshore_heap_open(bytes_max) : NULL;
}

void longshore_share_no_more(void) {
    __atomic_store_n(&serving, 0, __ATOMIC_RELAXED);
    longshore_heap_stop_growing();
}
