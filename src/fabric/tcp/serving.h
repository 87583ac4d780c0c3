// Bytes that one peer reads here, and blocks that go ahead to it: what its stream of data carries out.
// Keeps: what is to be sent, in order, and the piece that has begun. Promises: bytes leave from where a
// rank's memory is mapped here, if they are many, else from a copy; each piece has its header, and of one
// that a rank has withdrawn while it was sent the next one says that it does not hold. Asks: its owner calls
// serve() when there is something to send and room for it, and says to the peer what Served tells. One
// thread.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "fabric/region_source.h"
#include "fabric/tcp/stream.h"
#include "fabric/tcp/wire.h"

namespace longshore {

class Serving {
  public:
    struct Request {
        uint64_t id = 0;
        RegionName region;
        uint64_t offset = 0, bytes = 0, sent = 0;
        bool ahead = false;
    };
    struct Served {
        bool more = false;              // there may be room for more at once
        bool full = false;              // the stream has no room now
        bool over = false;              // it has ended
        uint32_t fewer = 0;             // so many requests bring fewer bytes than were asked for
        uint32_t failed = 0;            // so many pieces cannot be had
        const char* refused = nullptr;  // one of them, because the peer may not ask for it
    };

    // False: the peer asks for more than it may.
    bool ask(const Request& request);
    // It goes when release() is called: when the frame that tells of it has gone.
    void hold(const Request& request) { held_.push_back(request); }
    // Whether there was any.
    bool release();
    bool empty() const { return requests_.empty(); }
    Served serve(Stream& stream, RegionSource& source);
    // Nothing is to be sent, and nothing has begun.
    void reset();

  private:
    bool begin_piece(RegionSource& source, Served* served);
    void close_piece(Served* served);

    std::deque<Request> requests_;
    std::vector<Request> held_;
    std::byte header_[kDataHeaderBytes];
    size_t header_left_ = 0;
    // Of the piece that has begun or was the last: whether it is still to be said that it holds, and what is
    // said.
    DataHeader last_;
    RegionUse use_;
    std::byte closing_[kDataHeaderBytes];
    size_t closing_left_ = 0;
    std::span<const std::byte> piece_;   // the rest of the piece
    std::unique_ptr<std::byte[]> copy_;  // of memory that is not mapped here
};

}  // namespace longshore
