#define _GNU_SOURCE
#include "memory/adopt.h"

#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "memory/heap.h"

enum { kPageBytes = 4096 };

struct search {
    uintptr_t begin, end;
    int found;
};

/* The program is the first object. */
static int look_at_program(struct dl_phdr_info* info, size_t size, void* user) {
    struct search* search = user;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)* part = &info->dlpi_phdr[i];
        const uintptr_t begin = info->dlpi_addr + part->p_vaddr, end = begin + part->p_memsz;
        if (part->p_type == PT_LOAD && (part->p_flags & PF_W) != 0 && search->begin >= begin &&
            search->end <= end)
            search->found = 1;
    }
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)* part = &info->dlpi_phdr[i];
        const uintptr_t begin = info->dlpi_addr + part->p_vaddr, end = begin + part->p_memsz;
        if (part->p_type == PT_GNU_RELRO && search->begin < end && search->end > begin) search->found = 0;
    }
    return 1;
}

/* The flags of the mappings that touch the pages, as /proc/self/smaps has them: locked in memory, or not for
 * children. No stdio: it allocates. */
static int is_held_by_others(uintptr_t begin, uintptr_t end) {
    char text[4096];
    const int file = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 1;
    int held = 0, touches = 0, touched = 0;
    size_t have = 0;
    for (ssize_t got; (got = read(file, text + have, sizeof text - 1 - have)) > 0 || have > 0;) {
        if (got < 0) got = 0;
        have += (size_t)got;
        text[have] = 0;
        char* line = text;
        for (char* next; (next = strchr(line, '\n')) != NULL; line = next + 1) {
            *next = 0;
            unsigned long from, to;
            char dash;
            if (sscanf(line, "%lx%c%lx ", &from, &dash, &to) == 3 && dash == '-') {
                touches = from < end && to > begin;
                touched |= touches;
            } else if (touches && strncmp(line, "VmFlags:", 8) == 0) {
                held |=
                    strstr(line, " lo") != NULL || strstr(line, " dc") != NULL || strstr(line, " io") != NULL;
            }
        }
        have -= (size_t)(line - text);
        memmove(text, line, have);
        if (got == 0) break;
    }
    close(file);
    return held || !touched;
}

int longshore_adopt(const void* base, size_t bytes, uint64_t* begin, uint64_t* end, uint64_t* offset) {
    const uintptr_t from = ((uintptr_t)base + kPageBytes - 1) & ~(uintptr_t)(kPageBytes - 1);
    const uintptr_t to = ((uintptr_t)base + bytes) & ~(uintptr_t)(kPageBytes - 1);
    if (to <= from || longshore_heap_holds(base)) return 0;
    struct search search = {from, to, 0};
    dl_iterate_phdr(look_at_program, &search);
    if (!search.found || is_held_by_others(from, to)) return 0;
    if (!longshore_heap_adopt((void*)from, to - from, offset)) return 0;
    *begin = from - (uintptr_t)base;
    *end = to - (uintptr_t)base;
    return 1;
}
