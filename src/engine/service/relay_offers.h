// Broadcasts from service process to service process, the parent's side: chunks that are in our staging
// memory are offered to the children that asked for them, and their slots kept until they have been taken.
//
// Keeps: the blocks that are relayed with their children, requests that came before their block was told of,
// and who may still read which slot.
// Promises: one slot at least is never kept, so that everybody goes on; a request is answered by offers or by
// kPass.
// Asks: ReadQueue and Staging for the chunks, Rows for what has been told, Outbox, Peers.
#pragma once

#include "engine/service/outbox.h"
#include "engine/service/relay_tree.h"
#include "engine/service/staging.h"

namespace longshore {

class RelayOffers final : public BlockFollower {
  public:
    RelayOffers(const ServiceContext& context, Groups& groups, Peers& peers, Outbox& outbox, Watches& watches,
                Rows& rows, ReadQueue& queue, Staging& staging)
        : context_(context),
          groups_(groups),
          peers_(peers),
          outbox_(outbox),
          watches_(watches),
          rows_(rows),
          queue_(queue),
          staging_(staging) {}
    void carve(Carver& c);

    void block_queued(uint32_t queued) override;
    // Its block is there, or will not be: no more offers.
    void block_ended(uint32_t queued) override;
    // `ticks`: since it came.
    void on_want(const Relayed& want, uint32_t ticks);
    // A block may have found its reader.
    void answer_waiting();
    // A chunk has come into its slot, or never will.
    void offer(uint32_t move);
    void dismiss_children(uint32_t queued);
    void on_taken(ServiceAddress from, const Relayed& m);
    // Earlier incarnations of a service process do not read any more. (Of one that is lost nobody knows
    // whether it still does: what it was offered is kept for good.)
    void drop_before(ServiceAddress of, uint32_t incarnation);
    void send_passes();
    // A net, not the mechanism: who waits for long goes alone.
    void tick();
    bool idle() const { return wants_.in_use() == 0 && passes_.in_use() == 0; }
    // Slots that only service processes that are lost may still read.
    uint32_t slots_of_lost() const;

  private:
    struct Child {
        ServiceAddress at;
        uint64_t ticket = 0;
        uint32_t index = 0;  // in the tree
    };
    struct Relay {
        uint32_t next = kNone;
        uint32_t queued = kNone;  // kNone: not in use
        RelayTree tree;
        uint32_t child_count = 0;
        Child children[kRelayChildrenMax] = {};
    };
    struct Want {
        uint32_t next = kNone;
        Relayed want;
        uint32_t ticks = 0;
    };
    struct Pass {
        uint32_t next = kNone;
        ServiceAddress to;
        uint64_t ticket = 0;
    };
    // Who may read a slot.
    struct Readers {
        uint32_t count = 0;
        struct {
            ServiceAddress at;
            uint64_t ticket;
        } all[kRelayChildrenMax];
    };
    uint32_t find(uint32_t queued) const;
    bool adopt(Relay* r, const Relayed& want);
    bool offer_to(const Child& child, uint32_t move);
    bool skip(const Child& child, uint64_t offset);
    void dismiss(Relay* r, uint32_t child);
    void pass(ServiceAddress to, uint64_t ticket);
    void forget_reader(uint32_t move, uint32_t reader);

    const ServiceContext& context_;
    Groups& groups_;
    Peers& peers_;
    Outbox& outbox_;
    Watches& watches_;
    Rows& rows_;
    ReadQueue& queue_;
    Staging& staging_;
    Pool<Relay> pool_;
    Pool<Want> wants_;
    List waiting_;  // wants
    Pool<Pass> passes_;
    List due_passes_;
    Readers* readers_ = nullptr;   // by staged move
    uint32_t* read_by_ = nullptr;  // by peer: slots that it may read
    uint32_t kept_ = 0;            // slots that somebody may read
};

}  // namespace longshore
