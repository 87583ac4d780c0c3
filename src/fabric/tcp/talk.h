// What is said between this service process and one peer, on a stream of its own (wire.h: Talk).
// Keeps: the stream, what waits to go out, and the beginning of what comes in. Promises: messages go and come
// whole and in order. Asks: its owner calls flush() and hear() when note_event() has told of room or bytes.
// One thread.
#pragma once

#include <vector>

#include "fabric/tcp/stream.h"
#include "fabric/tcp/wire.h"

namespace longshore {

class TalkStream {
  public:
    void open(Stream stream);
    // What waited is forgotten.
    void close();
    int fd() const { return stream_.fd(); }
    int error() const { return stream_.error(); }
    bool is_unanswered(uint64_t silence_ns) { return stream_.is_unanswered(silence_ns); }
    void note_event(bool readable, bool writable);
    bool is_readable() const { return readable_; }

    // Goes out with the next flush.
    void say(const Talk& talk);
    size_t waiting() const { return out_.size() - sent_; }
    // Whether more has been said since the last call: more may be, and goes out together.
    bool grows();
    // What there is room for. False: the stream has ended.
    bool flush();

    struct Heard {
        bool more = false;              // there may be more to hear at once
        bool over = false;              // the stream has ended
        const char* against = nullptr;  // what the peer does that it may not
    };
    // Calls `take(const Talk&)` for each message, which says what the peer does that it may not, or null; as
    // long as `has_room()`.
    template <class HasRoom, class Take>
    Heard hear(const HasRoom& has_room, const Take& take) {
        Heard heard;
        for (int i = 0; i < kReceivesPerTurn && heard.against == nullptr; ++i) {
            if (!has_room()) break;
            if (!receive(&heard)) return heard;
            Talk talk;
            while (heard.against == nullptr && next(&talk, &heard)) heard.against = take(talk);
        }
        heard.more = heard.against == nullptr;
        return heard;
    }

  private:
    static constexpr int kReceivesPerTurn = 8;
    bool receive(Heard* heard);
    bool next(Talk* talk, Heard* heard);

    Stream stream_;
    bool readable_ = false, writable_ = false;
    std::vector<std::byte> out_;
    size_t sent_ = 0;  // of out_
    size_t seen_ = 0;  // so much of out_ was there when grows() was called last
    std::vector<std::byte> in_;
    size_t begin_ = 0, end_ = 0;  // of in_: what has come and has not been taken
};

}  // namespace longshore
