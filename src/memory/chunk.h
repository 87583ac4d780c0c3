/* What glibc keeps in front of a block that it has mapped by itself. Each block of the heap has the same in
 * front of it, at the end of a page of its own: whoever finds glibc's own functions by another way than their
 * names (dlsym on libc's handle, plug-ins that look for names in their own libraries first) gives blocks to
 * them, and they do what is right: `free` unmaps page and block, `malloc_usable_size` knows the size,
 * `realloc` copies a block that is to grow and unmaps the end of one that is to shrink.
 * docs/decisions/0051-blocks-that-any-free-takes.md has the reasons. */
#ifndef LONGSHORE_MEMORY_CHUNK_H
#define LONGSHORE_MEMORY_CHUNK_H

#include <stddef.h>

enum { kChunkPageBytes = 4096, kChunkIsMapped = 2, kChunkBits = 7 };

static inline size_t* longshore_chunk_words(const void* block) {
    return (size_t*)block - 2;
}

static inline void longshore_chunk_write(void* block, size_t bytes) {
    size_t* const words = longshore_chunk_words(block);
    words[0] = kChunkPageBytes - 2 * sizeof(size_t); /* of the page in front, before the words themselves */
    words[1] = (bytes + 2 * sizeof(size_t)) | kChunkIsMapped;
}

/* Bytes of the block; 0: that is no such block. */
static inline size_t longshore_chunk_read(const void* block) {
    const size_t* const words = longshore_chunk_words(block);
    const size_t bytes = (words[1] & ~(size_t)kChunkBits) - 2 * sizeof(size_t);
    return words[0] == kChunkPageBytes - 2 * sizeof(size_t) && (words[1] & kChunkBits) == kChunkIsMapped &&
                   bytes % kChunkPageBytes == 0
               ? bytes
               : 0;
}

#endif
