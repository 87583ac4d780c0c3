// A real agent, started as a rank starts it, and memory that a rank could give it.
#pragma once

#include <poll.h>
#include <sys/syscall.h>

#include <memory>
#include <string>
#include <vector>

#include "dpu/host_agent/agent_control.h"
#include "host/start_service.h"

namespace longshore::test {

constexpr uint32_t kLimitS = 30;           // until what a busy machine starts has answered
constexpr int kInTimeMs = 60'000;          // on a machine that is busy with other things
constexpr uint64_t kHeapBytes = 64 << 20;  // sparse

// One that is ready: where it is, and whether it still runs.
class RunningAgent {
  public:
    explicit RunningAgent(uint32_t limit_s = kLimitS, bool exports = true)
        : starter_(std::make_unique<ServiceStarter>()) {
        AgentParameters parameters;
        parameters.limit_s = limit_s;
        parameters.exports = exports;
        if (!starter_->start(LONGSHORED_PATH, "agent", parameters, limit_s, &error)) return;
        ServiceStarter::State state = ServiceStarter::State::kPending;
        while ((state = starter_->test(&ready, &address, &error)) == ServiceStarter::State::kPending)
            usleep(1000);
        const Fd probe = connect_to(ready.name);
        pid_t pid = 0;
        if (!probe || !peer_is_same_user(probe, &pid)) return;
        process_ = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    }
    bool ends_within(int ms) const {
        pollfd gone{process_.get(), POLLIN, 0};
        return poll(&gone, 1, ms) == 1;
    }
    bool ends_in_time() const { return ends_within(kInTimeMs); }
    void give_up() { starter_.reset(); }

    ServiceReady ready;
    std::vector<std::byte> address;
    std::string error;

  private:
    std::unique_ptr<ServiceStarter> starter_;
    Fd process_;
};

struct Heap {
    Fd file = make_memory_file("test-heap", kHeapBytes);
    Mapping memory = Mapping::shared(file.get(), kHeapBytes);
};

inline std::vector<std::byte> some_bytes(size_t count, unsigned seed) {
    std::vector<std::byte> bytes(count);
    for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + (i >> 8) + seed);
    return bytes;
}

}  // namespace longshore::test
