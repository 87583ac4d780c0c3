// The bytes that a peer's stream of data brings: of reads, and of blocks sent ahead.
// Keeps: the header and the part of its bytes that are coming in, and how much has been asked for. Promises:
// bytes are received straight to where they belong, if that is mapped here; nothing is written that was not
// asked for or announced; the kernel wakes when it is worth it. Asks: its owner calls receive() when
// something may have come, and does what Received tells. One thread.
#pragma once

#include <memory>
#include <vector>

#include "fabric/tcp/ahead.h"
#include "fabric/tcp/stream.h"

namespace longshore {

class Receiving {
  public:
    struct Received {
        bool more = false;              // there may be more to receive at once
        bool nothing = false;           // there is nothing more now
        bool over = false;              // the stream has ended
        const char* against = nullptr;  // the peer has done what it may not
        uint64_t unwanted = 0;          // so many pieces came for reads that are no more
        uint64_t mapped_bytes = 0;      // so many bytes lie where they belong without a copy
        std::vector<uint32_t> ask;      // reads whose block does not come any more: to be asked for
    };

    // `reads` and `coming` are borrowed.
    Receiving(ServiceAddress peer, TcpReads& reads, ComingBlocks& coming)
        : peer_(peer), reads_(&reads), coming_(&coming) {}

    // So much has been asked for.
    void note_asked(uint64_t bytes) { asked_ += bytes; }
    // Less will come than was.
    void note_fewer() { all_asked_ = false; }
    Received receive(Stream& stream, uint64_t now);
    // Nothing has been asked for, and nothing has come.
    void reset();

  private:
    enum class Begun : uint8_t { kYes, kEarly, kNo };
    enum class Into : uint8_t { kRank, kCopy, kKept, kNowhere };
    Begun begin_data(Received* out);
    void begin_part();
    void end_part(Received* out);
    bool close_piece();
    void note_received(size_t received);
    size_t wanted_parts(iovec (&parts)[2], size_t* wanted);
    int worth_waking(size_t lacks, uint64_t now);

    ServiceAddress peer_;
    TcpReads* reads_;
    ComingBlocks* coming_;

    // Of reads, what has been asked for and has not come, and whether all of it will. How much came lately:
    // bytes since then, and in how many of the nanoseconds before.
    uint64_t asked_ = 0;
    bool all_asked_ = true;
    uint64_t since_ns_ = 0, bytes_ = 0;
    double bytes_per_ns_ = 0;

    // A header, then the bytes that it tells of, in parts that each go to one place.
    std::byte header_bytes_[kDataHeaderBytes];
    size_t header_have_ = 0;
    DataHeader header_;
    bool begun_ = false;               // the header is complete, and has been looked at
    uint64_t left_ = 0;                // of what the header tells of
    uint32_t read_ = TcpReads::kNone;  // that it names
    size_t part_have_ = 0;             // of the part
    Into into_ = Into::kNowhere;
    ComingBlocks::Part part_;
    // Of an open piece that has come, whose parts count when the next header says that they hold.
    bool is_open_ = false;
    DataHeader open_;
    std::vector<ComingBlocks::Part> open_parts_;
    std::unique_ptr<std::byte[]> copy_;  // for memory that is not mapped here, and for what nobody wants
};

}  // namespace longshore
