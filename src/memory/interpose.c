#define _GNU_SOURCE
#include "memory/interpose.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "memory/heap.h"

#define SHOWN __attribute__((visibility("default")))

enum {
    kLargeBytes = 64 * 1024,
    kPageBytes = 4096,
    kEarlyBytes = 8 * 1024,
};

static int serving = 0; /* set once; a stale zero only means one more block elsewhere */

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

SHOWN void* malloc(size_t bytes) {
    if (is_large(bytes)) {
        void* block = longshore_heap_allocate(bytes, 1, 0);
        if (block) return block;
    }
    return have_next() ? next.malloc(bytes) : early_allocate(bytes);
}

SHOWN void* calloc(size_t count, size_t each) {
    size_t bytes;
    if (!__builtin_mul_overflow(count, each, &bytes) && is_large(bytes)) {
        void* block = longshore_heap_allocate(bytes, 1, 1);
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

/* Into memory of another kind. */
static void* move(void* block, size_t old_bytes, size_t bytes) {
    void* other = malloc(bytes);
    if (other == NULL) return NULL;
    memcpy(other, block, old_bytes < bytes ? old_bytes : bytes);
    free(block);
    return other;
}

SHOWN void* realloc(void* block, size_t bytes) {
    if (block == NULL) return malloc(bytes);
    if (is_early(block)) return move(block, (size_t)(early + sizeof early - (char*)block), bytes);
    if (!longshore_heap_holds(block)) {
        if (!have_next()) return NULL;
        /* What grows large moves to the heap; what is large already was there before it. */
        if (!is_large(bytes) || next.malloc_usable_size(block) >= kLargeBytes)
            return next.realloc(block, bytes);
        return move(block, next.malloc_usable_size(block), bytes);
    }
    if (bytes == 0) {
        free(block);
        return NULL;
    }
    if (bytes >= kLargeBytes && longshore_heap_resize(block, bytes)) return block;
    return move(block, longshore_heap_usable(block), bytes);
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
    return is_large(bytes) && is_power_of_two(alignment) ? longshore_heap_allocate(bytes, alignment, 0)
                                                         : NULL;
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

void longshore_serve_large_blocks(void) {
    const char* wanted = getenv("LONGSHORE_MEMORY_ALIAS");
    if (wanted != NULL && strcmp(wanted, "off") == 0) return;
    if (dlsym(RTLD_DEFAULT, "__asan_init") != NULL) return; /* it wants to see every block */
    if (have_next() && longshore_heap_open(bytes_wanted()) != NULL)
        __atomic_store_n(&serving, 1, __ATOMIC_RELAXED);
}
