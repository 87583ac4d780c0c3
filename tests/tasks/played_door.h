// A door for streams (tasks/guests.h) at which a test puts what comes.
#pragma once

#include <deque>

#include "tasks/guests.h"

namespace longshore::tasks {

class PlayedDoor final : public StreamDoor {
  public:
    // All streams are of carriers of that node.
    PlayedDoor(std::deque<Fd>* streams, NodeId node) : streams_(*streams), node_(node) {}
    int fd() const override { return -1; }
    void turn() override {}
    Fd take(NodeId* from) override {
        if (streams_.empty()) return {};
        *from = node_;
        Fd stream = std::move(streams_.front());
        streams_.pop_front();
        return stream;
    }

  private:
    std::deque<Fd>& streams_;
    const NodeId node_;
};

}  // namespace longshore::tasks
