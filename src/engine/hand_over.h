// Copies between ranks of a host that a DPU serves, made by the ranks themselves. A stand-in claims a chunk
// as a worker of its node does, hands it over to its rank, and settles it when the rank has answered: so a
// block of another host comes to this one once, and whoever holds it is not complete before all have copied
// it.
//
// Both ends are here; what they say to each other goes by their connection, in order (dpu/session/session.h),
// or is lost with it. Pure: no clock, heap or I/O.
//
// A rank that computes copies nothing, and others wait for claims. So a rank has no copies but while it
// waits: in a call that does not return before its operation is over, or between two words of its own, of
// which the stand-in answers the second when the rank has all that was handed over before. Where it computes
// for longer than its stand-in is patient, the agent of its host is handed the copies, if a core there has
// nothing else to do, by the same two ends of a connection of its own; else service processes make what
// copies they can, by way of the DPU. Either until the rank waits.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/mover.h"

namespace longshore {

constexpr uint32_t kHandedMax = 16;  // of one rank, at a time

// The stand-in's end: of the connection to its rank, or to the agent, which attends as long as it is there.
class HandOver {
  public:
    // Copies have the serial numbers from 1 to this one, and from 1 again.
    static constexpr uint32_t kSerialMax = UINT32_MAX / kHandedMax;
    // The first copy has the serial number after `serial`.
    explicit HandOver(uint32_t serial = 0) : serial_(serial) {}
    // Whether a copy may be handed over now. `in_call`: of an operation whose call returns when it is over.
    bool may_give(bool in_call) const { return out_ < kHandedMax && (in_call || attends_); }
    bool attends() const { return attends_; }
    uint32_t out() const { return out_; }

    // The rank waits from now on, or no longer.
    void attend(bool on) { attends_ = on; }
    // Returns the copy's number, by which the rank answers. There has to be room.
    uint32_t give(const Copy& copy);
    // The answer. False: no such copy is out.
    bool take_back(uint32_t number, Copy* out);
    // The other end is lost, and nobody knows what it has copied: one of the copies that are out, which has
    // failed. False: none is.
    bool lose(Copy* out);

  private:
    struct Slot {
        uint32_t number = 0;  // 0: it is free
        Copy copy;
    };
    std::array<Slot, kHandedMax> slots_;
    uint32_t serial_, out_ = 0;
    bool attends_ = false;
};

// Who copies what a rank lacks of an operation that no call waits for.
enum class Copier : uint8_t { kRank, kAgent, kServices };

// How long a stand-in waits for a rank to wait for an operation that is copied for, while others wait for
// what that rank has not copied: once all of it is there, for as long as that took, so that nobody's wait is
// more than doubled by it; and never long.
class Patience {
  public:
    static constexpr uint64_t kMostNs = 100'000'000, kLeastNs = 2'000'000;
    void begin(uint64_t now_ns) {
        since_ns_ = now_ns;
        until_ns_ = now_ns + kMostNs;
    }
    // All that the operation lacks is there to be copied. Only the first time counts.
    void note_there(uint64_t now_ns) {
        if (!is_there_) wait_for(now_ns, std::max(kLeastNs, now_ns - since_ns_));
        is_there_ = true;
    }
    // The rank looks at it again and again, and does not wait.
    void note_looks(uint64_t now_ns) { wait_for(now_ns, kLeastNs); }
    // When it is over. `agent`: the host's is there to copy, which costs the link nothing: then there is no
    // reason to be patient for longer than a rank needs that begins to wait soon.
    uint64_t until_ns(bool agent) const {
        return agent ? std::min(until_ns_, since_ns_ + kLeastNs) : until_ns_;
    }
    // `rank`: it waits.
    Copier choose(bool rank, bool agent, uint64_t now_ns) const {
        if (rank || now_ns <= until_ns(agent)) return Copier::kRank;
        return agent ? Copier::kAgent : Copier::kServices;
    }

  private:
    void wait_for(uint64_t now_ns, uint64_t ns) { until_ns_ = std::min(until_ns_, now_ns + ns); }
    uint64_t since_ns_ = 0, until_ns_ = 0;
    bool is_there_ = false;
};

// A copy as the rank is told of it: of `bytes`, from there in the heap of rank `giver` of the job to there in
// the operation's receive buffer; as the agent is, of no operation: to there in the heap of the rank.
struct HandedCopy {
    uint32_t number = 0, operation = 0, giver = 0;
    uint64_t from = 0, to = 0, bytes = 0;
};

// The rank's end, or the agent's, which takes copies as in a call.
class HandedCopies {
  public:
    // The first word is the one after `serial`, which is even.
    explicit HandedCopies(uint32_t serial = 0) : serial_(serial), answered_(serial) {}
    // Begins to wait, perhaps before the last leave was answered. False: it has, and has not left.
    bool attend();
    // Waits no longer. False: it has not waited.
    bool leave();
    // Which of its words that was; the stand-in answers with the same.
    uint32_t serial() const { return serial_; }
    // False: that is the answer to nothing that this rank said.
    bool left(uint32_t serial);
    // Whether the stand-in may still hand over copies of operations that no call waits for.
    bool is_attended() const { return state_ != State::kAway; }
    bool is_leaving() const { return state_ == State::kLeaving; }

    // False: no stand-in of ours says that.
    bool take(const HandedCopy& copy, bool in_call);
    bool empty() const { return count_ == 0; }
    // The oldest. False: there is none.
    bool next(HandedCopy* out);
    // The oldest of an operation that has ended in an error.
    bool drop(uint32_t operation, HandedCopy* out);
    // The stand-in is lost, and with it whatever it has said.
    void lose();

  private:
    enum class State : uint8_t { kAway, kAttending, kLeaving };
    std::array<HandedCopy, kHandedMax> copies_;
    uint32_t first_ = 0, count_ = 0;
    uint32_t serial_, answered_;  // odd: of an attend, even: of a leave; they wrap
    State state_ = State::kAway;
};

}  // namespace longshore
