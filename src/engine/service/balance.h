// Balance between the service processes of a node. One that has had much to do for a while says so; an idle
// one then moves chunks between its ranks, and is lent blocks of other nodes that it would have to read.
// Nothing is handed over for good: claims decide who moves what, once, and the service process whose ranks
// they are stays the one to answer for them, whoever dies.
//
// Keeps: how much has been moved without a pause, and whether there was something to help with.
// Promises: nobody is woken twice for the same work.
// Asks: ReadQueue for blocks to lend, Watches and Turns for whose they are, Outbox.
#pragma once

#include "engine/service/outbox.h"
#include "engine/service/read_queue.h"

namespace longshore {

class Balance {
  public:
    Balance(const ServiceContext& context, Groups& groups, Peers& peers, Outbox& outbox, Turns& turns,
            Operations& operations, Watches& watches, ReadQueue& queue)
        : context_(context),
          groups_(groups),
          peers_(peers),
          outbox_(outbox),
          turns_(turns),
          operations_(operations),
          watches_(watches),
          queue_(queue) {}

    void set_load(ServiceLoad load);
    // So many bytes have been moved for ranks of our own.
    void moved(uint64_t bytes) { run_bytes_ += bytes + kMoveCostBytes; }
    // There is nothing to do now.
    void pause();
    // After a move of our own: have we had too much to do for long? Then others are asked for help.
    void ask_for_help(WakeSet* wake);
    // A block for a rank of another service process of the node, which has much to do. Where anything is not
    // as it should be it is left to that one.
    void on_lent(const RemoteBlock& block, WakeSet* wake);
    // With nothing to do for our own ranks: whether others have too much. `events`: the doorbell's count.
    bool may_help(uint32_t events) const;
    // Whose ranks' operations are to be watched, one after the other; false: no more.
    bool next_loaded(ServiceId* s) const;
    void helped(bool found, uint32_t events);

  private:
    ServiceLoad load_of(ServiceId s) const;
    void lend(ServiceId to);

    const ServiceContext& context_;
    Groups& groups_;
    Peers& peers_;
    Outbox& outbox_;
    Turns& turns_;
    Operations& operations_;
    Watches& watches_;
    ReadQueue& queue_;
    uint64_t run_bytes_ = 0;             // moved since there was nothing to do
    uint64_t ask_at_ = 0, ring_at_ = 0;  // when others are to be asked for help next, or even woken for it
    uint32_t help_events_ = 0;           // the doorbell's count when there was nothing to help with
    bool help_over_ = false;             // ... if so
};

}  // namespace longshore
