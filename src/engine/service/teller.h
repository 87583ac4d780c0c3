// Tells the service processes of other nodes where the blocks of our ranks lie. Of an operation each service
// process that serves its members is told once, in one message: a row for each rank that has entered. Ranks
// that enter later are told of when they do. A record says who has acknowledged, so that whoever starts anew
// tells what has not been.
//
// Keeps: for each watch the peers that are to be told of it, and how far small blocks and long rows have
// come. Promises: what the receiver has not acknowledged is told (again) when it asks (retell), and, where
// ticks repeat, after a while. Asks: Watches and Operations for who has entered, Outbox for room, Peers.
#pragma once

#include "engine/service/outbox.h"
#include "engine/service/watches.h"

namespace longshore {

class Teller final : public Follower {
  public:
    Teller(const ServiceContext& context, Groups& groups, Peers& peers, Outbox& outbox,
           Operations& operations, Watches& watches)
        : context_(context),
          groups_(groups),
          peers_(peers),
          outbox_(outbox),
          operations_(operations),
          watches_(watches) {}
    void carve(Carver& c);

    // Adds rows of an operation to frames, a bounded number of them.
    void tell(uint32_t operation);
    void on_acknowledge(ServiceAddress from, const Acknowledgement& a, WakeSet* wake);
    // A peer knows nothing of what it was told, or had no room for it: it is told what it has not
    // acknowledged.
    void retell(ServiceAddress to);
    // A net: tells again what has not been acknowledged for long.
    void tick();
    // A peer is lost: it will not read what this rank gives it.
    void give_up(uint32_t watch, uint32_t peer, WakeSet* wake);

    void operation_opened(uint32_t operation) override { tasks_[operation] = {}; }
    void watch_began(uint32_t watch, WakeSet* wake) override;
    void watch_ended(uint32_t watch) override { forget(watch); }

  private:
    // What is to be told of an operation.
    struct Task {
        uint32_t due_count = 0;  // pairs of a watch and a peer
        uint32_t due_next = 0;   // the peer to go on with
    };
    struct Progress {
        uint32_t due_count = 0;       // peers to be told
        uint32_t small_peer = kNone;  // the peer that small blocks are being sent to, or were last,
        uint32_t small_next = 0;      // ... and which of its ranks comes next
        uint32_t row_peer = kNone;    // the peer that has been told a part of a row,
        uint32_t spans_told = 0;      // ... so many spans of it
        uint32_t ticks = 0, resend_after = 0;
        bool unacknowledged = false;  // something was told and not acknowledged yet
        bool repeats = false;         // ... and perhaps not for the first time
    };
    struct Given;
    struct Draft;
    void rearm(uint32_t watch, const ServiceAddress* only);
    void forget(uint32_t watch);
    void told(uint32_t watch, uint32_t peer);
    bool tell_peer(uint32_t operation, uint32_t peer, uint32_t* rows);
    bool send_small(uint32_t watch, uint32_t peer);
    bool tell_row(uint32_t watch, uint32_t peer);
    void look_at_given(std::span<const uint32_t> members, const Geometry& geometry, bool shared);
    bool draft_row(uint32_t watch, uint32_t peer, Draft* out);
    bool goes_along(uint32_t watch, ServiceAddress to) const;
    void settle_peer(LocalRank local, RecordId record, const RecordLook& seen, uint32_t peer, bool failed,
                     WakeSet* wake);
    uint64_t* due_bits(uint32_t watch) const { return due_ + uint64_t{watch} * words_; }

    const ServiceContext& context_;
    Groups& groups_;
    Peers& peers_;
    Outbox& outbox_;
    Operations& operations_;
    Watches& watches_;
    Task* tasks_ = nullptr;         // by operation
    Progress* progress_ = nullptr;  // by watch
    uint64_t* due_ = nullptr;       // [watches_max][words_]: peers of the group to be told
    uint32_t words_ = 0;
    Given* given_ = nullptr;  // scratch of one row
};

}  // namespace longshore
