// LONGSHORE_CHECK: a programmer's error stops the process, in release builds too. Used in service, engine and
// simulator; the shim, which lives in other people's processes, has its own way (it switches offload off).
#pragma once

#include <cstdlib>

#define LONGSHORE_CHECK(condition)                      \
    do {                                                \
        if (__builtin_expect(!(condition), 0)) abort(); \
    } while (0)
