// Rows of other nodes' blocks as they come, and which of their blocks can be read. Those of the alltoall
// family wait until the ranks they are for have entered; each rank that has goes through the rows once.
// Shared blocks are SharedRows's.
//
// Keeps: for each operation which of its watches is the next to look at rows.
// Promises: nothing that comes in is believed before it has been checked against the group; a row that no
// rank will ever need is acknowledged at once; a row that there is no room for is asked for again.
// Asks: Rows, SharedRows, ReadQueue, Acknowledger, SmallBlocks.
#pragma once

#include "engine/service/shared_rows.h"

namespace longshore {

class Arrivals final : public Follower {
  public:
    Arrivals(const ServiceContext& context, Groups& groups, Peers& peers, Operations& operations,
             Watches& watches, Rows& rows, SmallBlocks& small, Acknowledger& acknowledger, ReadQueue& queue,
             SharedRows& shared)
        : context_(context),
          groups_(groups),
          peers_(peers),
          operations_(operations),
          watches_(watches),
          rows_(rows),
          small_(small),
          acknowledger_(acknowledger),
          queue_(queue),
          shared_(shared) {}
    void carve(Carver& c);

    // `handed_on`: by a service process of this node, which was told.
    void on_told(const Told& told, ServiceAddress sender, bool handed_on, WakeSet* wake);
    void on_small(ServiceAddress from, const SmallBlock& block);
    // Finds blocks of an operation that can be read now, and queues them. Each rank takes the rows
    // that are there, of all nodes in turn, before the next rank does: rows are so over at about the same
    // time, and acknowledged at once.
    void pull(uint32_t operation, WakeSet* wake);
    // A net: rows for ranks that were past an operation before this service process had seen them in it.
    void sweep();
    // A row was dropped for want of room since this was asked last.
    bool dropped_some();

    void operation_opened(uint32_t operation) override { pull_watch_[operation] = kNone; }
    void watch_began(uint32_t watch, WakeSet* wake) override;
    void watch_ended(uint32_t watch) override;

  private:
    // What a row is worth that has not been kept: a rank has entered and lacks a block of it; one may enter
    // that does; none will need it.
    enum class Worth : uint8_t { kAwaited, kLater, kNothing };
    Worth worth_of(const GroupEntry& group, const Told& told, const Row& row) const;
    bool is_plausible(const GroupEntry& group, const Told& told, const Row& row) const;
    void on_row(GroupSlot slot, const Told& told, const Row& row, bool handed_on, WakeSet* wake);
    void begin_row(GroupSlot slot, uint32_t row, bool handed_on, WakeSet* wake);
    void begin_plain_row(const GroupEntry& group, uint32_t row);
    void drop_stale_watches(uint32_t operation);
    bool has_entered(const GroupEntry& group, uint64_t sequence) const;
    bool pull_row(uint32_t watch, WakeSet* wake);

    const ServiceContext& context_;
    Groups& groups_;
    Peers& peers_;
    Operations& operations_;
    Watches& watches_;
    Rows& rows_;
    SmallBlocks& small_;
    Acknowledger& acknowledger_;
    ReadQueue& queue_;
    SharedRows& shared_;
    uint32_t* pull_watch_ = nullptr;  // by operation: whose turn it is to look
    bool dropped_some_ = false;
};

}  // namespace longshore
