/* A fork gives the child what the parent has at one instant, as the system makes it: for that, blocks become
 * private memory of the parent before. Each is replaced, at its place, by a private mapping of the same bytes
 * of the file, so that the file has what was written before that and nothing that is written later. Then the
 * pages are copied into private ones, which costs as much as the child's copy would, and their memory in the
 * file goes back to the system. A block stays private until it is freed.
 *
 * Pages of open buffers stay shared, for others read and write them by way of the file; so do all pages where
 * a device may know them, or the program has locked or protected them. The child gets a copy of those that
 * the parent has made before the fork: other threads' writes are in it or not, page by page.
 *
 * docs/decisions/0052-a-fork-is-a-snapshot.md has the reasons. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/heap_state.h"
#include "memory/mappings.h"
#include "memory/open_buffers.h"
#include "memory/waiters.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum { kPiecesMax = 1 << 20, kSliceBytes = 4 << 20 };
static int made_private; /* by this fork */
enum { kReadWrite = PROT_READ | PROT_WRITE };

static longshore_heap_state* const all = &longshore_heap_all;

static size_t less(size_t a, size_t b) {
    return a < b ? a : b;
}

static void* reserve(size_t bytes) {
    void* const at =
        (void*)syscall(SYS_mmap, NULL, bytes, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at != MAP_FAILED ? at : NULL;
}

/* --- copies for the child */
static int is_zero(const char* page) {
    const uint64_t* const words = (const uint64_t*)page;
    for (size_t i = 0; i < kPageBytes / sizeof *words; ++i)
        if (words[i] != 0) return 0;
    return 1;
}

/* Pages that were never touched stay so. */
static int copy_bytes(char* to, const char* from, size_t offset, size_t bytes, int protection) {
    if (longshore_backing_has_file(&all->backing)) {
        size_t hole = offset;
        for (size_t data = offset; longshore_backing_next_data(&all->backing, &data, &hole, offset + bytes);
             data = hole)
            if (!longshore_backing_read(&all->backing, to + (data - offset), data, hole - data)) return 0;
        return 1;
    }
    for (size_t at = 0; at < bytes && (protection & PROT_READ) != 0; at += kPageBytes)
        if (!is_zero(from + at)) memcpy(to + at, from + at, kPageBytes);
    return 1;
}

/* What the child gets for a piece that stays shared here. */
static void copy_piece(char* at, size_t offset, size_t bytes, int protection) {
    if (all->pieces == NULL) {
        all->copies_bytes = (size_t)(all->live + all->adopted_pages) << kPageShift;
        all->pieces = reserve(kPiecesMax * sizeof *all->pieces);
        all->copies = all->copies_end = reserve(all->copies_bytes);
    }
    if (all->pieces == NULL || all->piece_count == kPiecesMax) {
        all->copies_failed = 1;
        return;
    }
    char* const copy = all->copies != NULL && copy_bytes(all->copies_end, at, offset, bytes, protection)
                           ? all->copies_end
                           : NULL;
    all->pieces[all->piece_count++] = (longshore_piece){at, bytes, copy, protection};
    if (copy != NULL) all->copies_end += bytes;
}

/* --- what becomes private */
/* Makes the pages of [at, at + bytes) private copies. Older systems know no call for it: writing to a page
 * what it holds, as one step, is as good. */
static int copy_pages(char* at, size_t bytes) {
    if (syscall(SYS_madvise, at, bytes, MADV_POPULATE_WRITE) == 0) return 1;
    if (errno != EINVAL) return 0;
    for (size_t page = 0; page < bytes; page += kPageBytes)
        __atomic_fetch_or((unsigned char*)at + page, 0, __ATOMIC_RELAXED);
    return 1;
}

/* Bytes that others have only by the file's old pages. Returns kReadByChildren and kFrozen for what could not
 * be copied: never touched, or no memory for it. */
static int make_private_copies(char* at, size_t offset, size_t bytes) {
    size_t copied = 0;
    for (size_t data = offset, hole;
         longshore_backing_next_data(&all->backing, &data, &hole, offset + bytes);) {
        for (size_t slice; data < hole; data += slice) { /* so that no more than a slice is there twice */
            slice = less(hole - data, kSliceBytes);
            if (!copy_pages(at + (data - offset), slice)) return kReadByChildren | kFrozen;
            /* A network's card may know the file's own pages: they stay. */
            if (!all->keeps_all) longshore_backing_punch(&all->backing, data, slice);
            copied += slice;
        }
    }
    return copied == bytes ? 0 : kReadByChildren;
}

/* Of one live block, pages that are all shared. 0: they stay so. */
static int make_private(extent* e, uint32_t block, uint32_t first, uint32_t pages) {
    const size_t offset = (size_t)first << kPageShift, bytes = (size_t)pages << kPageShift;
    char* const at = longshore_address_of(first);
    if (!longshore_backing_show_private(&all->backing, at, offset, bytes)) return 0;
    __atomic_store_n(&all->has_private, 1, __ATOMIC_RELAXED);
    longshore_bits_set(all->is_private, first, pages, 1);
    longshore_forget_apart(first, pages);
    made_private = 1;
    e->flags |= (uint16_t)make_private_copies(at, offset, bytes);
    if (first == block) longshore_set_apart(block);
    return 1;
}

/* So far this fork has come in the list of extents, which are looked at in the order of the mappings. */
static uint32_t at_block;
static uint32_t stack_page; /* of the thread that forks; 0: no block holds it */
static int copies_only;

/* The child begins on the stack on which its parent forks: that cannot stay shared until the child has its
 * copy. */
static int may_be_exchanged(const extent* e, uint32_t block) {
    return !copies_only || (stack_page > block && stack_page < block + e->pages);
}

static void take_run(extent* e, uint32_t block, uint32_t first, uint32_t pages, int protection) {
    if (longshore_bits_any(all->is_private, first, 1)) return;
    if (may_be_exchanged(e, block) && protection == kReadWrite && !longshore_bits_any(all->open, first, 1) &&
        make_private(e, block, first, pages))
        return;
    copy_piece(longshore_address_of(first), (size_t)first << kPageShift, (size_t)pages << kPageShift,
               protection);
}

static void take_mapping(uintptr_t from, uintptr_t to, int protection) {
    const uint32_t begin = longshore_page_of((void*)from), end = longshore_page_of((void*)to);
    while (at_block < longshore_extents_end() && at_block < end) {
        extent* const e = longshore_extent_at(at_block);
        const uint32_t block_end = at_block + e->pages;
        if (e->state == kLive) {
            uint32_t page = at_block > begin ? at_block : begin;
            const uint32_t last = block_end < end ? block_end : end;
            while (page < last) {
                const uint32_t next =
                    longshore_bits_run(all->open, page, longshore_bits_run(all->is_private, page, last));
                take_run(e, at_block, page, next - page, protection);
                page = next;
            }
        }
        if (block_end > end) break;
        at_block = block_end;
    }
}

static void take_blocks(void) {
    const uintptr_t begin = (uintptr_t)longshore_address_of(kFirstPage);
    const uintptr_t end = (uintptr_t)longshore_address_of(longshore_extents_end());
    at_block = kFirstPage;
    if (begin < end && !longshore_mappings_each(begin, end, take_mapping))
        take_mapping(begin, end, kReadWrite);
}

/* Static data that was made shared becomes what it was, and its pages of the heap are free. */
static void take_adopted(void) {
    uint32_t left = 0, gone = 0;
    for (uint32_t i = 0; i < all->adopted_count; ++i) {
        const uint32_t first = all->adopted[i].first, pages = all->adopted[i].pages;
        const size_t offset = (size_t)first << kPageShift, bytes = (size_t)pages << kPageShift;
        extent* const e = longshore_extent_at(first);
        if (copies_only || longshore_bits_any(all->open, first, pages) ||
            !longshore_backing_show_private(&all->backing, all->adopted[i].at, offset, bytes)) {
            copy_piece(all->adopted[i].at, offset, bytes, kReadWrite);
            all->adopted[left++] = all->adopted[i];
            continue;
        }
        e->state = kInside;
        all->adopted_pages -= pages;
        ++gone;
        if (make_private_copies(all->adopted[i].at, offset, bytes) == 0)
            longshore_extents_put(first, e->pages);
        else
            e->state = kLost; /* what lies there goes on reading it */
    }
    all->adopted_count = left;
    if (gone != 0) __atomic_add_fetch(&all->adopted_forks, 1, __ATOMIC_RELEASE);
}

static void mark_open(uintptr_t base, size_t bytes) {
    const uintptr_t heap = (uintptr_t)all->heap.base, end = base + bytes;
    if (base >= heap && end <= heap + all->there && end > base) {
        const uint32_t first = longshore_page_of((void*)base);
        longshore_bits_set(all->open, first, longshore_page_of((void*)(end - 1)) + 1 - first, 1);
        return;
    }
    for (uint32_t i = 0; i < all->adopted_count; ++i) {
        const uintptr_t at = (uintptr_t)all->adopted[i].at;
        if (base < at + ((size_t)all->adopted[i].pages << kPageShift) && end > at)
            longshore_bits_set(all->open, all->adopted[i].first, all->adopted[i].pages, 1);
    }
}

/* Who waits for a word of a page that has become private waits for the file's page. Woken, he looks again, as
 * at any time, and waits for what is there now. */
static void wake(uintptr_t word) {
    const uint32_t page = longshore_page_of((void*)word);
    if (!longshore_bits_any(all->is_private, page, 1)) return;
    longshore_backing_wake(&all->backing, word - (uintptr_t)all->heap.base);
}

static void wake_waiters(void) {
    if (!made_private) return;
    longshore_waiters_each((uintptr_t)longshore_address_of(kFirstPage),
                           (uintptr_t)longshore_address_of(longshore_extents_end()), wake);
}

/* Private blocks of which a child would read pages of the file. */
static int has_read_by_children(void) {
    for (uint32_t page = kFirstPage; page < longshore_extents_end();
         page += longshore_extent_at(page)->pages) {
        const extent* const e = longshore_extent_at(page);
        if (e->state == kLive && (e->flags & (kReadByChildren | kFrozen)) != 0) return 1;
    }
    return 0;
}

static void before_fork(void) {
    const int error = errno;
    pthread_mutex_lock(&all->mutex);
    longshore_open_buffers_stop();
    made_private = 0;
    if (all->opened == 1 && all->live + all->adopted_pages != 0) {
        const void* const frame = __builtin_frame_address(0);
        stack_page = longshore_heap_holds(frame) ? longshore_page_of(frame) : 0;
        copies_only = !longshore_backing_has_file(&all->backing) || longshore_pages_are_known();
        longshore_open_buffers_each(mark_open);
        take_blocks();
        take_adopted();
        all->children += has_read_by_children() != 0;
        wake_waiters();
        const size_t bytes = longshore_private_bytes();
        if (bytes > all->private_max) all->private_max = bytes;
    }
    errno = error;
}

/* The last part, in parent and child. */
static void drop_pieces(void) {
    if (all->pieces != NULL) syscall(SYS_munmap, all->pieces, kPiecesMax * sizeof *all->pieces);
    if (all->copies != NULL) syscall(SYS_munmap, all->copies, all->copies_bytes);
    all->pieces = NULL;
    all->copies = all->copies_end = NULL;
    all->piece_count = 0;
    all->copies_failed = 0;
}

static void after_fork_in_parent(void) {
    const int error = errno;
    drop_pieces();
    wake_waiters(); /* who was about to wait */
    if (all->opened == 1) longshore_bits_set(all->open, 0, longshore_extents_end(), 0);
    longshore_open_buffers_go_on();
    pthread_mutex_unlock(&all->mutex);
    errno = error;
}

/* --- in the child. By system calls alone: libraries that watch mappings have locks, which other threads of
 * the parent may have held. */
static int map_zeros(char* at, size_t bytes, int protection) {
    return syscall(SYS_mmap, at, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                   -1, 0) == (long)at;
}

/* There was no memory to say what the child needs copies of: it must not write to what its parent has. */
static void close_shared_blocks(void) {
    for (uint32_t page = kFirstPage, next; page < longshore_extents_end(); page = next) {
        const extent* const e = longshore_extent_at(page);
        next = page + e->pages;
        for (uint32_t end = next, run; e->state == kLive && page < end; page = run) {
            run = longshore_bits_run(all->is_private, page, end);
            if (!longshore_bits_any(all->is_private, page, 1))
                map_zeros(longshore_address_of(page), (size_t)(run - page) << kPageShift, PROT_NONE);
        }
    }
}

static int lay_pieces(void) {
    int done = !all->copies_failed;
    if (!done) close_shared_blocks();
    for (uint32_t i = 0; i < all->piece_count; ++i) {
        const longshore_piece* const p = &all->pieces[i];
        const int is_there = p->copy != NULL && syscall(SYS_mremap, p->copy, p->bytes, p->bytes,
                                                        MREMAP_MAYMOVE | MREMAP_FIXED, p->at) == (long)p->at;
        if (!is_there) map_zeros(p->at, p->bytes, PROT_NONE);
        if (is_there && p->protection != kReadWrite) syscall(SYS_mprotect, p->at, p->bytes, p->protection);
        done &= is_there;
    }
    return done;
}

/* Pages of a private block that were never touched, and that the child would look for in the file, become
 * pages of its own. What has been copied is neither absent nor the file's. */
static int leave_file(int pagemap, uint32_t first, uint32_t pages) {
    static uint64_t entries[512];
    const uint64_t kPresent = (uint64_t)3 << 62, kOfFile = (uint64_t)1 << 61;
    for (uint32_t page = first, end = first + pages; page < end;) {
        const uint32_t part = (uint32_t)less(end - page, sizeof entries / sizeof *entries);
        const off_t at = (off_t)((uintptr_t)longshore_address_of(page) / kPageBytes * sizeof *entries);
        if (pagemap < 0 || syscall(SYS_pread64, pagemap, entries, part * sizeof *entries, at) !=
                               (long)(part * sizeof *entries))
            return copy_pages(longshore_address_of(page), (size_t)(end - page) << kPageShift);
        for (uint32_t i = 0, next; i < part; i = next) {
            const int is_absent = (entries[i] & kPresent) == 0,
                      is_copied = !is_absent && (entries[i] & kOfFile) == 0;
            for (next = i + 1; next < part; ++next) {
                const int absent = (entries[next] & kPresent) == 0;
                if (absent != is_absent || (!absent && (entries[next] & kOfFile) == 0) != is_copied) break;
            }
            char* const run = longshore_address_of(page + i);
            const size_t bytes = (size_t)(next - i) << kPageShift;
            if (!is_copied && !(is_absent && map_zeros(run, bytes, kReadWrite)) && !copy_pages(run, bytes))
                return 0;
        }
        page += part;
    }
    return 1;
}

static int leave_file_with(extent* e, uint32_t block, int pagemap) {
    int done = 1;
    for (uint32_t page = block, next, end = block + e->pages; page < end; page = next) {
        next = longshore_bits_run(all->is_private, page, end);
        if (!longshore_bits_any(all->is_private, page, 1)) continue;
        done &= (e->flags & kFrozen) != 0
                    ? copy_pages(longshore_address_of(page), (size_t)(next - page) << kPageShift)
                    : leave_file(pagemap, page, next - page);
    }
    return done;
}

/* What is no block is of no use here, and would keep the file. */
static void leave_blocks(void) {
    const int pagemap = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    int done = 1;
    syscall(SYS_munmap, longshore_address_of(0), (size_t)kFirstPage << kPageShift);
    for (uint32_t page = kFirstPage, pages; page < longshore_extents_end(); page += pages) {
        extent* const e = longshore_extent_at(page);
        pages = e->pages;
        if (e->state == kLive && (e->flags & (kReadByChildren | kFrozen)) != 0)
            done &= leave_file_with(e, page, pagemap);
        else if (e->state == kFree || e->state == kRetired)
            syscall(SYS_munmap, longshore_address_of(page), (size_t)pages << kPageShift);
    }
    if (pagemap >= 0) syscall(SYS_close, pagemap);
    if (done && has_read_by_children()) __atomic_add_fetch(all->children_done, 1, __ATOMIC_RELEASE);
}

static void after_fork_in_child(void) {
    static const char kWithout[] =
        "longshore: a forked process cannot have a copy of its parent's large blocks: out of memory\n";
    const int error = errno;
    if (all->opened == 1) {
        if (!lay_pieces()) syscall(SYS_write, STDERR_FILENO, kWithout, sizeof kWithout - 1);
        leave_blocks();
        longshore_backing_close(&all->backing);
        all->heap.file = -1;
    }
    drop_pieces();
    all->opened = -1;
    pthread_mutex_init(&all->mutex, NULL); /* its owner is a thread of the parent */
    longshore_open_buffers_go_on();
    errno = error;
}

void longshore_watch_forks(void) {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
