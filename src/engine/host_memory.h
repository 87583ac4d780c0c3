// What the network finds where the agent of a host has opened the memory of a rank that a DPU serves. Service
// processes may read there at any time until the rank's operations are over on all nodes, whatever becomes of
// the rank, and over some networks nothing tells them that it is gone: what they read has to be what the rank
// gave, or nothing. Pure.
#pragma once

#include <cstdint>

namespace longshore {

class HostMemory {
  public:
    // The memory that the rank has; what it held when the rank gave its buffers up, where nothing reaches the
    // rank any more; or anything.
    enum class Behind : uint8_t { kRank, kCopy, kNothing };
    Behind behind() const { return behind_; }

    // The rank gives up operations with which others are perhaps not done: its buffers are its program's
    // again.
    void withdraw() {
        if (behind_ == Behind::kRank) behind_ = Behind::kCopy;
    }
    // The rank says that it goes, and that its operations are over: nobody reads there.
    void leave() { leaves_ = true; }
    // It is gone. Who has not said so was killed perhaps; its memory then stays as it was.
    void end() {
        if (leaves_) behind_ = Behind::kNothing;
    }

  private:
    Behind behind_ = Behind::kRank;
    bool leaves_ = false;
};

}  // namespace longshore
