// What other service processes have told, as far as it has not all been read: a row for each operation and
// source rank. The rows of an operation are in rounds: the first row of each teller, then the second of each,
// and so on. Whoever reads them in order so has reads under way from all nodes, and one that is late holds
// nobody up. In a round rows are in the order of arrival.
//
// Keeps: the rows; for each watch the row that it looks at next, for each operation the first shared row that
// may have no reader yet.
// Promises: a row is over when each block of it has been settled (block_over); then its source is
// acknowledged. Where there is no room for a row it is forgotten and its teller asked to tell it again; rows
// that nobody can read yet make room for those that somebody can.
// Asks: Acknowledger, Operations (a row holds its operation), SmallBlocks, which go with their row.
#pragma once

#include "engine/service/acknowledger.h"
#include "engine/service/small_blocks.h"
#include "engine/service/spans.h"
#include "engine/service/watches.h"

namespace longshore {

struct RowEntry {
    uint32_t next = kNone;                   // free list
    uint32_t before = kNone, after = kNone;  // in its operation
    uint32_t chain = kNone;                  // in its hash chain
    uint32_t operation = kNone, batch = kNone;
    uint32_t other_end = kNone;  // of the first row of a round: the last; of the last: the first
    uint64_t round = 0;
    uint64_t serial = 0;  // of two rows of a round the later one has the greater
    Row row;
    Collective collective = Collective::kAlltoall;
    LocalRank owner;         // the source, on its node
    uint32_t spans = kNone;  // kSpans: the first of its chunks
    uint32_t left = 0;       // blocks of it that have not been settled
    uint32_t queued = 0;     // of those, in the read queue
    uint64_t since_ns = 0;   // when it began to wait for a rank to enter
    bool used = false;
    bool shared = false;   // of a shared block
    bool whole = false;    // all its parts have come
    bool waiting = false;  // no rank of the node has entered
    bool failed = false;   // some block of it could not be read
};

class Rows final : public Follower {
  public:
    Rows(const ServiceContext& context, Operations& operations, Watches& watches, SmallBlocks& small,
         Acknowledger& acknowledger)
        : context_(context),
          operations_(operations),
          watches_(watches),
          small_(small),
          acknowledger_(acknowledger) {}
    void carve(Carver& c);

    RowEntry& operator[](uint32_t row) const { return pool_[row]; }
    uint32_t room() const { return pool_.room(); }
    bool is_quarter_free() const { return pool_.room() >= pool_.max / 4; }
    bool idle() const { return pool_.in_use() == 0; }
    // Numbers of rows are below it.
    uint32_t limit() const { return pool_.made; }

    uint32_t find(const OperationId& operation, Rank source) const;  // kNone: it is not here
    // A row that has come, or the first part of it. `readable`: a rank that it is for has entered. kNone:
    // there is no room.
    uint32_t make(const Told& told, const Row& row, LocalRank owner, bool readable);
    // False: no room for its spans, or they are not well formed.
    bool add_part(uint32_t row, const Row& part);
    // All of it is here: it gets its place among those of its operation, behind all that any watch looks at.
    void complete(uint32_t row);
    // The block of a row that is for one rank: `own_index` among those of this service process. 0 bytes:
    // none.
    BlockSpan block_in(uint32_t row, Rank rank, uint32_t own_index) const;
    // Its name and place, for a destination.
    RemoteBlock remote_block(uint32_t row, const BlockSpan& span, uint32_t destination) const;
    // A block of it has been settled.
    void block_over(uint32_t row, bool failed);
    // None is left.
    void end(uint32_t row);
    // Forgets it.
    void drop(uint32_t row);
    // Rows of which the last parts will not come: their teller is no more.
    void drop_parts(ServiceAddress of);

    // Rows of an operation, in order; Plain: those that are no shared blocks.
    struct Cursors {
        uint32_t first = kNone, last = kNone;
        uint32_t to_place = kNone;  // the first shared row that may have no reader yet
        uint32_t unpulled = 0;      // own watches that have rows to look at
        uint32_t recent = kNone;  // the row that got its place last, while it is here: the last of its round
        uint64_t round = 0;       // the latest that a watch has come to
    };
    Cursors& cursors(uint32_t operation) const { return cursors_[operation]; }
    uint32_t plain_from(uint32_t row) const;
    // The row that a watch looks at next; kNone: it has looked at all.
    uint32_t next_of(uint32_t watch) const { return next_of_[watch]; }
    void set_next(uint32_t watch, uint32_t row);

    void operation_opened(uint32_t operation) override { cursors_[operation] = {}; }
    void watch_began(uint32_t watch, WakeSet* wake) override;

  private:
    uint32_t& bucket_of(const OperationId& operation, Rank source) const;
    bool evict();
    bool can_go(uint32_t row) const;
    bool is_before(uint32_t a, uint32_t b) const;
    uint32_t place_of(const Cursors& c, uint64_t round) const;
    void link(uint32_t row, uint32_t before);
    void unlink_from_round(uint32_t row);
    void unlink(uint32_t row);

    const ServiceContext& context_;
    Operations& operations_;
    Watches& watches_;
    SmallBlocks& small_;
    Acknowledger& acknowledger_;
    Pool<RowEntry> pool_;
    Spans spans_;
    Buckets buckets_;
    Cursors* cursors_ = nullptr;   // by operation
    uint32_t* next_of_ = nullptr;  // by watch
    uint64_t serial_ = 0;
    uint32_t clock_ = 0;
};

// A row begins, or ends, to wait for a rank of the node to enter: counted.
void begin_waiting(const ServiceContext& context, RowEntry& r);
void stop_waiting(const ServiceContext& context, RowEntry& r);

}  // namespace longshore
