// Starts longshored, a node's supervisor or a machine's agent, as a process of its own: not a child of this
// one, with nothing of this one's descriptors, signals or terminal, and of its environment only what sets up
// the network. Does not block but for the exec itself.
#pragma once

#include <string>
#include <vector>

#include "fabric/shm/control.h"

namespace longshore {

// What it has started ends with it, unless somebody has attached or connected by then.
class ServiceStarter {
  public:
    // False: it could not be started; `error` names the cause.
    // `role`: its first argument; `parameters`: what it reads from its descriptor kParameterFd.
    template <class Parameters>
    bool start(const char* path, const char* role, const Parameters& parameters, uint32_t limit_s,
               std::string* error) {
        static_assert(sizeof parameters < 65536, "fits a pipe, so that writing it does not block");
        return start_with(path, role, std::as_bytes(std::span(&parameters, 1)), limit_s, error);
    }
    enum class State : uint8_t { kPending, kReady, kFailed };
    // `address`: where the network reaches the agent; of a supervisor, its service processes (append_address
    // in fabric/network.h).
    State test(ServiceReady* ready, std::vector<std::byte>* address, std::string* error);

  private:
    bool start_with(const char* path, const char* role, std::span<const std::byte> parameters,
                    uint32_t limit_s, std::string* error);
    Fd ready_;
    std::vector<std::byte> heard_;
    uint64_t deadline_ns_ = 0;
};

}  // namespace longshore
