// What service processes say to each other: frames of the engine, requests for bytes, and what goes ahead.
#include <string.h>

#include "fabric/tcp/peer.h"

namespace longshore {
namespace {
constexpr size_t kTalkInBytes = 64 * 1024;
constexpr size_t kFramesMax = 256;     // that wait to be handed out, of all peers: then no more are read
constexpr size_t kRequestsMax = 4096;  // of a peer, and blocks that are sent ahead to it
constexpr int kReceivesPerTurn = 8;
static_assert(kTalkInBytes >= 2 * kTalkBytesMax);
}  // namespace

// Goes out with the next flush.
void TcpFabric::say(Peer& peer, const Talk& talk) {
    const size_t before = peer.talk_out.size();
    peer.talk_out.resize(before + kTalkBytesMax);
    const size_t bytes = encode_talk(talk, std::span(peer.talk_out).subspan(before));
    peer.talk_out.resize(before + bytes);
    mark(peer);
}

void TcpFabric::flush_talk(Peer& peer) {
    if (peer.state != Peer::State::kConnected || !peer.talk_writable) return;
    while (peer.talk_sent < peer.talk_out.size()) {
        const iovec part{peer.talk_out.data() + peer.talk_sent, peer.talk_out.size() - peer.talk_sent};
        size_t sent = 0;
        const Io io = peer.talk.send({&part, 1}, &sent);
        if (io == Io::kClosed) {
            peer.broken = true;
            mark(peer);
        }
        if (io == Io::kAgain) peer.talk_writable = false;
        if (io != Io::kOk) return;
        peer.talk_sent += sent;
    }
    peer.talk_out.clear();
    peer.talk_sent = 0;
}

// Returns whether there may be more to hear at once.
bool TcpFabric::hear(Peer& peer) {
    if (peer.talk_in.empty()) peer.talk_in.resize(kTalkInBytes);
    for (int i = 0; i < kReceivesPerTurn && !peer.broken; ++i) {
        if (frames_.size() >= kFramesMax) return true;
        const iovec part{peer.talk_in.data() + peer.talk_have, peer.talk_in.size() - peer.talk_have};
        size_t received = 0;
        const Io io = peer.talk.receive({&part, 1}, &received);
        if (io == Io::kClosed) peer.broken = true;
        if (io != Io::kOk) {
            peer.talk_readable = false;
            return false;
        }
        peer.talk_have += received;
        size_t at = 0;
        while (!peer.broken && peer.talk_have - at >= kTalkHeaderBytes) {
            const std::span<const std::byte> rest(peer.talk_in.data() + at, peer.talk_have - at);
            const size_t body = talk_body_bytes(rest.first<kTalkHeaderBytes>());
            if (body == SIZE_MAX) {
                peer.set_broken("sends what is no message");
                break;
            }
            if (rest.size() < kTalkHeaderBytes + body) break;
            Talk talk;
            if (decode_talk(rest.first(kTalkHeaderBytes + body), &talk)) {
                take_talk(peer, talk);
            } else {
                peer.set_broken("sends what is no message");
            }
            at += kTalkHeaderBytes + body;
        }
        peer.talk_have -= at;
        memmove(peer.talk_in.data(), peer.talk_in.data() + at, peer.talk_have);
    }
    return !peer.broken;
}

void TcpFabric::take_talk(Peer& peer, const Talk& talk) {
    on_heard(peer);
    switch (talk.kind) {
        case TalkKind::kFrame:
            frames_.push_back({peer.at, {talk.frame.begin(), talk.frame.end()}});
            break;
        case TalkKind::kRequest:
            if (peer.requests.size() >= kRequestsMax || talk.bytes == 0 ||
                talk.bytes > PendingReads::kBytesMax || talk.offset + talk.bytes < talk.offset)
                return peer.set_broken("asks for more than it may");
            peer.requests.push_back({talk.id, talk.region, talk.offset, talk.bytes, 0, false});
            break;
        case TalkKind::kAhead:
            take_announcement(peer, talk);
            break;
        case TalkKind::kUsed:
            if (talk.used - peer.ahead_used > peer.ahead_sent - peer.ahead_used)
                return peer.set_broken("has used more than was sent ahead to it");
            peer.ahead_used = talk.used;
            break;
        case TalkKind::kHere:
            break;
        case TalkKind::kFewer:
            peer.in_all_asked = false;
            peer.data_readable |= static_cast<bool>(peer.data);
            break;
    }
}

}  // namespace longshore
