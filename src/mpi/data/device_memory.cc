#include "mpi/data/device_memory.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

namespace longshore::mpi {

// What differs between runtimes. All functions may be called by any thread.
struct DeviceRuntime {
    bool (*is_device)(const void* address);
    // Makes the context of the buffer at `address` the thread's own until leave(). False if that fails.
    bool (*enter)(const void* address, void** context);
    void (*leave)();
    bool (*create_stream)(void** stream);  // in the context entered, not waiting for the program's streams
    bool (*copy)(void* to, const void* from, size_t bytes, void* stream);
    bool (*synchronize)(void* stream);
};

namespace {

// One function of a runtime, by its name in the runtime's library.
template <class Function>
bool find(void* library, const char* name, Function** function) {
    *function = reinterpret_cast<Function*>(dlsym(library, name));
    return *function != nullptr;
}

// The CUDA driver, not the runtime above it: programs link that statically, its structures change between
// versions, and its failures are seen by the program's cudaGetLastError. Names and numbers are those of
// cuda.h, where a macro maps cuCtxPushCurrent to cuCtxPushCurrent_v2.
namespace cuda {

constexpr int kSuccess = 0;
constexpr int kAttributeContext = 1, kAttributeMemoryType = 2, kAttributeIsManaged = 8,
              kAttributeDeviceOrdinal = 9;
constexpr unsigned kMemoryTypeDevice = 2;
constexpr unsigned kStreamNonBlocking = 1;

int (*pointer_get_attribute)(void* data, int attribute, unsigned long long address);
int (*ctx_get_current)(void** context);
int (*ctx_get_device)(int* device);
int (*ctx_push_current)(void* context);
int (*ctx_pop_current)(void** context);
int (*device_get)(int* device, int ordinal);
int (*device_primary_ctx_retain)(void** context, int device);
int (*stream_create)(void** stream, unsigned flags);
int (*memcpy_async)(unsigned long long to, unsigned long long from, size_t bytes, void* stream);
int (*stream_synchronize)(void* stream);

unsigned long long number(const void* address) {
    return reinterpret_cast<uintptr_t>(address);
}

// Managed memory, of which the memory type says "device" or "host" wherever its pages are, counts as device
// memory: the CPU may not touch it on every machine while a kernel runs, and another process may not be able
// to read it. The query fails for memory that CUDA does not know, and before the program has initialized
// CUDA.
bool is_device(const void* address) {
    unsigned type = 0, managed = 0;
    if (pointer_get_attribute(&type, kAttributeMemoryType, number(address)) != kSuccess) return false;
    return type == kMemoryTypeDevice ||
           (pointer_get_attribute(&managed, kAttributeIsManaged, number(address)) == kSuccess &&
            managed != 0);
}

// The primary context of a device, kept for the life of the process.
void* primary_context(int device) {
    constexpr int kDevicesMax = 64;
    static std::mutex mutex;
    static void* contexts[kDevicesMax];
    if (device < 0 || device >= kDevicesMax) return nullptr;
    const std::lock_guard lock(mutex);
    if (!contexts[device] && device_primary_ctx_retain(&contexts[device], device) != kSuccess)
        contexts[device] = nullptr;
    return contexts[device];
}

// A context of the device of the given number: the thread's own, or the primary one.
void* context_of_device(int ordinal) {
    int device = 0, current_device = -1;
    if (device_get(&device, ordinal) != kSuccess) return nullptr;
    void* current = nullptr;
    if (ctx_get_current(&current) == kSuccess && current && ctx_get_device(&current_device) == kSuccess &&
        current_device == device)
        return current;
    return primary_context(device);
}

// Memory of a pool, or mapped by the virtual memory functions, belongs to a device but to no context.
bool enter(const void* address, void** context) {
    int ordinal = 0;
    if (pointer_get_attribute(context, kAttributeContext, number(address)) != kSuccess) *context = nullptr;
    if (!*context && pointer_get_attribute(&ordinal, kAttributeDeviceOrdinal, number(address)) == kSuccess)
        *context = context_of_device(ordinal);
    return *context && ctx_push_current(*context) == kSuccess;
}

void leave() {
    void* context = nullptr;
    ctx_pop_current(&context);
}

bool create_stream(void** stream) {
    return stream_create(stream, kStreamNonBlocking) == kSuccess;
}

bool copy(void* to, const void* from, size_t bytes, void* stream) {
    return memcpy_async(number(to), number(from), bytes, stream) == kSuccess;
}

bool synchronize(void* stream) {
    return stream_synchronize(stream) == kSuccess;
}

constexpr DeviceRuntime kRuntime = {is_device, enter, leave, create_stream, copy, synchronize};

bool load(void* library) {
    return find(library, "cuPointerGetAttribute", &pointer_get_attribute) &&
           find(library, "cuCtxGetCurrent", &ctx_get_current) &&
           find(library, "cuCtxGetDevice", &ctx_get_device) && find(library, "cuDeviceGet", &device_get) &&
           find(library, "cuCtxPushCurrent_v2", &ctx_push_current) &&
           find(library, "cuCtxPopCurrent_v2", &ctx_pop_current) &&
           find(library, "cuDevicePrimaryCtxRetain", &device_primary_ctx_retain) &&
           find(library, "cuStreamCreate", &stream_create) && find(library, "cuMemcpyAsync", &memcpy_async) &&
           find(library, "cuStreamSynchronize", &stream_synchronize);
}

}  // namespace cuda

// HIP. Every thread has a current device, and memory of all devices has addresses of its own, so any device's
// stream can copy it.
namespace hip {

constexpr int kSuccess = 0;
constexpr int kAttributeMemoryType = 2, kAttributeIsManaged = 8;
constexpr int kMemcpyDefault = 4;
constexpr unsigned kStreamNonBlocking = 1;
// ROCm 6 gave the memory types the numbers of CUDA's; hipRuntimeGetVersion is 10,000,000 for each major.
constexpr int kNewTypes = 60'000'000;

int (*pointer_get_attribute)(void* data, int attribute, void* address);
int (*runtime_get_version)(int* version);
int (*get_last_error)();
int (*peek_at_last_error)();
int (*get_device)(int* device);
int (*stream_create_with_flags)(void** stream, unsigned flags);
int (*memcpy_async)(void* to, const void* from, size_t bytes, int kind, void* stream);
int (*stream_synchronize)(void* stream);
bool has_new_types = false;

// False if HIP does not know the memory. The program is not to find that error in its own check of the last
// one.
bool attribute_of(const void* address, int attribute, unsigned* value) {
    const bool clean = peek_at_last_error() == kSuccess;
    *value = 0;
    const bool ok = pointer_get_attribute(value, attribute, const_cast<void*>(address)) == kSuccess;
    if (!ok && clean) get_last_error();
    return ok;
}

bool is_device(const void* address) {
    unsigned type = 0, managed = 0;
    if (!attribute_of(address, kAttributeMemoryType, &type)) return false;
    // Device, managed, unified: 2, 3, 11; before ROCm 6: 1, 4, 3.
    if (has_new_types ? type == 2 || type == 3 || type == 11 : type == 1 || type == 3 || type == 4)
        return true;
    return attribute_of(address, kAttributeIsManaged, &managed) && managed != 0;
}

// Streams are kept by this "context": the current device, counted from 1.
bool enter(const void*, void** context) {
    int device = 0;
    if (get_device(&device) != kSuccess) return false;
    *context = reinterpret_cast<void*>(static_cast<intptr_t>(device) + 1);
    return true;
}

void leave() {}

bool create_stream(void** stream) {
    return stream_create_with_flags(stream, kStreamNonBlocking) == kSuccess;
}

bool copy(void* to, const void* from, size_t bytes, void* stream) {
    return memcpy_async(to, from, bytes, kMemcpyDefault, stream) == kSuccess;
}

bool synchronize(void* stream) {
    return stream_synchronize(stream) == kSuccess;
}

constexpr DeviceRuntime kRuntime = {is_device, enter, leave, create_stream, copy, synchronize};

bool load(void* library) {
    int version = 0;
    if (!find(library, "hipPointerGetAttribute", &pointer_get_attribute) ||
        !find(library, "hipRuntimeGetVersion", &runtime_get_version) ||
        !find(library, "hipGetLastError", &get_last_error) ||
        !find(library, "hipPeekAtLastError", &peek_at_last_error) ||
        !find(library, "hipGetDevice", &get_device) ||
        !find(library, "hipStreamCreateWithFlags", &stream_create_with_flags) ||
        !find(library, "hipMemcpyAsync", &memcpy_async) ||
        !find(library, "hipStreamSynchronize", &stream_synchronize) ||
        runtime_get_version(&version) != kSuccess)
        return false;
    has_new_types = version >= kNewTypes;
    return true;
}

}  // namespace hip

// A runtime's library, by the beginning of its file's name; `in_use` once it was found.
struct Library {
    const char* name;
    bool (*load)(void* library);
    const DeviceRuntime* runtime;
    std::atomic<bool> in_use{false};
};
constinit Library libraries[] = {{"libcuda.so", cuda::load, &cuda::kRuntime},
                                 {"libamdhip64.so", hip::load, &hip::kRuntime}};

std::atomic<bool> any_in_use = false;
std::atomic<uint64_t> looked_at = 0;  // the loader's count of objects when they were looked at
std::mutex look_mutex;

uint64_t objects_ever_loaded() {
    uint64_t count = 0;
    dl_iterate_phdr(
        [](dl_phdr_info* object, size_t, void* user) {
            *static_cast<uint64_t*>(user) = object->dlpi_adds;
            return 1;
        },
        &count);
    return count;
}

// A library that other libraries have loaded for themselves is not among the global names (RTLD_LOCAL: so
// CUDA's runtime loads the driver), but it is among the objects, and can be opened by the name it has there.
void look_at_objects() {
    std::vector<std::string> names;
    dl_iterate_phdr(
        [](dl_phdr_info* object, size_t, void* user) {
            if (object->dlpi_name && *object->dlpi_name)
                static_cast<std::vector<std::string>*>(user)->emplace_back(object->dlpi_name);
            return 0;
        },
        &names);
    for (Library& library : libraries) {
        for (size_t i = 0; !library.in_use && i < names.size(); ++i) {
            const size_t slash = names[i].rfind('/');
            const char* file = names[i].c_str() + (slash == std::string::npos ? 0 : slash + 1);
            if (strncmp(file, library.name, strlen(library.name)) != 0) continue;
            // Stays open: the program cannot unload it any more.
            void* handle = dlopen(names[i].c_str(), RTLD_LAZY | RTLD_NOLOAD);
            if (handle && library.load(handle)) {
                library.in_use = true;
                any_in_use = true;
            }
        }
    }
}

// The stream of a context. A stream that has failed is forgotten, as its context may be gone.
struct Stream {
    const DeviceRuntime* runtime;
    void *context, *stream;
};
constexpr size_t kStreamsMax = 64;
std::mutex streams_mutex;
// Never destroyed: MPI calls may come from atexit handlers.
std::vector<Stream>& streams() {
    static auto* all = new std::vector<Stream>;
    return *all;
}

void* stream_of(const DeviceRuntime* runtime, void* context) {
    const std::lock_guard lock(streams_mutex);
    for (const Stream& one : streams())
        if (one.runtime == runtime && one.context == context) return one.stream;
    void* stream = nullptr;
    if (streams().size() == kStreamsMax || !runtime->create_stream(&stream)) return nullptr;
    streams().push_back({runtime, context, stream});
    return stream;
}

void forget_stream(void* stream) {
    const std::lock_guard lock(streams_mutex);
    std::erase_if(streams(), [stream](const Stream& one) { return one.stream == stream; });
}

const DeviceRuntime* runtime_of(const void* address) {
    if (!device_runtime_loaded()) return nullptr;
    for (const Library& library : libraries)
        if (library.in_use && library.runtime->is_device(address)) return library.runtime;
    return nullptr;
}

}  // namespace

bool device_runtime_loaded() {
    const uint64_t count = objects_ever_loaded();
    if (count != looked_at.load(std::memory_order_acquire)) {
        const std::lock_guard lock(look_mutex);
        look_at_objects();
        looked_at.store(count, std::memory_order_release);
    }
    return any_in_use.load(std::memory_order_relaxed);
}

bool is_device_memory(const void* address) {
    return runtime_of(address) != nullptr;
}

DeviceCopies::DeviceCopies(const void* address) : runtime_(runtime_of(address)) {
    if (!runtime_) return;
    entered_ = runtime_->enter(address, &context_);
    if (entered_) stream_ = stream_of(runtime_, context_);
    ok_ = stream_ != nullptr;
}

DeviceCopies::~DeviceCopies() {
    if (entered_) runtime_->leave();
}

void DeviceCopies::add(void* to, const void* from, size_t bytes) {
    ok_ = ok_ && runtime_->copy(to, from, bytes, stream_);
}

bool DeviceCopies::finish() {
    if (!stream_) return false;
    // Also after a failure: those before it may still be under way.
    const bool over = runtime_->synchronize(stream_);
    if (!ok_ || !over) forget_stream(stream_);
    return ok_ && over;
}

}  // namespace longshore::mpi
