// A rank in the host's MPI: what it has to do in the rounds of an algorithm, done by its one core in order.
#pragma once

#include <deque>

#include "model/host_world.h"

namespace longshore::timed {

class HostRank final : public Actor, public Arrivals {
  public:
    HostRank(HostWorld& world, uint32_t rank) : world_(world), rank_(rank) {}

    void enter_at(Time time);
    void on_event(uint64_t what) override;
    void on_arrival(uint64_t tag) override;

    // What comes to a rank, of a message that its sender and its round name.
    enum class Note : uint8_t {
        kReady,    // it can be read
        kHere,     // a short one has come
        kRead,     // its bytes have come from another node
        kCopied,   // its bytes have been copied from another rank of the node
        kReadOut,  // one of this rank's has been read by its receiver
    };
    static uint64_t tag_of(Note note, uint32_t peer, uint32_t round) {
        return uint64_t(note) << 60 | uint64_t{round} << 30 | peer;
    }

  private:
    static constexpr uint64_t kEnter = 0, kStep = 1, kDone = 2, kSlices = 3;
    void step();
    void after(Time cost);
    bool post_next();
    bool take_next();
    Time take(uint64_t tag);
    Time fetch(uint32_t peer, uint64_t bytes, uint32_t round);
    Time send(const Message& message);
    void tell(uint32_t peer, Note note, uint32_t round, uint64_t bytes, Time delay);
    void begin_round();
    bool is_last_round() const { return round_ + 1 >= world_.rounds(); }
    void compute();
    void stop_computing();
    void end_slice(uint64_t number);
    uint64_t bytes_from(uint32_t peer) const;

    HostWorld& world_;
    const uint32_t rank_;
    Time entered_ = 0;
    bool starting_ = false;  // in the call that starts the collective
    // The program computes, so long at a time as nothing may interrupt it; what is over is told from its
    // number.
    bool computing_ = false;
    Time compute_left_ = 0, slice_begin_ = 0;
    uint64_t slice_ = 0;
    uint32_t round_ = 0;
    Round now_;
    size_t posted_ = 0;   // of this round, receives first
    size_t pending_ = 0;  // of this round, not over
    bool busy_ = false;   // its core is in a step
    bool copying_ = false;
    bool open_ = false;  // in a collective
    std::deque<uint64_t> inbox_;
    std::vector<uint64_t> early_;  // of rounds to come
};

}  // namespace longshore::timed
