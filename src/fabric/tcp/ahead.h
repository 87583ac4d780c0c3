// Blocks that are sent before anybody asks for them, right behind the word that they may be read; between
// this service process and one peer. Both ends count them alike, so that there are never more of their bytes
// at the receiver than a window. What nobody reads is dropped after a while; a block that was not sent ahead,
// or was dropped, is asked for. One thread.
#pragma once

#include <memory>
#include <vector>

#include "fabric/tcp/reads.h"
#include "fabric/tcp/wire.h"

namespace longshore {

// How much may be sent ahead to one service process and not be read there yet, and what of that a block
// takes.
class AheadWindow {
  public:
    // `services`: of all nodes.
    explicit AheadWindow(uint64_t services);
    uint64_t bytes() const { return bytes_; }
    // Small blocks count as more than they are, so that there are not too many of them.
    uint64_t cost(uint64_t bytes) const;

  private:
    uint64_t bytes_;
};

// Keeps: how much this service process has sent ahead to a peer, and how much of it the peer has used.
class SentAhead {
  public:
    explicit SentAhead(AheadWindow window) : window_(window) {}
    bool has_room(uint64_t bytes) const { return window_.cost(bytes) <= window_.bytes() - (sent_ - used_); }
    // Returns the number that the block has on the stream.
    uint64_t add(uint64_t bytes) {
        sent_ += window_.cost(bytes);
        return ++count_;
    }
    // The peer says how much it has used since the stream began. False: more than it got.
    bool note_used(uint64_t used) {
        if (used - used_ > sent_ - used_) return false;
        used_ = used;
        return true;
    }
    void reset() { count_ = sent_ = used_ = 0; }

  private:
    AheadWindow window_;
    uint64_t count_ = 0, sent_ = 0, used_ = 0;
};

// Keeps: the blocks that a peer has announced, what has come of them and which reads wait for more.
// Promises: bytes go straight to the read that waits for them, where its memory is mapped here; else they are
// kept. Asks: its owner tells the peer what used_to_tell() says, and asks for what fail() gives back.
class ComingBlocks {
  public:
    // `reads` is borrowed.
    ComingBlocks(AheadWindow window, TcpReads& reads) : window_(window), reads_(&reads) {}

    // False: more than the peer may announce.
    bool announce(const Talk& talk, uint64_t now);
    // The stream of data may be quicker than the announcement.
    bool is_announced(uint64_t id) const { return id <= announced_; }
    // Whether the bytes that a header tells of may come next. Those of a block that was dropped may.
    bool may_come(const DataHeader& header) const;

    // Where the next bytes of a block go. to: null: nowhere, it was dropped. read: kNone: they are kept.
    struct Part {
        std::byte* to = nullptr;
        uint64_t bytes = 0;
        uint32_t read = TcpReads::kNone;
        uint64_t begin = 0;  // in the block
    };
    // At most `bytes`.
    Part begin_part(uint64_t id, uint64_t bytes);
    // They lie there, and the next ones are those behind them.
    void note_arrived(uint64_t id, Part* part);
    // They hold: who waits for them has them.
    void end_part(uint64_t id, const Part& part);
    // No more of it comes: the reads that wait for it.
    std::vector<uint32_t> fail(uint64_t id);

    // A read gets its bytes from a block that comes ahead. False: that one does not come ahead, or some of
    // what the read wants has been given to another one.
    bool take(uint32_t read, const AlongPart& part);

    bool empty() const { return blocks_.empty(); }
    // Those that have come and were not read for so long: by another service process, or its rank does not
    // enter. Whether there were any.
    bool drop_old(uint64_t now, uint64_t age_max_ns);
    // As if nothing had ever come.
    void reset();
    // What the peer is to be told it has of its window again, with the next words (`talks`) or as soon as it
    // is much. 0: nothing.
    uint64_t used_to_tell(bool talks);

  private:
    struct Kept {  // bytes that lie in `buffer`, for reads that have not been posted
        uint64_t begin = 0, end = 0;
    };
    struct Block {
        uint64_t id = 0;
        BlockName name;
        uint64_t bytes = 0, arrived = 0, used = 0;
        uint64_t since_ns = 0;
        std::unique_ptr<std::byte[]> buffer;  // all of the block; null: nothing had to be kept
        std::vector<Kept> kept, open;         // open: they hold when end_part() has said so
        std::vector<uint32_t> reads;          // that wait for more of it
    };
    Block* find(uint64_t id);
    const Block* find(uint64_t id) const { return const_cast<ComingBlocks*>(this)->find(id); }
    bool overlaps(const Block& block, uint64_t begin, uint64_t end) const;
    void take_kept(Block& block, uint32_t read);
    void settle(Block& block);
    void drop(Block& block);

    AheadWindow window_;
    TcpReads* reads_;
    std::vector<Block> blocks_;
    uint64_t announced_ = 0;                   // so many blocks
    uint64_t cost_ = 0, used_ = 0, told_ = 0;  // to be used; used or dropped, and the peer was told so
};

}  // namespace longshore
