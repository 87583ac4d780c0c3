#include "fabric/tcp/talk.h"

#include <string.h>

#include <utility>

namespace longshore {
namespace {
constexpr size_t kInBytes = 64 * 1024;
constexpr size_t kTogetherMax = 1024;
static_assert(kInBytes >= 2 * kTalkBytesMax);
}  // namespace

void TalkStream::open(Stream stream) {
    stream_ = std::move(stream);
    readable_ = writable_ = true;
}

void TalkStream::close() {
    stream_.close();
    readable_ = writable_ = false;
    out_.clear();
    sent_ = seen_ = begin_ = end_ = 0;
}

void TalkStream::note_event(bool readable, bool writable) {
    readable_ |= readable;
    writable_ |= writable;
}

void TalkStream::say(const Talk& talk) {
    const size_t before = out_.size();
    out_.resize(before + kTalkBytesMax);
    const size_t bytes = encode_talk(talk, std::span(out_).subspan(before));
    out_.resize(before + bytes);
}

bool TalkStream::grows() {
    return out_.size() != std::exchange(seen_, out_.size()) && out_.size() < kTogetherMax;
}

bool TalkStream::flush() {
    while (writable_ && sent_ < out_.size()) {
        const iovec part{out_.data() + sent_, out_.size() - sent_};
        size_t sent = 0;
        const Io io = stream_.send({&part, 1}, &sent);
        if (io == Io::kAgain) writable_ = false;
        if (io != Io::kOk) return io == Io::kAgain;
        sent_ += sent;
    }
    if (sent_ < out_.size()) return true;
    out_.clear();
    sent_ = 0;
    return true;
}

// More of what the peer says. False: there is none.
bool TalkStream::receive(Heard* heard) {
    if (in_.empty()) in_.resize(kInBytes);
    end_ -= begin_;
    memmove(in_.data(), in_.data() + begin_, end_);
    begin_ = 0;
    const iovec part{in_.data() + end_, in_.size() - end_};
    size_t received = 0;
    const Io io = stream_.receive({&part, 1}, &received);
    heard->over = io == Io::kClosed;
    readable_ = io == Io::kOk;
    end_ += received;
    return readable_;
}

// The next whole message. False: none.
bool TalkStream::next(Talk* talk, Heard* heard) {
    const std::span<const std::byte> rest(in_.data() + begin_, end_ - begin_);
    if (rest.size() < kTalkHeaderBytes) return false;
    const size_t body = talk_body_bytes(rest.first<kTalkHeaderBytes>());
    const bool sound = body != SIZE_MAX;
    if (sound && rest.size() < kTalkHeaderBytes + body) return false;
    if (!sound || !decode_talk(rest.first(kTalkHeaderBytes + body), talk)) {
        heard->against = "sends what is no message";
        return false;
    }
    begin_ += kTalkHeaderBytes + body;
    return true;
}

}  // namespace longshore
