#include "memory/open_buffers.h"

#include <sched.h>

/* Two for each operation that a rank on a DPU has posted at most (kFarPostsMax in dpu/session/session.h), and
 * nearly as many for tasks: what finds no place is not shared, and there would fail. Places that were never
 * taken cost address space alone. */
enum { kPlaces = 1 << 18 };

static struct {
    struct {
        uintptr_t base;
        size_t bytes; /* 0: the place is free */
    } places[kPlaces];
    uint32_t next; /* where a free one is likely */
    uint32_t used; /* places from here on were never taken */
    uint32_t forks;
} all;

static int take(uint32_t place) {
    size_t none = 0;
    return __atomic_load_n(&all.places[place].bytes, __ATOMIC_RELAXED) == 0 &&
           /* One byte, until the base is right: a fork that looks now leaves a page more shared than it must.
            */
           __atomic_compare_exchange_n(&all.places[place].bytes, &none, 1, 0, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

static int find_place(void) {
    const uint32_t begin = __atomic_load_n(&all.next, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < kPlaces; ++i) {
        const uint32_t place = (begin + i) % kPlaces;
        if (!take(place)) continue;
        __atomic_store_n(&all.next, (place + 1) % kPlaces, __ATOMIC_RELAXED);
        for (uint32_t used = __atomic_load_n(&all.used, __ATOMIC_RELAXED); used <= place;)
            if (__atomic_compare_exchange_n(&all.used, &used, place + 1, 0, __ATOMIC_SEQ_CST,
                                            __ATOMIC_SEQ_CST))
                break;
        return (int)place;
    }
    return -1;
}

/* Whoever adds says so first and then looks whether a fork has begun; whoever forks says so first and then
 * looks what was added. So at least one of them sees the other. */
int longshore_open_buffers_add(const void* base, size_t bytes) {
    const int place = find_place();
    if (place < 0) return place;
    __atomic_store_n(&all.places[place].base, (uintptr_t)base, __ATOMIC_RELAXED);
    __atomic_store_n(&all.places[place].bytes, bytes, __ATOMIC_SEQ_CST);
    while (__builtin_expect(__atomic_load_n(&all.forks, __ATOMIC_SEQ_CST) != 0, 0)) sched_yield();
    return place;
}

void longshore_open_buffers_remove(int place) {
    __atomic_store_n(&all.places[place].bytes, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&all.next, (uint32_t)place, __ATOMIC_RELAXED);
}

void longshore_open_buffers_stop(void) {
    __atomic_store_n(&all.forks, 1, __ATOMIC_SEQ_CST);
}

void longshore_open_buffers_each(void (*look)(uintptr_t base, size_t bytes)) {
    const uint32_t used = __atomic_load_n(&all.used, __ATOMIC_SEQ_CST);
    for (uint32_t place = 0; place < used; ++place) {
        const size_t bytes = __atomic_load_n(&all.places[place].bytes, __ATOMIC_SEQ_CST);
        if (bytes != 0) look(__atomic_load_n(&all.places[place].base, __ATOMIC_RELAXED), bytes);
    }
}

void longshore_open_buffers_go_on(void) {
    __atomic_store_n(&all.forks, 0, __ATOMIC_SEQ_CST);
}
