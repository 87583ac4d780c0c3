// Memory of a GPU. It is known by asking the device runtime that the program itself has loaded (the CUDA
// driver, or HIP), and copied by that runtime: Longshore links none and loads none. Of any thread.
#pragma once

#include <cstddef>

namespace longshore::mpi {

// Whether the program has loaded a device runtime by now. Cheap: the loader is asked how many objects it has
// ever loaded, and what these are only after that number has changed.
bool device_runtime_loaded();

// Whether the CPU must not count on reading the byte at `address`: it lies in memory of a device, or in
// managed memory, which moves to and from devices. Host memory that a device can reach (pinned, registered)
// is host memory.
bool is_device_memory(const void* address);

// Copies between host memory and one buffer of device memory. They may begin at once and are over only after
// finish(). They run in a stream of Longshore's own, which waits for no stream of the program: what a kernel
// writes into a buffer must be there before the buffer is given to MPI, as with every MPI that knows devices.
class DeviceCopies {
  public:
    // `address`: in the buffer.
    explicit DeviceCopies(const void* address);
    ~DeviceCopies();
    DeviceCopies(const DeviceCopies&) = delete;
    DeviceCopies& operator=(const DeviceCopies&) = delete;

    void add(void* to, const void* from, size_t bytes);
    // False if any copy has failed.
    bool finish();

  private:
    const struct DeviceRuntime* runtime_ = nullptr;
    void* context_ = nullptr;
    void* stream_ = nullptr;
    bool entered_ = false, ok_ = false;
};

}  // namespace longshore::mpi
