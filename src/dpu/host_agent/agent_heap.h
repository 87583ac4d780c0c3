// The heap of a rank as its machine's agent has it: mapped with room to grow, and pieces of it open to the
// network. What the network finds there when the rank gives its buffers up or is gone is HostMemory's. One
// thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "dpu/host_agent/agent_control.h"
#include "engine/host_memory.h"
#include "fabric/network.h"

namespace longshore {

class AgentHeap {
  public:
    // Neither `network` nor what it has open may outlast this.
    AgentHeap(MemoryAgent* network, Fd file) : network_(*network), file_(std::move(file)) {}

    // Whether the file has so many bytes there.
    bool has(uint64_t offset, uint64_t bytes) const;
    // Bytes that it has. Empty: they cannot be mapped.
    std::span<std::byte> find(uint64_t offset, uint64_t bytes);

    struct Keys {
        uint64_t address = 0;
        std::vector<std::byte> key, exported;
    };
    // Whether a rank that keeps to the protocol may ask for that.
    bool may_open(const AgentOpen& request) const;
    // False: not possible; `error` says why.
    bool open(const AgentOpen& request, Keys* out, std::string* error);
    // False: no such piece is open.
    bool close(uint64_t id);

    // Nothing reaches the rank's own memory any more, and what was open is found as it is now. False: that
    // cannot be.
    bool withdraw();
    void leave() { held_.leave(); }
    // Its rank is gone.
    void end();

  private:
    struct Opening {
        UcxOpening* opened = nullptr;  // null: the network has let go of it
        std::span<std::byte> memory;
        uint64_t offset = 0;  // in the file
    };
    void close_all();
    bool copy_open() const;

    MemoryAgent& network_;
    Fd file_;
    HostMemory held_;
    // Of the file, which grows: each larger than the one before, the last in use.
    std::vector<Mapping> memories_;
    std::unordered_map<uint64_t, Opening> openings_;
};

}  // namespace longshore
