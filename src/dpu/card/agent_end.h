// A stand-in's end of the connection to the agent of its rank's host, which copies for the rank while that
// computes (engine/hand_over.h). The agent comes by the standing service, at any time or never, and once.
#pragma once

#include <functional>

#include "dpu/session/stream.h"
#include "engine/hand_over.h"

namespace longshore {

class AgentEnd {
  public:
    // `wanted`: the rank has said that copies may be made for it.
    AgentEnd(Fd door, uint32_t limit_s, bool wanted)
        : door_(wanted ? std::move(door) : Fd()), limit_s_(limit_s) {}

    // A copy was made, or has failed.
    using Settle = std::function<void(const Copy&, bool ok)>;
    // What has arrived. True: something has.
    bool hear(const Settle& settle);
    // Descriptors that are readable when there is something to hear; -1: none.
    int door() const { return door_.get(); }
    int connection() const { return stream_.open() ? stream_.fd() : -1; }
    // False: something still waits to be sent.
    bool flush() { return !stream_.open() || stream_.flush(); }

    bool attends() const { return handed_.attends(); }
    bool may_give() const { return handed_.may_give(false); }
    // From there in the heap of rank `giver` of the job to there in that of the rank. There has to be room.
    void give(const Copy& copy, uint32_t giver, uint64_t from, uint64_t to);

  private:
    bool hear_door();
    bool take(SessionKind kind, std::span<const std::byte> body, const Settle& settle);

    Fd door_;  // closed when the agent has come
    const uint32_t limit_s_;
    SessionStream stream_;
    HandOver handed_;
};

}  // namespace longshore
