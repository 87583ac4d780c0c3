// The nodes of a mirrored broadcast that are not simulated: all but the root's and one that stands for them.
// Of each there is only what the root's node notices: it is told, asks for the pieces of the block as long
// after that as the node that stands for it (but for a service process that sleeps on one of them and looks
// on the other, as one of them had its last block earlier), gets them over links of its own when the root's
// node has time, and acknowledges them. Its ranks have the block as long after its last piece as those of
// that node.
#pragma once

#include "engine/message.h"
#include "model/timing.h"
#include "scale/frames.h"

namespace longshore::timed {

class Offload;

class Receivers final : public Actor, public Arrivals {
  public:
    explicit Receivers(Offload& world);

    void begin_operation();
    // A service process of the root's node says something to one of another.
    void hear(ServiceAddress from, ServiceAddress to, std::span<const std::byte> frame, Time delay);
    // Of the node that stands for the others: a service process that rested since then goes to work, it asks
    // for a piece, one has come, a rank is done.
    void gets_up(ServiceId service, bool has_slept, Time rests_since);
    void asks_for(uint64_t bytes);
    void piece_came();
    void rank_is_done(LocalRank local);

    void on_arrival(uint64_t tag) override;
    void on_event(uint64_t what) override;

  private:
    static constexpr uint32_t kStandsForAll = 1;  // node; 0 is the root's
    // Arrivals and events carry a node, and the number of a frame or of a piece.
    static constexpr uint64_t kPiece = uint64_t{1} << 63, kDone = uint64_t{1} << 62;
    static constexpr uint64_t tag_of(uint32_t node, size_t number) { return uint64_t{node} << 32 | number; }
    struct Node {
        ServiceAddress self, teller;
        OperationId operation;  // that it was told of last
        Row row;
        Time told = 0, last = 0;  // when it was told, and when the last piece came; 0: not yet
        uint64_t taken = 0;       // bytes
        Time last_before = 0;     // the last piece of the operation before; 0: there was none
    };
    // Of a service process of the node that stands for the others: how it came to this operation.
    struct GotUp {
        bool known = false, has_slept = false;
        Time rang = 0, rests_since = 0;
    };
    struct Piece {
        Time after;  // a node has begun with the operation
        uint64_t bytes;
    };
    void take_frame(uint32_t number, const scale::Frame& frame);
    void take_tell(uint32_t number, const Told& told);
    Time starts_at(uint32_t number) const;
    void ask_later(uint32_t number, size_t piece);
    void ask(uint32_t number, const Piece& piece, uint64_t tag);
    void take_piece(uint32_t number, const Piece& piece);
    void acknowledge(const Node& node);
    void finish_when_known(uint32_t number);
    void finish_ranks(uint32_t number);

    Offload& world_;
    std::vector<Node> nodes_;
    // As the first operation's are asked for: others are all asked for alike, and some nodes before the one
    // that stands for them.
    std::vector<Piece> pieces_;
    bool all_pieces_known_ = false;
    std::vector<GotUp> got_up_;  // by service process
    Time begin_ = 0;             // of the operation
    Time own_last_ = 0;          // when a piece came last to the node that stands for the others
    uint32_t own_done_ = 0;
    std::vector<Time> after_;  // by rank of a node: from its last piece until it has the block
};

}  // namespace longshore::timed
