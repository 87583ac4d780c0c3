// Broadcasts from service process to service process, the child's side. What the source tells and its
// acknowledgements stay between it and each node; only bytes go along the tree: a node asks its parent, which
// offers each chunk while that is in its staging memory, and keeps the slot until it is told that the chunk
// has been taken.
//
// Keeps: what has been asked of parents, and what they have offered.
// Promises: every slot offered is answered (kTaken). Who gets no offer (the parent is late, gone, or short of
// memory) reads at the source: all this only saves the source work.
// Asks: ReadQueue for the chunks, Staging for slots, Outbox, Peers.
#pragma once

#include "engine/service/outbox.h"
#include "engine/service/relay_tree.h"
#include "engine/service/staging.h"

namespace longshore {

class RelayIntake final : public BlockFollower {
  public:
    RelayIntake(const ServiceContext& context, Peers& peers, Outbox& outbox, Watches& watches,
                ReadQueue& queue, Staging& staging)
        : context_(context),
          peers_(peers),
          outbox_(outbox),
          watches_(watches),
          queue_(queue),
          staging_(staging),
          ticket_count_(context.limits.serial) {}
    void carve(Carver& c);

    void block_queued(uint32_t queued) override;
    void block_ended(uint32_t queued) override;
    // A service process of the node knows nothing of us any more.
    void leave_parents(NodeId node);
    void on_offer(ServiceAddress from, uint32_t incarnation, const Relayed& offer);
    void on_pass(const Relayed& m);
    // Begins to fetch the next chunk that was offered, or that will not be and is read at the source. False:
    // none can be.
    bool next(TakenChunk* out);
    // A staged move has fetched its chunk, or could not. True: it was offered, and (failed) is given back.
    bool fetch_ended(uint32_t move, bool fetched);
    void send_wants();
    // A net, not the mechanism: who has not heard of its parent for long goes alone.
    void tick();
    bool idle() const { return offered_.in_use() == 0; }

  private:
    // A block whose chunks have been asked for.
    struct Intake {
        uint32_t next = kNone;
        uint32_t queued = kNone;  // kNone: not in use
        NodeId parent;
        ServiceAddress parent_first;  // of its service processes, to be asked first
        uint64_t ticket = 0;
        bool want_due = false;
        uint32_t offer_count = 0;  // in the list of offers
        bool passed = false;       // there will be no more
        uint32_t ticks = 0;        // since we heard of the parent
    };
    struct Offered {
        uint32_t next = kNone;
        ServiceAddress from;
        uint32_t incarnation = 0;  // of `from`
        Relayed offer;
        bool over = false;  // to be told so
    };
    enum class Took : uint8_t { kYes, kLater, kNo };
    uint32_t find(uint64_t ticket) const;
    void go_alone(uint32_t intake);
    Took take(uint32_t intake, uint32_t offered, TakenChunk* out);
    bool answer(uint32_t offered);

    const ServiceContext& context_;
    Peers& peers_;
    Outbox& outbox_;
    Watches& watches_;
    ReadQueue& queue_;
    Staging& staging_;
    Pool<Intake> pool_;
    Pool<Offered> offered_;
    List offers_;                     // to be taken, or over
    uint32_t* offered_of_ = nullptr;  // by staged move: what it fetches
    uint32_t ticket_count_;
};

}  // namespace longshore
