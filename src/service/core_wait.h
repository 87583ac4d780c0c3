// How long this process waits for its core when it wants to run, by the word of the scheduler.
#pragma once

#include <cstdint>

#include "fabric/shm/system.h"

namespace longshore {

class CoreWait {
  public:
    CoreWait();
    // On average per wait since the last call, in ns; 0: it has not waited, or the kernel does not tell.
    uint64_t take_ns();

  private:
    bool read(uint64_t* waited_ns, uint64_t* turns) const;
    Fd file_;
    uint64_t waited_ns_ = 0, turns_ = 0;
};

}  // namespace longshore
