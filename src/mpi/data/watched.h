// Programs under Valgrind, which does not see what other processes write into the program's memory.
#pragma once

#include <cstddef>

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#endif

namespace longshore::mpi {

inline bool is_watched() {
#ifdef RUNNING_ON_VALGRIND
    static const bool runs_on_valgrind = RUNNING_ON_VALGRIND != 0;
    return runs_on_valgrind;
#else
    return false;
#endif
}

// From here on Valgrind takes the bytes for written.
inline void tell_written([[maybe_unused]] const void* begin, [[maybe_unused]] size_t bytes) {
#ifdef VALGRIND_MAKE_MEM_DEFINED
    static_cast<void>(VALGRIND_MAKE_MEM_DEFINED(begin, bytes));
#endif
}

}  // namespace longshore::mpi
