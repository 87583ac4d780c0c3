/* What is mapped in this process, as /proc/self/maps has it. System calls only: no allocation. One thread at
 * a time. */
#ifndef LONGSHORE_MEMORY_MAPPINGS_H
#define LONGSHORE_MEMORY_MAPPINGS_H

#include <stdint.h>

/* The mappings that touch [begin, end), by their addresses; `look` may change those that it has been shown.
 * 0: they cannot be read. */
int longshore_mappings_each(uintptr_t begin, uintptr_t end,
                            void (*look)(uintptr_t from, uintptr_t to, int protection));

/* Whether devices or the system may know the pages behind this process's addresses: memory that is locked, a
 * device that is open and reads and writes memory by itself (network cards, accelerators, io_uring), or a
 * file that is read past the system's cache (O_DIRECT). */
int longshore_pages_are_known(void);

#endif
