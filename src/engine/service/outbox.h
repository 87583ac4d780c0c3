// Control messages on their way to other service processes.
// Keeps: a frame per peer that messages are added to until it is sent, who is to be greeted, and blocks that
// go along behind the frame that tells of them.
// Promises: messages to one peer leave in the order in which they were added; what was added is sent, however
// much else there is to do, after at most kActionsPerFrame further actions; a peer that is lost takes
// everything and gets nothing.
// Asks: Peers.
#pragma once

#include "engine/service/peers.h"

namespace longshore {

class Outbox {
  public:
    Outbox(const ServiceContext& context, Peers& peers) : context_(context), peers_(peers) {}
    void carve(Carver& c);

    // False: no room until a frame has gone, or no such peer.
    bool add(ServiceAddress to, const Message& m);
    // As FrameWriter::add_row.
    uint32_t add_row(ServiceAddress to, MessageKind kind, const Told& told, const Row& row,
                     std::span<const BlockSpan> spans);
    // What has been added goes out with the next action, full frame or not.
    void send_soon() { full_ = true; }
    void greet(ServiceAddress to);
    // A peer is lost: what was to be sent to it is dropped.
    void drop(ServiceAddress to);

    // A block that goes out behind the next frame to `to`. There has to be room.
    void send_along(ServiceAddress to, const BlockName& block, const RegionName& region, uint64_t offset,
                    uint64_t bytes);
    uint32_t room_along() const { return alongs_.room(); }

    // To be asked once for each action: whether frames go first now.
    bool is_due();
    // The next block to go along, or frame; the frame's bytes are valid until the next call. False: none.
    bool next(Action* out);

  private:
    struct Letter {
        bool greet = false;
        bool open = false;  // a frame has been begun
        FrameWriter frame;
    };
    struct Along {
        uint32_t next = kNone;
        ServiceAddress to;
        BlockName block;
        RegionName region;
        uint64_t offset = 0, bytes = 0;
    };
    FrameWriter& frame_to(ServiceAddress to);
    bool next_along(Action* out);

    const ServiceContext& context_;
    Peers& peers_;
    Letter* letters_ = nullptr;    // [peers]
    std::byte* frames_ = nullptr;  // [peers][frame_bytes], and one more: the one being sent
    Pool<Along> alongs_;
    List due_alongs_;
    uint64_t* pending_ = nullptr;  // a bit per peer: it is to be greeted, or a frame has been begun
    uint32_t round_ = 0;           // the peer to look at first
    bool full_ = false;            // somebody had to stop for want of room
    uint32_t since_frame_ = 0;     // actions since frames went first
};

}  // namespace longshore
