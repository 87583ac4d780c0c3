// The nodes of a job as a node's supervisor hears of them from its first rank, and tells its service
// processes: the supervisors' addresses, and where the network reaches each node's service processes. Pieces
// are checked here. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fabric/shm/control.h"

namespace longshore {

class JobBook {
  public:
    explicit JobBook(const ServiceParameters& parameters);

    // A packet from the first rank. False: it is against the protocol, and nothing has changed.
    bool take_nodes(std::span<const std::byte> packet);
    bool take_workers(std::span<const std::byte> packet);
    // All that service processes must know has come.
    bool is_whole() const;
    // As service processes are told it, in order; it is whole.
    std::vector<std::vector<std::byte>> packets() const;

  private:
    const uint32_t node_count_;
    const uint16_t services_;  // of every node
    std::vector<NodeAddress> nodes_;
    uint32_t aliases_ = 0;
    std::vector<std::vector<std::byte>> workers_;  // by node, where there is a network; empty: not heard yet
};

}  // namespace longshore
