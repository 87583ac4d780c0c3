#define _GNU_SOURCE
#include "memory/backing.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000 /* Linux 4.17; before, the address is a wish */
#endif

enum { kPageBytes = 4096 };
static const size_t kStepBytes = (size_t)16 << 20, kHugePageBytes = (size_t)2 << 20;
/* Whoever looks for room finds it at the top of the address space first, and comes down. So far below, an
 * eighth of what is there, nobody comes before he has used all of that: neither where the heap will grow nor
 * where somebody has unmapped a block. */
enum { kBelowShare = 8, kTriesMax = 6 };

static size_t round_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

static size_t less(size_t a, size_t b) {
    return a < b ? a : b;
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

static int is_limited(int what) {
    struct rlimit limit;
    return getrlimit((__rlimit_resource_t)what, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/* Programs count on low descriptors: daemons close them, shells number them. */
static int out_of_the_way(int file) {
    const int high = fcntl(file, F_DUPFD_CLOEXEC, 800);
    if (high < 0) return file;
    close(file);
    return high;
}

static int is_ours(const longshore_backing* backing) {
    struct stat file;
    /* Not by libc's name, here and wherever a fork is perhaps under way: a library that shows such functions
     * to the program holds its locks then. */
    return syscall(SYS_fstat, backing->file, &file) == 0 && file.st_ino == backing->identity;
}

/* Addresses that nobody uses now, if possible far below the others. Null: there are none. */
static char* find_room(size_t bytes, int* is_far) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char* const top = mmap(NULL, bytes, PROT_NONE, flags, -1, 0);
    if (top == MAP_FAILED) return NULL;
    munmap(top, bytes);
    *is_far = 1;
    const uintptr_t step = (uintptr_t)top / kBelowShare;
    for (int i = 1; i <= kTriesMax; ++i) {
        char* const wish = (char*)(((uintptr_t)top - (uintptr_t)i * step) & ~(kHugePageBytes - 1));
        char* const room = mmap(wish, bytes, PROT_NONE, flags, -1, 0);
        if (room == MAP_FAILED) continue;
        munmap(room, bytes);
        if (room == wish) return room;
    }
    *is_far = 0;
    return top;
}

/* Behind what a span has. 0: something else is there, or the system has no more. */
static int extend(longshore_span* span, size_t bytes, int flags, int file) {
    if (bytes <= span->bytes) return 1;
    if (bytes > span->bytes_max) return 0;
    char* const at = span->base + span->bytes;
    const size_t more = bytes - span->bytes;
    void* const got = mmap(at, more, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
                           file, file < 0 ? 0 : (off_t)span->bytes);
    if (got == MAP_FAILED) return 0;
    if (got != at) {
        munmap(got, more);
        return 0;
    }
    span->bytes = bytes;
    return 1;
}

static void cut(longshore_span* span, size_t bytes) {
    if (bytes < span->bytes) munmap(span->base + bytes, span->bytes - bytes);
    span->bytes = bytes;
}

static int grow_to(longshore_backing* backing, size_t bytes) {
    const size_t before = backing->pages.bytes, pages = bytes / kPageBytes;
    for (int i = 0; i < kBookCount; ++i) {
        const size_t wanted = round_up((pages * backing->book_bits[i] + 7) / 8, kPageBytes);
        if (!extend(&backing->books[i], wanted, MAP_PRIVATE | MAP_ANONYMOUS, -1)) return 0;
    }
    /* The mapping first: bytes of the file that others can read must never be other memory here. */
    if (!is_ours(backing) || !extend(&backing->pages, bytes, MAP_SHARED, backing->file)) return 0;
    if (ftruncate(backing->file, (off_t)bytes) != 0) {
        cut(&backing->pages, before);
        return 0;
    }
    /* Where ordinary memory gets huge pages unasked, this does as well, if the system lets shared memory have
     * them. */
    if (says("/sys/kernel/mm/transparent_hugepage/enabled", "[always]"))
        madvise(backing->pages.base + before, bytes - before, MADV_HUGEPAGE);
    return 1;
}

int longshore_backing_grow(longshore_backing* backing, size_t bytes) {
    const size_t have = backing->pages.bytes;
    if (bytes <= have) return 1;
    size_t most = backing->pages.bytes_max;
    struct rlimit files; /* beyond it, making a file longer ends the process */
    if (getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur < most)
        most = files.rlim_cur / kStepBytes * kStepBytes;
    const size_t needed = round_up(bytes, kStepBytes), ample = round_up(have + have / 8, kStepBytes);
    if (bytes > most) return 0;
    return (ample > needed && grow_to(backing, less(ample, most))) || grow_to(backing, less(needed, most));
}

int longshore_backing_open(longshore_backing* backing, size_t bytes_max, const size_t book_bits[kBookCount]) {
    const size_t pages = bytes_max / kPageBytes;
    struct stat status;
    /* Without overcommitment a page of a file that cannot be had is a SIGBUS, where malloc would have
     * returned null. And who has bounded what a process may map means what malloc maps: it does not grow
     * twice, here and there. */
    if (says("/proc/sys/vm/overcommit_memory", "2") || is_limited(RLIMIT_AS) || is_limited(RLIMIT_DATA))
        return 0;
    size_t room = kHugePageBytes, books[kBookCount];
    for (int i = 0; i < kBookCount; ++i)
        room += books[i] = round_up((pages * book_bits[i] + 7) / 8, kHugePageBytes);
    int is_far = 0;
    char* at = find_room(room + bytes_max, &is_far);
    if (at == NULL) return 0;
    int file = memfd_create("longshore-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0) return 0;
    file = out_of_the_way(file);
    if (fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0 || fstat(file, &status) != 0) {
        close(file);
        return 0;
    }
    *backing = (longshore_backing){.file = file, .identity = status.st_ino, .is_far = is_far};
    at = (char*)round_up((uintptr_t)at, kHugePageBytes);
    for (int i = 0; i < kBookCount; ++i) {
        backing->books[i] = (longshore_span){at, 0, books[i]};
        backing->book_bits[i] = book_bits[i];
        at += books[i];
    }
    backing->pages = (longshore_span){at, 0, bytes_max};
    if (longshore_backing_grow(backing, 1)) return 1;
    close(file);
    return 0;
}

int longshore_backing_has_file(const longshore_backing* backing) {
    return backing->file >= 0 && is_ours(backing);
}

static int show(const longshore_backing* backing, void* at, size_t offset, size_t bytes, int flags) {
    return is_ours(backing) && mmap(at, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED | MAP_NORESERVE,
                                    backing->file, (off_t)offset) == at;
}

int longshore_backing_show(const longshore_backing* backing, void* at, size_t offset, size_t bytes) {
    return show(backing, at, offset, bytes, MAP_SHARED);
}

int longshore_backing_show_private(const longshore_backing* backing, void* at, size_t offset, size_t bytes) {
    return show(backing, at, offset, bytes, MAP_PRIVATE);
}

int longshore_backing_show_again(const longshore_backing* backing, void* at, size_t offset, size_t bytes) {
    if (!is_ours(backing)) return 0;
    void* const got = mmap(at, bytes, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, backing->file, (off_t)offset);
    if (got != MAP_FAILED && got != at) munmap(got, bytes);
    return got == at;
}

void longshore_backing_wake(const longshore_backing* backing, size_t offset) {
    const size_t in_page = offset % kPageBytes;
    char* const page = (char*)syscall(SYS_mmap, NULL, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                                      backing->file, (off_t)(offset - in_page));
    if (page == MAP_FAILED) return;
    syscall(SYS_futex, page + in_page, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    syscall(SYS_munmap, page, kPageBytes);
}

int longshore_backing_next_data(const longshore_backing* backing, size_t* begin, size_t* data_end,
                                size_t end) {
    const off_t found = syscall(SYS_lseek, backing->file, (off_t)*begin, SEEK_DATA);
    if (found < 0 || (size_t)found >= end) return 0;
    const off_t hole = syscall(SYS_lseek, backing->file, found, SEEK_HOLE);
    *begin = (size_t)found;
    *data_end = hole < 0 ? end : less((size_t)hole, end);
    return 1;
}

int longshore_backing_punch(const longshore_backing* backing, size_t offset, size_t bytes) {
    return syscall(SYS_fallocate, backing->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                   (off_t)bytes) == 0;
}

int longshore_backing_read(const longshore_backing* backing, void* to, size_t offset, size_t bytes) {
    char* at = to;
    while (bytes != 0) {
        const long got = syscall(SYS_pread64, backing->file, at, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return 0;
        at += got;
        offset += (size_t)got;
        bytes -= (size_t)got;
    }
    return 1;
}

void longshore_backing_close(longshore_backing* backing) {
    if (longshore_backing_has_file(backing)) syscall(SYS_close, backing->file);
    backing->file = -1;
}
