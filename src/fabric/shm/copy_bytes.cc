#include "fabric/shm/copy_bytes.h"

#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace longshore {
namespace {

constexpr uint64_t kAliasBytes = 4096;  // of the processor, whatever the kernel's pages
constexpr uint64_t kSlowBytesMin = 8 * 1024;
constexpr uint64_t kStreamBytesMin = 4 * 1024;  // of one copy
constexpr uint64_t kCacheBytesUnknown = 32u << 20;
constexpr size_t kStep = 64;

#if defined(__x86_64__)

// Sixteen bytes at a time, a cache line in each round.
template <bool kStream>
void copy_lines(std::byte* to, const std::byte* from, uint64_t bytes) {
    const auto load = [&](uint64_t at) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at));
    };
    const auto store = [&](uint64_t at, __m128i value) {
        auto* place = reinterpret_cast<__m128i*>(to + at);
        kStream ? _mm_stream_si128(place, value) : _mm_storeu_si128(place, value);
    };
    for (uint64_t at = 0; at < bytes; at += kStep) {
        const __m128i a = load(at), b = load(at + 16), c = load(at + 32), d = load(at + 48);
        if constexpr (kStream)
            _mm_prefetch(reinterpret_cast<const char*>(from + at + 8 * kStep), _MM_HINT_NTA);
        store(at, a);
        store(at + 16, b);
        store(at + 32, c);
        store(at + 48, d);
    }
    if constexpr (kStream) _mm_sfence();  // before anybody is told that the bytes are there
}

template <bool kStream>
void copy_wide(std::byte* to, const std::byte* from, uint64_t bytes) {
    // Whole lines of the target; what is before and behind them by libc.
    const uint64_t head = -reinterpret_cast<uint64_t>(to) % kStep;
    const uint64_t lines = (bytes - head) / kStep * kStep, tail = bytes - head - lines;
    memcpy(to, from, head);
    copy_lines<kStream>(to + head, from + head, lines);
    memcpy(to + head + lines, from + head + lines, tail);
}

#else

// Libc's own is as good: the processors that we know see a long run of stores, and write it past their
// caches.
template <bool kStream>
void copy_wide(std::byte* to, const std::byte* from, uint64_t bytes) {
    memcpy(to, from, bytes);
}

#endif

}  // namespace

uint64_t cache_bytes() {
    static const uint64_t bytes = [] {
        const long known = sysconf(_SC_LEVEL3_CACHE_SIZE);
        return known > 0 ? static_cast<uint64_t>(known) : kCacheBytesUnknown;
    }();
    return bytes;
}

bool copies_slowly(uint64_t from, uint64_t to) {
#if defined(__x86_64__)
    const uint64_t ahead = (to - from) % kAliasBytes;
    return ahead > 0 && ahead < 64;
#else
    return false;
#endif
}

void copy_bytes(std::byte* to, const std::byte* from, uint64_t bytes, uint64_t working_set,
                bool may_overlap) {
    const auto target = reinterpret_cast<uint64_t>(to), source = reinterpret_cast<uint64_t>(from);
    if (may_overlap && source < target + bytes && target < source + bytes) {
        memmove(to, from, bytes);
    } else if (bytes >= kStreamBytesMin && working_set > cache_bytes() / 4 * 3) {
        copy_wide<true>(to, from, bytes);
    } else if (bytes >= kSlowBytesMin && copies_slowly(source, target)) {
        copy_wide<false>(to, from, bytes);
    } else {
        memcpy(to, from, bytes);
    }
}

}  // namespace longshore
