/* What the heap's blocks are made of: a memfd that only grows, at addresses far from where the system places
 * mappings, so that there is room behind. What is not needed yet is not mapped, and counts nowhere. Part of
 * the heap (heap.c), which calls all of this under its lock. docs/decisions/0021-a-heap-that-grows.md has the
 * reasons. */
#ifndef LONGSHORE_MEMORY_BACKING_H
#define LONGSHORE_MEMORY_BACKING_H

#include <stddef.h>
#include <stdint.h>

/* Bytes from `base` on, mapped as far as `bytes`, and at most as far as `bytes_max`. */
typedef struct longshore_span {
    char* base;
    size_t bytes, bytes_max;
} longshore_span;

enum { kBookCount = 5 };
typedef struct longshore_backing {
    int file;                         /* the memfd; the program may have closed it: compare `identity` */
    uint64_t identity;                /* its inode number */
    int is_far;                       /* from where the system places mappings: nothing comes in a hole */
    longshore_span pages;             /* of the file, shared */
    longshore_span books[kBookCount]; /* private and zero: what the heap keeps of its pages */
    size_t book_bits[kBookCount];     /* of each, for every page of 4 KiB */
} longshore_backing;

/* For at most so many bytes of pages, the first of which are there. 0: it cannot be had. */
int longshore_backing_open(longshore_backing* backing, size_t bytes_max, const size_t book_bits[kBookCount]);
/* At least so many bytes are there afterwards, and perhaps more: a multiple of 16 MiB, or all. 0: the system
 * or a limit of this process forbids it, and nothing has changed. */
int longshore_backing_grow(longshore_backing* backing, size_t bytes);
/* Whether the descriptor still is that of the file. */
int longshore_backing_has_file(const longshore_backing* backing);

/* What is at `at` is replaced by bytes of the file from `offset` on: shared, or private to this process,
 * which then has them as they are until it writes to them. At once: other threads write before it, or after
 * it. 0: not possible, and nothing has changed. By libc's function: whoever watches what is mapped
 * (registration caches of networks) is told. */
int longshore_backing_show(const longshore_backing* backing, void* at, size_t offset, size_t bytes);
int longshore_backing_show_private(const longshore_backing* backing, void* at, size_t offset, size_t bytes);
/* Wakes whoever waits (futex) for a word of the file. */
void longshore_backing_wake(const longshore_backing* backing, size_t offset);
/* Those of the pages that somebody has unmapped, where nothing else has come in their place. 0: something
 * has. */
int longshore_backing_show_again(const longshore_backing* backing, void* at, size_t offset, size_t bytes);

/* The first piece of the file in [*begin, end) that has memory; 0: there is none. */
int longshore_backing_next_data(const longshore_backing* backing, size_t* begin, size_t* data_end,
                                size_t end);
/* Gives memory of the file back to the system; private copies stay. */
int longshore_backing_punch(const longshore_backing* backing, size_t offset, size_t bytes);
int longshore_backing_read(const longshore_backing* backing, void* to, size_t offset, size_t bytes);
/* In a forked child. */
void longshore_backing_close(longshore_backing* backing);

#endif
