/* A bit for each page, in words of 64. Part of the heap, under its lock. */
#ifndef LONGSHORE_MEMORY_PAGE_BITS_H
#define LONGSHORE_MEMORY_PAGE_BITS_H

#include <stdint.h>

/* The bits of word `word` that stand for pages of [first, end). */
static inline uint64_t longshore_bits_of(uint32_t word, uint32_t first, uint32_t end) {
    const uint32_t begin = word * 64;
    uint64_t bits = ~(uint64_t)0;
    if (first > begin) bits &= ~(uint64_t)0 << (first - begin);
    if (end < begin + 64) bits &= ~(uint64_t)0 >> (begin + 64 - end);
    return bits;
}

static inline uint32_t longshore_bits_count(const uint64_t* words, uint32_t first, uint32_t pages) {
    uint32_t count = 0;
    for (uint32_t word = first / 64; pages != 0 && word <= (first + pages - 1) / 64; ++word)
        count += (uint32_t)__builtin_popcountll(words[word] & longshore_bits_of(word, first, first + pages));
    return count;
}

static inline int longshore_bits_any(const uint64_t* words, uint32_t first, uint32_t pages) {
    for (uint32_t word = first / 64; pages != 0 && word <= (first + pages - 1) / 64; ++word)
        if ((words[word] & longshore_bits_of(word, first, first + pages)) != 0) return 1;
    return 0;
}

/* Others may read a word meanwhile without the lock. */
static inline void longshore_bits_set(uint64_t* words, uint32_t first, uint32_t pages, int value) {
    for (uint32_t word = first / 64; pages != 0 && word <= (first + pages - 1) / 64; ++word) {
        const uint64_t bits = longshore_bits_of(word, first, first + pages), had = words[word];
        const uint64_t has = value ? had | bits : had & ~bits;
        /* Pages of zeros stay those. */
        if (has != had) __atomic_store_n(&words[word], has, __ATOMIC_RELAXED);
    }
}

/* The page behind the last one whose bit is set; `first` if there is none. */
static inline uint32_t longshore_bits_end(const uint64_t* words, uint32_t first, uint32_t pages) {
    if (pages == 0) return first;
    for (uint32_t word = (first + pages - 1) / 64 + 1; word-- > first / 64;) {
        const uint64_t bits = words[word] & longshore_bits_of(word, first, first + pages);
        if (bits != 0) return word * 64 + 64 - (uint32_t)__builtin_clzll(bits);
    }
    return first;
}

/* Of [first, end), the end of the pages that have the same bit as `first`. */
static inline uint32_t longshore_bits_run(const uint64_t* words, uint32_t first, uint32_t end) {
    const uint64_t flip = (words[first / 64] >> first % 64 & 1) != 0 ? ~(uint64_t)0 : 0;
    for (uint32_t word = first / 64; word <= (end - 1) / 64; ++word) {
        const uint64_t others = (words[word] ^ flip) & longshore_bits_of(word, first, end);
        if (others != 0) return word * 64 + (uint32_t)__builtin_ctzll(others);
    }
    return end;
}

#endif
