/* Buffers of blocks that others read or write by way of the heap's file: those of open operations and tasks.
 * While one stands here a fork leaves its pages shared (fork.c). Any thread, without a lock; no call waits
 * but for a fork that is under way. */
#ifndef LONGSHORE_MEMORY_OPEN_BUFFERS_H
#define LONGSHORE_MEMORY_OPEN_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

/* Its place here, at least 0; -1: there is none. It is known to each fork that begins from now on, and none
 * is under way. */
int longshore_open_buffers_add(const void* base, size_t bytes);
void longshore_open_buffers_remove(int place);

/* For who forks, one at a time: from now on nobody adds any more; and each of those that were. */
void longshore_open_buffers_stop(void);
void longshore_open_buffers_each(void (*look)(uintptr_t base, size_t bytes));
/* The fork is over. */
void longshore_open_buffers_go_on(void);

#endif
