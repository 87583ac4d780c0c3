#define _GNU_SOURCE
#include "memory/waiters.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static char names[4096]; /* not on the stack, which may be small */

/* "202 0x7f... 0x109 ..." of a thread that is in a system call, by its number and arguments. */
static uintptr_t word_of(const char* line) {
    char* rest;
    if (strtol(line, &rest, 10) != SYS_futex) return 0;
    const uintptr_t word = strtoul(rest, &rest, 16);
    const unsigned long operation = strtoul(rest, NULL, 16);
    return (operation & FUTEX_PRIVATE_FLAG) == 0 ? word : 0;
}

static uintptr_t wait_of(int threads, const char* name) {
    static const char kCall[] = "/syscall";
    char path[48], line[160];
    const size_t length = strlen(name);
    if (length + sizeof kCall > sizeof path) return 0;
    memcpy(path, name, length);
    memcpy(path + length, kCall, sizeof kCall);
    const int file = (int)syscall(SYS_openat, threads, path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    const long got = syscall(SYS_read, file, line, sizeof line - 1);
    syscall(SYS_close, file);
    line[got > 0 ? got : 0] = 0;
    return line[0] >= '0' && line[0] <= '9' ? word_of(line) : 0;
}

void longshore_waiters_each(uintptr_t begin, uintptr_t end, void (*look)(uintptr_t word)) {
    struct entry {
        uint64_t inode;
        int64_t offset;
        uint16_t bytes;
        uint8_t kind;
        char name[];
    };
    const int threads =
        (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (threads < 0) return;
    for (long got; (got = syscall(SYS_getdents64, threads, names, sizeof names)) > 0;)
        for (long at = 0; at < got; at += ((const struct entry*)(names + at))->bytes) {
            const char* const name = ((const struct entry*)(names + at))->name;
            const uintptr_t word = name[0] != '.' ? wait_of(threads, name) : 0;
            if (word >= begin && word < end) look(word);
        }
    syscall(SYS_close, threads);
}
