/* Threads that wait for a word of memory in the system (futex). One that may be woken by other processes,
 * too, as whoever waits for a thread's end is, waits for the memory behind the word: where that is exchanged
 * nobody would wake it any more. */
#ifndef LONGSHORE_MEMORY_WAITERS_H
#define LONGSHORE_MEMORY_WAITERS_H

#include <stdint.h>

/* Other threads of this process that wait so for a word in [begin, end). System calls only: no allocation. */
void longshore_waiters_each(uintptr_t begin, uintptr_t end, void (*look)(uintptr_t word));

#endif
