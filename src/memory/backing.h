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

enum { kBookCount = 2 };
typedef struct longshore_backing {
    int file;                         /* the memfd; the program may have closed it: compare `identity` */
    uint64_t identity;                /* its inode number */
    longshore_span pages;             /* of the file, shared */
    longshore_span books[kBookCount]; /* private and zero: what the heap keeps of its pages */
    size_t book_bits[kBookCount];     /* of each, for every page of 4 KiB */
} longshore_backing;

/* For at most so many bytes of pages, the first of which are there. 0: it cannot be had. */
int longshore_backing_open(longshore_backing* backing, size_t bytes_max, const size_t book_bits[kBookCount]);
/* At least so many bytes are there afterwards, and perhaps more: a multiple of 16 MiB, or all. 0: the system
 * or a limit of this process forbids it, and nothing has changed. */
int longshore_backing_grow(longshore_backing* backing, size_t bytes);
/* Those of the file from `offset` on, at `at` in their place. 0: not possible, and nothing has changed. */
int longshore_backing_show(const longshore_backing* backing, void* at, size_t offset, size_t bytes);

/* In a forked child, in this order: what is mapped becomes private memory with nothing in it; what is wanted
 * of it, and at other places where the file was shown, is filled with what the parent has; the file is let
 * go. By system calls alone: libraries that watch mappings have locks, which other threads of the parent may
 * have held. 0: there is no memory for it, and what is at the place cannot be touched any more. */
typedef struct longshore_copying {
    int file;    /* -1: the program has closed it */
    char* alias; /* or all of it, mapped once more */
} longshore_copying;
int longshore_backing_leave(longshore_backing* backing, longshore_copying* copying);
/* `shown`: the place is not one of the pages, and becomes private only now. */
int longshore_backing_copy(const longshore_copying* copying, char* at, size_t offset, size_t bytes,
                           int shown);
void longshore_backing_left(longshore_backing* backing, const longshore_copying* copying);

#endif
