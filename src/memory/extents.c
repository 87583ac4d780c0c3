#include "memory/extents.h"

#include "memory/page_bits.h"

enum { kSubBits = 3, kSubs = 1 << kSubBits, kClasses = 32 };

static struct {
    extent* extents;     /* by page */
    uint64_t* dirty;     /* a bit per page: it is free, and may have been touched since the system gave it */
    uint32_t page_count; /* that are there */
    uint32_t top;        /* pages from here on have never been used */
    uint32_t kept;       /* free and dirty */
    uint32_t oldest, newest; /* of the free extents that have dirty pages */
    uint32_t class_bits;
    uint8_t sub_bits[kClasses];
    uint32_t free_lists[kClasses][kSubs];
} all;

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
static uint32_t count_dirty(uint32_t first, uint32_t pages) {
    return longshore_bits_count(all.dirty, first, pages);
}

static void set_dirty(uint32_t first, uint32_t pages, int dirty) {
    longshore_bits_set(all.dirty, first, pages, dirty);
}

/* The page behind the last dirty one; `first` if there is none. */
static uint32_t end_of_dirty(uint32_t first, uint32_t pages) {
    return longshore_bits_end(all.dirty, first, pages);
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

void longshore_extents_put(uint32_t first, uint32_t pages) {
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

uint32_t longshore_extents_take(uint32_t pages) {
    if (pages >= all.page_count) return kNone;
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

int longshore_extents_take_here(uint32_t first, uint32_t pages) {
    if (first < all.top && all.extents[first].state == kFree && all.extents[first].pages >= pages)
        take_first_of(first, pages);
    else if (first == all.top && pages <= all.page_count - all.top)
        all.top += pages;
    else
        return 0;
    return 1;
}

uint32_t longshore_extents_use(uint32_t first, uint32_t pages, uint32_t* dirty_end) {
    *dirty_end = end_of_dirty(first, pages);
    if (*dirty_end == first) return 0;
    const uint32_t dirty = count_dirty(first, *dirty_end - first);
    set_dirty(first, *dirty_end - first, 0);
    return dirty;
}

void longshore_extents_put_unused(uint32_t first, uint32_t pages) {
    free_pages(first, pages, count_dirty(first, pages));
}

uint32_t longshore_extents_oldest(uint32_t pages_max, uint32_t* first) {
    if (all.oldest == kNone) return 0;
    const uint32_t end = end_of_dirty(all.oldest, all.extents[all.oldest].pages);
    const uint32_t pages = at_most(pages_max, end - all.oldest);
    *first = end - pages;
    return pages;
}

uint32_t longshore_extents_clean(uint32_t first, uint32_t pages) {
    const uint32_t cleaned = count_dirty(first, pages), oldest = all.oldest;
    set_dirty(first, pages, 0);
    all.extents[oldest].dirty -= cleaned;
    if (all.extents[oldest].dirty == 0) unlink_dirty(oldest);
    all.kept -= cleaned;
    return cleaned;
}

void longshore_extents_pass_over(void) {
    const uint32_t oldest = all.oldest;
    unlink_dirty(oldest);
    append_dirty(oldest);
}

void longshore_extents_begin(void* extents, void* dirty) {
    all.extents = extents;
    all.dirty = dirty;
    all.top = kFirstPage;
}

void longshore_extents_grow(uint32_t page_count) {
    all.page_count = page_count;
}

/* Free pages at the end are part of it. */
uint64_t longshore_extents_needed(uint32_t pages) {
    const uint32_t tail = all.page_count != 0 ? all.extents[all.top - 1].before : 0;
    return (uint64_t)all.top - tail + pages;
}

extent* longshore_extent_at(uint32_t first) {
    return &all.extents[first];
}

uint32_t longshore_extents_end(void) {
    return all.top;
}

uint32_t longshore_extents_dirty(void) {
    return all.kept;
}
