// The copy loops, and which of them serves when. Between spans that are both mapped here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace longshore {

// `working_set`: how many bytes are read and written together with these, by everybody, before the cache
// lines are used again; 0: not known. What exceeds the last-level cache is written past the caches. The spans
// may overlap only where `may_overlap` says so.
void copy_bytes(std::byte* to, const std::byte* from, uint64_t bytes, uint64_t working_set, bool may_overlap);

// Whether long copies from there to there are slow ones for the processor's own copy instruction, which both
// the kernel and libc use on x86: `rep movsb` falls to a quarter or a tenth of its speed on Zen 3 and later
// where the target is 1 to 63 bytes ahead of the source modulo 4 KiB. Never elsewhere.
bool copies_slowly(uint64_t from, uint64_t to);

// Of the machine's last-level cache.
uint64_t cache_bytes();

}  // namespace longshore
