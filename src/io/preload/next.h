// NEXT(name): the function that would be called without this library.
#pragma once

#include <dlfcn.h>

#define NEXT(name)                                                                   \
    ([] {                                                                            \
        static decltype(&::name) function;                                           \
        if (__builtin_expect(function == nullptr, 0))                                \
            function = reinterpret_cast<decltype(&::name)>(dlsym(RTLD_NEXT, #name)); \
        return function;                                                             \
    }())
