// Chunks that go through staging memory of this service process, because the algorithm says so or because the
// fabric moves nothing from one rank's memory into another's (papers S1 and S3, "staging"). A chunk larger
// than a slot goes in pieces, so that a message may be larger than the memory. Staged bytes are soft like
// everything here: a block counts as read when it has landed in a rank's memory, and the claims on the way
// are those of any mover.
//
// Keeps: a move for each slot: a chunk that is fetched into it, piece by piece, and delivered to its
// destination and, where the block is shared, to the node's other ranks that lack it. One fabric operation at
// a time; several slots keep several in flight.
// Promises: a slot is free again when its move is over and nobody holds it.
// Asks: ReadQueue, whose chunks it moves.
#pragma once

#include "engine/service/read_queue.h"

namespace longshore {

// In the id of an action: it belongs to a staged move.
constexpr uint32_t kMoveId = 0x80000000u;

// Where a chunk is fetched from, if not from its source.
struct Offer {
    ServiceAddress from;
    RegionName region;
    uint64_t offset = 0;
};

class Staging {
  public:
    Staging(const ServiceContext& context, Watches& watches, ReadQueue& queue)
        : context_(context), watches_(watches), queue_(queue), serial_(context.limits.serial) {}
    void carve(Carver& c);

    bool has_room() const { return pool_.room() != 0; }
    uint32_t limit() const { return pool_.made; }  // numbers of moves are below it
    uint32_t in_use() const { return pool_.in_use(); }

    // A chunk of a queued block begins its way; there has to be a slot. Returns its number. `offer`: null: it
    // is fetched from its source.
    uint32_t fetch(const TakenChunk& taken, const Offer* offer);
    // A chunk between two ranks of this node.
    void copy(const Copy& copy);
    // The next fabric operation of any move. False: none.
    bool next(Action* out);

    // One has ended. Was it a fetch?
    bool is_fetching(uint32_t move) const { return !at(move).fetched; }
    void fetched(uint32_t move, WakeSet* wake);
    void delivered(uint32_t move, MoveResult result, WakeSet* wake);
    // It cannot be fetched: whoever still waits for it is told so.
    void fail(uint32_t move, MoveResult result, WakeSet* wake);
    // It cannot be fetched from where it was offered.
    void give_back(uint32_t move);

    // For those that offer slots to others.
    struct View {
        uint32_t queued = kNone;  // of whose block it is a chunk; kNone: of none, or it is over
        uint32_t chunk = 0;
        uint32_t serial = 0;  // tells one use of the slot from another
        uint64_t offset = 0, bytes = 0;
        bool in_slot = false;  // all of it is there
    };
    View view(uint32_t move) const;
    void hold(uint32_t move) { ++pool_[move].holds; }
    void release(uint32_t move);

  private:
    struct Move {
        uint32_t next = kNone;
        bool from_node = false;  // between two ranks of the node: `copy` says from where; else:
        TakenChunk taken;
        Offer offer;
        bool offered = false;
        Copy copy;                // where it goes
        uint64_t done = 0;        // bytes delivered before the present piece
        bool fetched = false;     // the present piece is in the slot
        uint32_t target = kNone;  // local index delivered to; kNone: the destination of `copy`
        bool settled = false;     // that one's chunk is
        uint64_t others[kRanksPerNodeMax / 64] = {};  // local indices whose chunk we hold, too
        bool over = false;
        uint32_t serial = 0;
        uint32_t holds = 0;
    };
    const Move& at(uint32_t move) const;
    uint64_t piece_of(const Move& m) const;
    void end(uint32_t move, WakeSet* wake);
    void settle_target(Move& m, MoveResult result, WakeSet* wake);
    void choose_others(Move& m, WakeSet* wake);
    bool other_chunk(const Move& m, uint32_t local_index, bool claim, Copy* copy) const;
    bool next_target(Move& m) const;
    MemoryRef target_of(const Move& m) const;
    void give(uint32_t move);

    const ServiceContext& context_;
    Watches& watches_;
    ReadQueue& queue_;
    Mover mover_{context_.memory, context_.worker};
    Pool<Move> pool_;
    List due_;  // whose next fabric operation is to be posted
    uint32_t serial_;
};

}  // namespace longshore
