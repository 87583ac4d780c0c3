// How a kernel is handed over: the way is behind this interface (inline, processes of the MPI, task
// processes). A rank's kernels run one at a time, in the order in which they are submitted. Called by one
// thread of a rank.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels.h"

enum class Access { kIn = 1, kOut = 2, kInOut = 3, kConstant = 4 };  // a constant buffer never changes

struct Buffer {
    void* data;
    std::size_t bytes;
    Access access;
};

class Side {
  public:
    virtual ~Side() = default;
    // Buffers that are given may not be changed, buffers that are taken not be touched, until wait() has
    // returned.
    virtual void submit(KernelId kernel, const void* arguments, std::size_t arguments_bytes,
                        const std::vector<Buffer>& buffers) = 0;
    virtual void wait(KernelId kernel) = 0;  // of that kernel's one submitted call
    virtual void poll() {}  // between phases, for ways that make progress in the rank's calls alone
    // Whether the masses of points at the borders come back with all ranks' shares in them.
    virtual bool sums_borders() const { return false; }
    virtual void rest() {}  // nothing more will be submitted
    // Bytes of buffers that are neither constant nor mapped: what is copied each time. Counted by the way
    // itself.
    std::size_t bytes_copied = 0;
    int processes = 0;  // beside the rank that serve it; 0: kernels run in the rank
};

std::unique_ptr<Side> make_inline_side();
