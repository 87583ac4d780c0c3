// A rank's side of the agent of its machine (dpu/host_agent/agent.h), which opens its memory to the network.
// Calls wait for the agent's answer: it is beside the rank, and answers at once. One call at a time.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fabric/shm/packet_queue.h"

namespace longshore {

// A piece of memory that the network reaches by its address in the agent, with the agent's key.
struct OpenedMemory {
    uint64_t id = 0, address = 0, bytes = 0;
    std::vector<std::byte> key;
    // For an alias of it (dpu/transport/host_region.h). Empty: there is none.
    std::vector<std::byte> exported;
};

class AgentClient {
  public:
    AgentClient() = default;
    AgentClient(const AgentClient&) = delete;
    AgentClient& operator=(const AgentClient&) = delete;
    // Ends the connection. In a forked child it does nothing to its parent's.
    ~AgentClient();

    // Once. `memory_file`: of a memfd of that size that nobody can shrink; needed for the call only.
    // `limit_s`: for this call's answer, and each later one's. False: `error` says why.
    bool connect(const SocketName& name, const Token& token, int memory_file, uint64_t limit_s,
                 std::string* error);
    // The bytes from `offset` of the file, at least 1, until close(). Pieces may overlap. `exports`: for
    // aliases, too.
    bool open(uint64_t offset, uint64_t bytes, bool exports, OpenedMemory* out, std::string* error);
    void close(uint64_t id);
    // Which rank this is, and where it says that others may copy from it (dpu/rank/far_neighbours.h).
    // `copies`: the agent may do so for this one while it computes, until stop_copies() returns. An agent
    // that does not answer to that in time is killed.
    void tell_copies(uint32_t rank, bool copies, uint64_t word_address, uint64_t word);
    void stop_copies();
    // Nothing of this rank's memory is read or written by others from now on; what was open to the network is
    // found there as it is now, or not at all. For good: nothing can be opened any more.
    void withdraw();
    // All operations are over: nobody has to find anything.
    void leave();

  private:
    bool ask(const void* packet, size_t bytes, const std::vector<int>& descriptors, uint64_t id,
             OpenedMemory* out, std::string* error);
    bool wait(short events, uint64_t end_ns) const;
    void end_agent() const;

    PacketQueue unsent_;  // what needs no answer, and goes before the next question
    Fd socket_, agent_;   // agent_: the process, if the system can tell when it ends
    pid_t pid_ = 0;
    uint64_t limit_ns_ = 0;
    uint64_t last_id_ = 0;
    bool copies_ = false, withdrawn_ = false;
};

}  // namespace longshore
