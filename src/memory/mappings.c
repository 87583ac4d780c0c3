#define _GNU_SOURCE
#include "memory/mappings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* All of this runs while a fork is under way, and by system calls alone: libraries that show open(), fstat()
 * and the like to the program hold their locks then, for the child's sake. */

static char text[8192]; /* not on the stack, which may be small */

static int open_file(const char* path) {
    return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
}

/* One line, "BEGIN-END PERMISSIONS ...". Returns whether it lies before `end`. */
static int look_at_line(char* line, uintptr_t begin, uintptr_t end,
                        void (*look)(uintptr_t from, uintptr_t to, int protection)) {
    char* rest;
    const uintptr_t from = strtoul(line, &rest, 16);
    if (*rest != '-') return 1;
    const uintptr_t to = strtoul(rest + 1, &rest, 16);
    if (*rest != ' ' || to <= begin) return 1;
    if (from >= end) return 0;
    look(from > begin ? from : begin, to < end ? to : end,
         (rest[1] == 'r' ? PROT_READ : 0) | (rest[2] == 'w' ? PROT_WRITE : 0) |
             (rest[3] == 'x' ? PROT_EXEC : 0));
    return 1;
}

int longshore_mappings_each(uintptr_t begin, uintptr_t end,
                            void (*look)(uintptr_t from, uintptr_t to, int protection)) {
    const int file = open_file("/proc/self/maps");
    if (file < 0) return 0;
    size_t have = 0;
    for (int goes_on = 1; goes_on;) {
        const long got = syscall(SYS_read, file, text + have, sizeof text - 1 - have);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        have += (size_t)got;
        text[have] = 0;
        char* line = text;
        for (char* next; goes_on && (next = strchr(line, '\n')) != NULL; line = next + 1) {
            *next = 0;
            goes_on = look_at_line(line, begin, end, look);
        }
        have -= (size_t)(line - text);
        memmove(text, line, have);
    }
    syscall(SYS_close, file);
    return 1;
}

static int has_locked(void) {
    const int file = open_file("/proc/self/status");
    if (file < 0) return 0;
    const long got = syscall(SYS_read, file, text, sizeof text - 1);
    syscall(SYS_close, file);
    text[got > 0 ? got : 0] = 0;
    const char* const locked = strstr(text, "\nVmLck:");
    return locked != NULL && strtoul(locked + strlen("\nVmLck:"), NULL, 10) != 0;
}

/* Memory, terminals and the like do not count. No file but a device is asked for anything: it may lie on a
 * file system that does not answer. */
static int may_know_pages(int folder, const char* name) {
    enum { kMemory = 1, kTerminals = 4, kTerminals2 = 5, kSlavesFirst = 136, kSlavesLast = 143 };
    struct stat status;
    char target[64] = "";
    if (syscall(SYS_readlinkat, folder, name, target, sizeof target - 1) <= 0) return 0;
    if (strncmp(target, "anon_inode:", strlen("anon_inode:")) == 0) return strstr(target, "io_uring") != NULL;
    /* What is read from it goes to the pages by a device. */
    const long flags = target[0] == '/' ? syscall(SYS_fcntl, (int)strtol(name, NULL, 10), F_GETFL) : -1;
    if (flags >= 0 && (flags & O_DIRECT) != 0) return 1;
    if (strncmp(target, "/dev/", 5) != 0 || syscall(SYS_newfstatat, folder, name, &status, 0) != 0 ||
        !S_ISCHR(status.st_mode))
        return 0;
    const unsigned kind = major(status.st_rdev);
    return kind != kMemory && kind != kTerminals && kind != kTerminals2 &&
           !(kind >= kSlavesFirst && kind <= kSlavesLast);
}

static int has_devices(void) {
    struct entry {
        uint64_t inode;
        int64_t offset;
        uint16_t bytes;
        uint8_t kind;
        char name[];
    };
    const int folder =
        (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return 0;
    int found = 0;
    for (long got; !found && (got = syscall(SYS_getdents64, folder, text, sizeof text)) > 0;)
        for (long at = 0; at < got && !found; at += ((const struct entry*)(text + at))->bytes) {
            const char* const name = ((const struct entry*)(text + at))->name;
            found = name[0] != '.' && may_know_pages(folder, name);
        }
    syscall(SYS_close, folder);
    return found;
}

int longshore_pages_are_known(void) {
    return has_locked() || has_devices();
}
