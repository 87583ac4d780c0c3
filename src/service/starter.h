// A role of longshored as the rank that starts it sees it: parameters come in one descriptor, in another goes
// the word that it is ready, or why not.
#pragma once

#include <cstddef>
#include <span>

#include "fabric/shm/control.h"

namespace longshore {

class Starter {
  public:
    // All of them, which begin with a ControlHeader. False: they do not come, or are of another build. From
    // then on this process is as it has to be, whatever it was started from: it gets its share of the
    // processor, and no signal for a reader that is gone.
    bool read_parameters(void* parameters, size_t bytes);
    // `address` goes with a `ready` that is ok. False: the starter is gone.
    bool tell(ServiceReady ready, std::span<const std::byte> address);
    // Its other end is held as long as somebody may still come; then it can be polled for an error.
    const Fd& pipe() const { return pipe_; }

  private:
    Fd pipe_;
};

}  // namespace longshore
