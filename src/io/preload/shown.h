// How a function of the C library is defined here, and its second name. A file offset has 64 bits on all
// machines that Longshore runs on, so both are one.
#pragma once

#include <sys/types.h>

#define SHOWN extern "C" __attribute__((visibility("default")))
#define SAME(type, name, of, arguments, attributes) \
    extern "C" __attribute__((visibility("default"), alias(#of))) type name arguments attributes;
static_assert(sizeof(off_t) == 8);
