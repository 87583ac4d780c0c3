// The stand-in for a device runtime: what the tests do with it beyond what the runtime itself offers.
#pragma once

#include <stddef.h>

enum device_kind {
    DEVICE_OF_CONTEXT,  // as cuMemAlloc
    DEVICE_OF_POOL,     // as cuMemAllocAsync: belongs to a device, but to no context
    DEVICE_MANAGED,     // the CPU can read it, and is not to
    DEVICE_PINNED,      // host memory that the device knows
};

enum device_failure {
    DEVICE_WORKS,
    DEVICE_REFUSES,      // the copy fails when it is asked for
    DEVICE_FAILS_LATER,  // when it is waited for
};

struct device_runtime {
    // In pages that the CPU cannot read or write, but for managed memory. In place of what is mapped at `at`,
    // or anywhere. Never given back.
    void* (*allocate)(size_t bytes, enum device_kind kind, void* at);
    // By the "device", at once: not counted, and no copy of the runtime's.
    void (*write)(void* device, const void* host, size_t bytes);
    void (*read)(void* host, const void* device, size_t bytes);
    // Of the next copy.
    void (*fail_next)(enum device_failure how);
    // Copies that were waited for.
    int (*copies)(void);
    // Calls that a real runtime would have refused.
    int (*misuses)(void);
};
