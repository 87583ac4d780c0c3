// How a rank waits in offloaded calls: it works while there is something to move, then spins briefly (or,
// where there are more ranks than cores, yields), then sleeps until there may be something to do, at most 100
// us, after which the MPI makes progress.
#pragma once

#include <cstdint>

#include "mpi/leaving.h"
#include "mpi/requests/operation.h"

namespace longshore::mpi {

class Waiter {
  public:
    // `native`: what is waited for may be completed by MPI alone, which rings no doorbell of ours: do not
    // sleep.
    explicit Waiter(bool native);
    ~Waiter();
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;
    // Between two looks. `moved`: the last one got something done. `operation`, if not null, is what is
    // waited for.
    void step(bool moved, Operation* operation);

  private:
    void report(Operation* operation);

    const Uncancelled uncancelled_;
    bool native_, spinning_ = false;
    uint32_t spins_ = 0;
    uint64_t begin_ns_ = 0, moved_ns_ = 0, driven_ns_ = 0, now_ns_ = 0;  // from the first step on
    ls_sleeper sleeper_{};
};

}  // namespace longshore::mpi
