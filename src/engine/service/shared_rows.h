// Rows of shared blocks (allgather family), of which one rank of the node is to read each: of this service
// process, if one has entered, else of another one, which is then handed the row. If no rank of the node has
// entered, the row waits here (paper S0, III.D.2 hands it around and parks it; every service process here
// sees the records of all ranks of its node).
//
// Keeps: which operations have shared rows that wait and no rank of ours, so no turns.
// Promises: the shared rows of an operation are seen to in the order of their arrival; only one service
// process names the reader of a block (a word of the group's, NodeMemory::reader).
// Asks: Rows, Watches, ReadQueue, Outbox and SmallBlocks to hand rows on.
#pragma once

#include "engine/service/read_queue.h"

namespace longshore {

class SharedRows final : public Follower {
  public:
    SharedRows(const ServiceContext& context, Groups& groups, Peers& peers, Outbox& outbox,
               Operations& operations, Watches& watches, Rows& rows, SmallBlocks& small, ReadQueue& queue)
        : context_(context),
          groups_(groups),
          peers_(peers),
          outbox_(outbox),
          operations_(operations),
          watches_(watches),
          rows_(rows),
          small_(small),
          queue_(queue) {}
    void carve(Carver& c);

    // Finds readers for the rows of an operation, until one has to wait.
    void place(uint32_t operation, WakeSet* wake);
    // Rows that wait: perhaps a rank has entered since.
    void look_at_waiting(WakeSet* wake);
    // One of them could not be handed on for want of room in a frame.
    bool is_blocked() const { return blocked_; }
    // Whether rows have been seen to since this was asked last.
    bool took_some();

    void operation_opened(uint32_t operation) override { waits_[operation] = {}; }
    void watch_ended(uint32_t watch) override;

  private:
    struct Waits {
        uint32_t next = kNone;
        bool listed = false;
    };
    bool place_row(uint32_t row, WakeSet* wake);
    uint32_t choose_reader(const GroupEntry& group, uint64_t sequence, ServiceId* served_by);
    bool some_may_read(const GroupEntry& group, uint64_t sequence) const;
    bool hand_on(uint32_t row, ServiceId to);
    void list(uint32_t operation);

    const ServiceContext& context_;
    Groups& groups_;
    Peers& peers_;
    Outbox& outbox_;
    Operations& operations_;
    Watches& watches_;
    Rows& rows_;
    SmallBlocks& small_;
    ReadQueue& queue_;
    Waits* waits_ = nullptr;    // by operation
    uint32_t waiting_ = kNone;  // operations
    uint32_t round_ = 0;        // of the choice of readers
    bool blocked_ = false;
    bool took_some_ = false;
};

}  // namespace longshore
