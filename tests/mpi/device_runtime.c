// A stand-in for the CUDA driver or, with STAND_IN_HIP, for HIP: as much of them as Longshore uses. Its
// "device" is a file in memory, mapped twice: where the program sees it, without any access, and where the
// copies go. A copy is not done before its stream is waited for. Of any thread.
#define _GNU_SOURCE
#include "device_runtime.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { kAllocationsMax = 4096, kPendingMax = 65536, kStreamsMax = 4096, kPageBytes = 4096 };

struct allocation {
    char *seen, *real;
    size_t bytes;
    enum device_kind kind;
};
static struct allocation allocations[kAllocationsMax];
static int allocation_count;

struct copy {
    char* to;
    const char* from;
    size_t bytes;
    void* stream;
};
static struct copy pending[kPendingMax];
static int pending_count, done_count, misuse_count, late_failures;
static enum device_failure failure;
static char streams[kStreamsMax];
static int stream_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct allocation* find(const void* address) {
    for (int i = 0; i < allocation_count; ++i) {
        struct allocation* a = &allocations[i];
        if ((const char*)address >= a->seen && (const char*)address < a->seen + a->bytes) return a;
    }
    return NULL;
}

// Where the bytes really are; NULL if they leave their allocation.
static char* real_place(const void* address, size_t bytes) {
    struct allocation* a = find(address);
    if (!a) return (char*)address;
    const size_t at = (size_t)((const char*)address - a->seen);
    return bytes <= a->bytes - at ? a->real + at : NULL;
}

static void* allocate_device(size_t bytes, enum device_kind kind, void* at) {
    const size_t whole = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    const int file = memfd_create("device", 0);
    if (file < 0 || ftruncate(file, (off_t)whole) != 0) abort();
    struct allocation a = {NULL, NULL, whole, kind};
    const int access = kind >= DEVICE_MANAGED ? PROT_READ | PROT_WRITE : PROT_NONE;
    a.seen = mmap(at, whole, access, at ? MAP_SHARED | MAP_FIXED : MAP_SHARED, file, 0);
    a.real = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (a.seen == MAP_FAILED || a.real == MAP_FAILED || allocation_count == kAllocationsMax) abort();
    pthread_mutex_lock(&lock);
    allocations[allocation_count++] = a;
    pthread_mutex_unlock(&lock);
    return a.seen;
}

static void write_device(void* device, const void* host, size_t bytes) {
    memcpy(real_place(device, bytes), host, bytes);
}

static void read_device(void* host, const void* device, size_t bytes) {
    memcpy(host, real_place(device, bytes), bytes);
}

static void fail_next(enum device_failure how) {
    failure = how;
}
static int count_copies(void) {
    return done_count;
}
static int count_misuses(void) {
    return misuse_count;
}

EXPORT const struct device_runtime stand_in = {allocate_device, write_device, read_device,
                                               fail_next,       count_copies, count_misuses};

static int misuse(void) {
    ++misuse_count;
    return 1;
}

static int create_stream(void** stream, unsigned flags) {
    if (flags != 1 || stream_count == kStreamsMax)
        return misuse();  // it would wait for the program's kernels
    *stream = &streams[stream_count++];
    return 0;
}

static int is_stream(const void* stream) {
    return (const char*)stream >= streams && (const char*)stream < streams + stream_count;
}

static int ask_for_copy(void* to, const void* from, size_t bytes, void* stream) {
    if (!is_stream(stream) || pending_count == kPendingMax) return misuse();
    const enum device_failure how = failure;
    failure = DEVICE_WORKS;
    if (how == DEVICE_REFUSES) return 700;
    late_failures += how == DEVICE_FAILS_LATER;
    const struct copy copy = {to, from, bytes, stream};
    pending[pending_count++] = copy;
    return 0;
}

static int wait_for_copies(void* stream) {
    if (!is_stream(stream)) return misuse();
    int left = 0, result = late_failures > 0 ? 700 : 0;
    for (int i = 0; i < pending_count; ++i) {
        const struct copy copy = pending[i];
        if (copy.stream != stream) {
            pending[left++] = copy;
            continue;
        }
        char* to = real_place(copy.to, copy.bytes);
        const char* from = real_place(copy.from, copy.bytes);
        if (!to || !from) result = 1;
        if (result != 0) continue;
        memcpy(to, from, copy.bytes);
        ++done_count;
    }
    pending_count = left;
    late_failures = 0;
    return result;
}

#define LOCKED(call)             \
    pthread_mutex_lock(&lock);   \
    const int result = call;     \
    pthread_mutex_unlock(&lock); \
    return result

#ifdef STAND_IN_HIP

static __thread int last_error;
static int note(int error) {
    if (error != 0) last_error = error;
    return error;
}

EXPORT int hipRuntimeGetVersion(int* version) {
    *version = STAND_IN_HIP;
    return 0;
}

// Managed memory is of a type of its own before ROCm 6, and here of host memory's after that.
static int attribute_of(void* data, int attribute, const void* address) {
    const struct allocation* a = find(address);
    const int is_new = STAND_IN_HIP >= 60000000;
    if (!a) return 1;
    if (attribute == 8) {
        *(char*)data = a->kind == DEVICE_MANAGED && is_new;
        return 0;
    }
    if (attribute != 2) return misuse();
    if (a->kind == DEVICE_MANAGED && !is_new)
        *(unsigned*)data = 4;
    else
        *(unsigned*)data = (unsigned)((a->kind < DEVICE_MANAGED) + is_new);
    return 0;
}

EXPORT int hipPointerGetAttribute(void* data, int attribute, void* address) {
    LOCKED(note(attribute_of(data, attribute, address)));
}

EXPORT int hipGetLastError(void) {
    const int error = last_error;
    last_error = 0;
    return error;
}

EXPORT int hipPeekAtLastError(void) {
    return last_error;
}

EXPORT int hipGetDevice(int* device) {
    *device = 0;
    return 0;
}

EXPORT int hipStreamCreateWithFlags(void** stream, unsigned flags) {
    LOCKED(note(create_stream(stream, flags)));
}

EXPORT int hipMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
    LOCKED(note(kind == 4 ? ask_for_copy(to, from, bytes, stream) : misuse()));
}

EXPORT int hipStreamSynchronize(void* stream) {
    LOCKED(note(wait_for_copies(stream)));
}

#else

// One device, with its primary context. No thread has a current context at first.
enum { kDeviceHandle = 7 };
static char primary;
static __thread int pushed;

static int attribute_of(void* data, int attribute, const void* address) {
    const struct allocation* a = find(address);
    if (!a) return 1;
    switch (attribute) {
        case 1:
            *(void**)data = a->kind == DEVICE_OF_POOL ? NULL : &primary;
            return 0;
        case 2:
            *(unsigned*)data = a->kind >= DEVICE_MANAGED ? 1 : 2;
            return 0;
        case 8:
            *(char*)data = a->kind == DEVICE_MANAGED;
            return 0;
        case 9:
            *(int*)data = 0;
            return 0;
        default:
            return misuse();
    }
}

EXPORT int cuPointerGetAttribute(void* data, int attribute, unsigned long long address) {
    LOCKED(attribute_of(data, attribute, (const void*)(uintptr_t)address));
}

EXPORT int cuCtxGetCurrent(void** context) {
    *context = pushed ? &primary : NULL;
    return 0;
}

EXPORT int cuCtxGetDevice(int* device) {
    *device = kDeviceHandle;
    LOCKED(pushed ? 0 : misuse());
}

EXPORT int cuDeviceGet(int* device, int ordinal) {
    *device = kDeviceHandle;
    LOCKED(ordinal == 0 ? 0 : misuse());
}

EXPORT int cuCtxPushCurrent_v2(void* context) {
    LOCKED(context == &primary ? (++pushed, 0) : misuse());
}

EXPORT int cuCtxPopCurrent_v2(void** context) {
    *context = &primary;
    LOCKED(pushed > 0 ? (--pushed, 0) : misuse());
}

EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
    *context = &primary;
    LOCKED(device == kDeviceHandle ? 0 : misuse());
}

EXPORT int cuStreamCreate(void** stream, unsigned flags) {
    LOCKED(pushed ? create_stream(stream, flags) : misuse());
}

EXPORT int cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t bytes, void* stream) {
    LOCKED(pushed ? ask_for_copy((void*)(uintptr_t)to, (const void*)(uintptr_t)from, bytes, stream)
                  : misuse());
}

EXPORT int cuStreamSynchronize(void* stream) {
    LOCKED(pushed ? wait_for_copies(stream) : misuse());
}

#endif
