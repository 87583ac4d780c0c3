// Starts a node's supervisor as a process of its own: not a child of this one, with nothing of this one's
// environment, descriptors, signals or terminal. Does not block but for the exec itself.
#pragma once

#include <string>

#include "fabric/shm/control.h"

namespace longshore {

class ServiceStarter {
  public:
    // False: it could not be started; `error` names the cause.
    bool start(const char* path, const SupervisorParameters& parameters, std::string* error);
    enum class State : uint8_t { kPending, kReady, kFailed };
    State test(SupervisorReady* ready, std::string* error);

  private:
    Fd ready_;
    uint64_t deadline_ns_ = 0;
};

}  // namespace longshore
