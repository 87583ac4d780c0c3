// The nodes of a job that is mirrored: one node is simulated, and all others are taken to do the same at the
// same time. What it says to the node d places after it the node d places before it says to it.
#pragma once

#include "model/job.h"
#include "scale/model.h"

namespace longshore::timed {

class Mirror {
  public:
    explicit Mirror(const Job& job);
    // A service process of node 0 says something to one of another node: what is said to node 0 then.
    // Borrowed until the next call.
    scale::FrameQueue& say(ServiceAddress from, ServiceAddress to, std::span<const std::byte> frame);

  private:
    const scale::Workload workload_;
    scale::Model model_;
    scale::Frame frame_;
    scale::FrameQueue said_;
};

}  // namespace longshore::timed
