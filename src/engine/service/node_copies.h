// Chunks that move between ranks of the node: the service process's share of what waiting ranks do, too.
// Keeps: for each watch how far the laps over its incoming blocks have come; for each operation the shared
// blocks that one of our ranks has read and that others of the node lack.
// Promises: a chunk is claimed before it is returned; a lap that found nothing is not begun again before the
// doorbell has rung.
// Asks: Watches, Operations.
#pragma once

#include "engine/service/watches.h"

namespace longshore {

class NodeCopies final : public Follower {
  public:
    NodeCopies(const ServiceContext& context, Operations& operations, Watches& watches)
        : context_(context), operations_(operations), watches_(watches) {}
    void carve(Carver& c);

    // Without a core of its own: blocks of ranks that wait and move them themselves are left to them.
    void yield_to_waiting_ranks(bool on) { yields_ = on; }
    bool yielded() const { return yielded_; }
    void begin_round() { yielded_ = false; }

    // The next chunk of an operation. `events`: the count of the doorbell now. `helping`: for ranks of other
    // service processes, else for our own. `may_copy`: false: nothing can be taken now.
    bool next(uint32_t operation, uint32_t events, bool helping, bool may_copy, Action* out);
    // A shared block is at its reader: we copy it to the node's other ranks that have entered (so may they
    // themselves). Those who come later find it in their first lap.
    void give_to_node(uint32_t watch, Rank source, WakeSet* wake);
    void finish(const Copy& copy, MoveResult result, WakeSet* wake);

    void operation_opened(uint32_t operation) override { landed_[operation] = {}; }
    void operation_emptied(uint32_t operation) override;
    void watch_began(uint32_t watch, WakeSet* wake) override;

  private:
    struct Lap {
        MoverCursor incoming;
        uint32_t landing_chunk = 0;  // of the rank's own block, to look at next
        uint32_t events = 0;         // the doorbell's count when the present lap began
        bool over = false;           // ... and nothing was left to do in it
    };
    // A shared block that one of our ranks has read.
    struct Landed {
        uint32_t next = kNone;
        GroupSlot group;
        GroupId id;
        uint64_t sequence = 0;
        Rank source;
        uint32_t local_next = 0;  // local member to look at
        uint32_t chunk = 0;
    };
    bool claim(uint32_t watch, Copy* out);
    bool next_landed(uint32_t operation, Action* out);

    const ServiceContext& context_;
    Operations& operations_;
    Watches& watches_;
    Mover mover_{context_.memory, context_.worker};
    Lap* laps_ = nullptr;     // by watch
    List* landed_ = nullptr;  // by operation
    Pool<Landed> pool_;
    bool yields_ = false;
    bool yielded_ = false;  // in the present round over the operations
};

}  // namespace longshore
