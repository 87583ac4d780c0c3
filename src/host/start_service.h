// Starts a node's supervisor as a process of its own: not a child of this one, with nothing of this one's
// descriptors, signals or terminal, and of its environment only what sets up the network. Does not block but
// for the exec itself.
#pragma once

#include <string>
#include <vector>

#include "fabric/shm/control.h"

namespace longshore {

class ServiceStarter {
  public:
    // False: it could not be started; `error` names the cause.
    bool start(const char* path, const SupervisorParameters& parameters, std::string* error);
    enum class State : uint8_t { kPending, kReady, kFailed };
    // `workers`: where the network reaches its service processes (fabric/network.h).
    State test(SupervisorReady* ready, std::vector<std::byte>* workers, std::string* error);

  private:
    Fd ready_;
    std::vector<std::byte> heard_;
    uint64_t deadline_ns_ = 0;
};

}  // namespace longshore
