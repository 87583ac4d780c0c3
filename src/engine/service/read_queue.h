// Blocks of other nodes that can be read: each has been told of, and its destination rank has entered.
//
// Keeps: the queue, for each operation the blocks that are ready; reads in flight are the driver's
// (reads.h), moves through staging memory Staging's.
// Promises: a chunk is claimed before it is returned, and settled once. A block ends when all its chunks are
// settled, whoever settled them, or its operation is over; then its row hears of it, or who lent it is rung.
// Asks: Watches, Operations, Rows, SmallBlocks, and NodeCopies to give shared blocks on.
#pragma once

#include "engine/service/node_copies.h"
#include "engine/service/rows.h"

namespace longshore {

// Which chunks of a block are read at the source: those whose number leaves `first` when divided by `step`.
// 0: none of them. The others come from elsewhere (relay_intake.h).
struct OwnChunks {
    uint32_t first = 0, step = 1;
    bool has(uint32_t chunk) const { return step != 0 && chunk % step == first; }
    bool all() const { return step == 1; }
};

struct QueuedRead {
    // In the ready list; some chunks are to come from elsewhere; all chunks are taken; some are, or were,
    // held by another service process.
    enum class Place : uint8_t { kReady, kAwaiting, kIssued, kStalled };
    uint32_t next = kNone;
    Place place = Place::kReady;
    uint32_t watch = kNone;
    uint32_t row = kNone;     // which it belongs to; kNone: it was lent to us
    LocalRank local;          // whose operation the watch is of
    uint64_t generation = 0;  // of the record
    RemoteBlock block;
    OwnChunks own;
    uint32_t chunk = 0;  // to look at next
    uint32_t in_flight = 0;
    bool failed = false;
    bool cancelled = false;   // its operation is over already, its watch gone
    bool lent = false;        // another service process has been told of it, too
    bool is_relayed = false;  // between service processes: not to be lent
    uint32_t small = kNone;   // the block itself, where it came before its row
};

// A chunk of a queued block that has been claimed for us.
struct TakenChunk {
    uint32_t queued = kNone;
    uint32_t chunk = 0;
    MemoryRef to;
    uint64_t offset = 0, bytes = 0;  // in the block
    uint64_t claim_offset = 0;       // of the claim word in the node's memory
};

// A part that keeps something for queued blocks.
class BlockFollower {
  public:
    virtual void block_queued(uint32_t queued) = 0;
    virtual void block_ended(uint32_t queued) = 0;

  protected:
    ~BlockFollower() = default;
};

class ReadQueue final : public Follower {
  public:
    ReadQueue(const ServiceContext& context, Peers& peers, Operations& operations, Watches& watches,
              Rows& rows, SmallBlocks& small, Acknowledger& acknowledger, NodeCopies& copies)
        : context_(context),
          peers_(peers),
          operations_(operations),
          watches_(watches),
          rows_(rows),
          small_(small),
          acknowledger_(acknowledger),
          copies_(copies) {}
    void carve(Carver& c);
    void follow(BlockFollower* f);

    // kOver, kFailed: it has been read, or never will be.
    enum class Queued : uint8_t { kQueued, kOver, kFailed, kNoRoom };
    Queued add(uint32_t watch, const RemoteBlock& block, uint32_t row, WakeSet* wake);
    const QueuedRead& operator[](uint32_t queued) const { return pool_[queued]; }
    bool idle() const { return pool_.in_use() == 0; }
    // Whether more blocks of an operation are to be found for it.
    bool wants_more(uint32_t operation) const;
    uint32_t ready_count(uint32_t operation) const { return tasks_[operation].ready.count; }

    // The next chunk of an operation's ready blocks. False: none, or the first one needs a slot of staging
    // memory and there is none.
    bool next(uint32_t operation, bool slot_is_free, TakenChunk* out, WakeSet* wake);
    bool take(uint32_t queued, uint32_t chunk, TakenChunk* out);
    // It has come, or has not. It is still ours, so the record is the operation's.
    void settle(const TakenChunk& taken, MoveResult result, WakeSet* wake);
    // ... and nothing of it is under way any more.
    void chunk_over(uint32_t queued, WakeSet* wake);
    // It could not be had from where it was offered: it is free again, and will be read at the source.
    void give_back(const TakenChunk& taken);
    // Chunks that are not `own` come from elsewhere.
    void set_own(uint32_t queued, const OwnChunks& own);
    // All that is missing is looked at again, to be read at the source.
    void read_all(uint32_t queued);
    void mark_relayed(uint32_t queued) { pool_[queued].is_relayed = true; }

    // Chunks that others held may be free.
    void retry_stalled();
    void retire_cancelled(WakeSet* wake);
    // Blocks of an operation that would not be read soon are lent to another service process of the node, at
    // most `blocks_max`; returns how many. What is too much for that one comes to it last here, too.
    uint32_t lend(uint32_t operation, ServiceId to, uint32_t blocks_max, Outbox& outbox);

    void operation_opened(uint32_t operation) override { tasks_[operation] = {}; }
    void operation_emptied(uint32_t operation) override;
    void watch_began(uint32_t watch, WakeSet*) override { queued_of_[watch] = 0; }
    void watch_ended(uint32_t watch) override;

  private:
    struct Task {
        List ready;           // blocks to be read, in order
        uint32_t queued = 0;  // blocks of it in the queue
    };
    void make_ready(uint32_t queued);
    void finish(uint32_t queued, WakeSet* wake);
    void retire(uint32_t queued, WakeSet* wake);

    const ServiceContext& context_;
    Peers& peers_;
    Operations& operations_;
    Watches& watches_;
    Rows& rows_;
    SmallBlocks& small_;
    Acknowledger& acknowledger_;
    NodeCopies& copies_;
    BlockFollower* followers_[2] = {};
    Pool<QueuedRead> pool_;
    List stalled_, cancelled_;
    Task* tasks_ = nullptr;          // by operation
    uint32_t* queued_of_ = nullptr;  // by watch: blocks of it in the queue
};

}  // namespace longshore
