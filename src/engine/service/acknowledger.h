// What this service process has to answer for rows that others have told: acknowledgements, and requests to
// tell again.
//
// Keeps: a batch for each operation and teller, with a bit for each source rank that is to be acknowledged;
// who has told something that was dropped for want of room, and is asked to tell it again when there may be
// room.
// Promises: each row that ends is acknowledged, or its teller asked to tell it again. Rows of a batch that
// end at about the same time are acknowledged in one message.
// Asks: Outbox for room, Peers.
#pragma once

#include "engine/service/operations.h"
#include "engine/service/outbox.h"

namespace longshore {

class Acknowledger final : public Follower {
  public:
    Acknowledger(const ServiceContext& context, Peers& peers, Outbox& outbox)
        : context_(context), peers_(peers), outbox_(outbox) {}
    void carve(Carver& c);

    // A row of the batch begins, and is over or forgotten. There are as many batches as rows. `number`: of
    // the operation, as long as it has rows.
    uint32_t begin_row(uint32_t number, const OperationId& operation, ServiceAddress teller);
    void end_row(uint32_t batch, uint16_t local_index, bool failed);
    void forget_row(uint32_t batch);
    ServiceAddress teller(uint32_t batch) const { return batches_[batch].teller; }
    // The round of its next row (rows.h), which is not before `least`.
    uint64_t next_round(uint32_t batch, uint64_t least) {
        uint64_t& round = batches_[batch].round;
        return (round = round < least ? least : round)++;
    }
    // Blocks of its rows in the read queue, and reads of those in flight.
    void count_queued(uint32_t batch, int change) { work_[batches_[batch].number].queued += change; }
    void count_in_flight(uint32_t batch, int change) { work_[batches_[batch].number].in_flight += change; }

    // What rows that are over wait for, where others of their batch are not: blocks of their operation in the
    // read queue, reads of it, nothing. Of their operation and not of the batch, since rows are read in
    // rounds: none of a batch may be in the queue, and some soon be.
    enum class Until : uint8_t { kQueued, kInFlight, kNothing };
    // Returns whether some were sent.
    bool send(Until until);
    // Of a row that is not kept.
    void answer(const OperationId& operation, ServiceAddress teller, uint16_t local_index, bool failed);

    // What a service process has told was dropped.
    void owe(ServiceAddress teller);
    // There may be room for what was dropped.
    void ask_soon() { ask_ |= owed_count_ != 0; }
    void ask_for_dropped();
    // A peer is lost: it tells nothing again.
    void forgive(ServiceAddress teller);
    bool idle() const { return batches_.in_use() == 0; }

    void operation_opened(uint32_t operation) override { work_[operation] = {}; }

  private:
    // Sources whose local indices have the same multiple of 64.
    struct Sources {
        uint32_t next = kNone;
        bool failed = false;
        uint16_t first = 0;
        uint64_t bits = 0;
    };
    // What is to be read of an operation.
    struct Work {
        uint32_t queued, in_flight;
    };
    // What one service process has told of one operation.
    struct Batch {
        uint32_t next = kNone;   // of those with something to acknowledge
        uint32_t chain = kNone;  // of the same teller
        OperationId operation;
        ServiceAddress teller;
        uint32_t rows = 0;        // not over
        uint32_t number = kNone;  // of the operation in the table of those, while it has rows
        uint64_t round = 0;       // of the next row
        List over;                // Sources to be acknowledged
        uint64_t since_step = 0;  // when the first of those came
    };
    bool add(const OperationId& operation, ServiceAddress to, const Sources& sources);
    bool acknowledge(Batch& b);
    void give_if_over(uint32_t batch);

    const ServiceContext& context_;
    Peers& peers_;
    Outbox& outbox_;
    Pool<Batch> batches_;
    Pool<Sources> sources_;
    Work* work_ = nullptr;            // by operation
    uint32_t* batches_of_ = nullptr;  // by peer
    bool* owed_ = nullptr;            // by peer
    List due_;                        // batches
    uint32_t owed_count_ = 0;
    bool ask_ = false;
};

}  // namespace longshore
