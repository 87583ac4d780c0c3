// Atomic<T>: std::atomic in every build but one. The interleaving explorer (tests/explorer) compiles the same
// code with an atomic of its own that lets another participant run before each access.
#pragma once

#ifdef LONGSHORE_EXPLORE
#include "explorer_atomic.h"
namespace longshore {
template <class T>
using Atomic = ExploredAtomic<T>;
}
#else
#include <atomic>
namespace longshore {
template <class T>
using Atomic = std::atomic<T>;
}
static_assert(std::atomic<unsigned long>::is_always_lock_free, "shared words must work between processes");
#endif

namespace longshore {

// Between two looks at a word that others write: leaves the core's other thread room, and costs some 40 ns.
inline void cpu_relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// For plain arrays in shared memory that a stale reader may look at while their owner rewrites them: the
// reader finds out by a failed claim, and the look itself is no data race.
template <class T>
inline T load_relaxed(const T* p) {
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}
template <class T>
inline void store_relaxed(T* p, T v) {
    __atomic_store_n(p, v, __ATOMIC_RELAXED);
}

}  // namespace longshore
