// What the agent of a host does for one of its ranks while that computes (engine/hand_over.h): it copies from
// other ranks' heaps into this one's what the rank's stand-in on the DPU hands over, so that the link between
// the two brings a block once. In pieces, because the network may need the agent meanwhile. One thread.
#pragma once

#include <functional>

#include "dpu/host_agent/agent_control.h"
#include "dpu/session/stream.h"
#include "engine/hand_over.h"

namespace longshore {

// The heaps of a machine's ranks, by rank of the job, as they are mapped here.
class RankHeaps {
  public:
    virtual ~RankHeaps() = default;
    // Null: such a rank is not known, or its heap has no such bytes. Until the next call.
    virtual std::byte* find(uint32_t rank, uint64_t offset, uint64_t bytes) = 0;
    // Whether what was told of a rank's buffers until now still holds (dpu/rank/far_neighbours.h).
    virtual bool holds(uint32_t rank) = 0;
};

class AgentCopier {
  public:
    // Has the agent woken when the descriptor is readable or, if asked for, writable, until it is closed.
    using Watch = std::function<bool(int fd, bool for_writing)>;
    // Begins to connect to the stand-in, by way of the standing service of the job's DPU.
    AgentCopier(const AgentParameters& job, uint32_t rank, Watch watch);
    // Does what there is to do, but of copies only a piece. False: the connection is over.
    bool turn(RankHeaps& heaps);
    // Its stand-in knows of it.
    bool is_welcome() const { return welcomed_; }
    // There is something to copy.
    bool has_work() const { return copying_.bytes != 0 || !handed_.empty(); }

  private:
    bool finish_connecting();
    bool hear();
    void copy(RankHeaps& heaps);
    void answer(bool ok);

    const AgentParameters& job_;
    const uint32_t rank_;
    const Watch watch_;
    Fd connecting_;
    SessionStream stream_;
    bool welcomed_ = false;
    HandedCopies handed_;
    HandedCopy copying_;  // of 0 bytes: none
    uint64_t done_ = 0;   // of its bytes
    uint32_t looks_ = 0;  // for a giver that is not known yet
};

}  // namespace longshore
