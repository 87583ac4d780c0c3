// Wakes sleepers: a rank by a futex on its slot, a service process by an eventfd. The sleeper sets its flag
// and looks once more before it blocks; the ringer (NodeMemory::ring_rank, ring_service) counts first and
// looks at the flag then, so no wake-up is lost. What is here is only the system call for those found
// sleeping.
#pragma once

#include <vector>

#include "engine/node_memory.h"
#include "fabric/shm/system.h"

namespace longshore {

// In `sleeping`: somebody has found it asleep and is about to make the system call.
constexpr uint32_t kBeingWoken = 2;

class Doorbell {
  public:
    Doorbell() = default;
    // eventfds[s]: of service process s of the node.
    Doorbell(const NodeMemory& memory, std::vector<Fd> eventfds)
        : memory_(memory), eventfds_(std::move(eventfds)) {}

    void ring(const WakeSet& sleepers) const;
    int eventfd(ServiceId service) const { return eventfds_[service.value].get(); }
    size_t services() const { return eventfds_.size(); }

  private:
    NodeMemory memory_;
    std::vector<Fd> eventfds_;
};

void ring_eventfd(int fd);

// Sleeps until the rank's event count differs from `seen`, at most timeout_ns. Returns the count.
uint32_t sleep_rank(RankSlot& slot, uint32_t seen, uint64_t timeout_ns);

}  // namespace longshore
