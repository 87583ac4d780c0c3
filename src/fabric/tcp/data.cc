// Bytes of blocks, between the engine and the parts that carry them: reads that are asked for here, and what
// others ask for or send ahead.
#include "fabric/tcp/peer.h"

namespace longshore {

// --- Reads that are asked for here.

Post TcpFabric::read(ServiceAddress owner, const RegionName& region, uint64_t offset, const MemoryRef& to,
                     uint64_t bytes, uint64_t id, const AlongPart* part) {
    Peer* const known = find(owner);
    const bool around = options_.staging_only && bytes != 0 && to.rank != kStaging;
    if (known == nullptr || around || bytes > PendingReads::kBytesMax) {
        complete(id, MoveResult::kFailed);
        return Post::kAccepted;
    }
    Peer& peer = *known;
    if (is_lost(peer) || bytes == 0) {
        complete(id, bytes == 0 ? MoveResult::kMoved : MoveResult::kFailed);
        return Post::kAccepted;
    }
    if (reads_.full()) return Post::kAgain;
    const uint32_t at = reads_.add(owner, region, offset, to, bytes, id);
    if (part != nullptr && peer.coming.take(at, *part)) {
        mark(peer);  // it may be to be told
        return Post::kAccepted;
    }
    connections_->want(peer.number);
    request(at);
    return Post::kAccepted;
}

// Where there is no stream now, all that is waited for is asked for when there is one.
void TcpFabric::request(uint32_t at) {
    const uint64_t number = reads_.begin_anew(at);
    const PendingRead& read = reads_[at];
    Peer& peer = *find(read.owner);
    if (!is_connected(peer)) return;
    Talk talk;
    talk.kind = TalkKind::kRequest;
    talk.id = number;
    talk.region = read.region;
    talk.offset = read.offset;
    talk.bytes = read.bytes;
    say(peer, talk);
    peer.receiving.note_asked(read.bytes);
}

void TcpFabric::ask_for_all(Peer& peer) {
    reads_.for_each_of(peer.at, [this](uint32_t at) { request(at); });
}

void TcpFabric::fail_reads(Peer& peer) {
    reads_.for_each_of(peer.at, [this](uint32_t at) { reads_.end(at, MoveResult::kFailed); });
}

// Returns whether there may be more to receive at once.
bool TcpFabric::receive(Peer& peer) {
    if (peer.broken || !peer.data) return false;
    const Receiving::Received received = peer.receiving.receive(peer.data, turned_ns_);
    counters_.dropped += received.unwanted;
    counters_.bytes_mapped += received.mapped_bytes;
    if (received.against != nullptr) peer.set_broken(received.against);
    peer.broken |= received.over;
    if (received.nothing) peer.data_readable = false;
    for (const uint32_t at : received.ask) request(at);
    return received.more;
}

// --- Bytes that others read here, and blocks that go ahead.

// Returns whether there may be room for more at once.
bool TcpFabric::serve(Peer& peer) {
    if (peer.broken || !peer.data) return false;
    const Serving::Served served = peer.serving.serve(peer.data, source_);
    peer.broken |= served.over;
    if (served.full) peer.data_writable = false;
    if (served.refused != nullptr) connections_->refuse(served.refused);
    counters_.refused += served.failed - (served.refused != nullptr);
    Talk fewer;
    fewer.kind = TalkKind::kFewer;
    for (uint32_t i = 0; i < served.fewer; ++i) say(peer, fewer);
    return served.more;
}

void TcpFabric::send_along(ServiceAddress to, const BlockName& block, const RegionName& region,
                           uint64_t offset, uint64_t bytes) {
    Peer* const peer = find(to);
    if (peer == nullptr || bytes == 0 || !sends_along()) return;
    connections_->want(peer->number);
    if (!is_connected(*peer) || !peer->sent_ahead.has_room(bytes) || offset + bytes < offset) return;
    Talk talk;
    talk.kind = TalkKind::kAhead;
    talk.id = peer->sent_ahead.add(bytes);
    talk.block = block;
    talk.bytes = bytes;
    say(*peer, talk);
    peer->serving.hold({talk.id, region, offset, bytes, 0, true});
}

// With the next words, or as soon as it is much.
void TcpFabric::tell_used(Peer& peer) {
    if (!is_connected(peer)) return;
    const uint64_t used = peer.coming.used_to_tell(peer.talk.waiting() != 0);
    if (used == 0) return;
    Talk talk;
    talk.kind = TalkKind::kUsed;
    talk.used = used;
    say(peer, talk);
}

// --- What is said.

// Goes out with the next flush.
void TcpFabric::say(Peer& peer, const Talk& talk) {
    peer.talk.say(talk);
    mark(peer);
}

void TcpFabric::flush_talk(Peer& peer) {
    if (!is_connected(peer) || peer.talk.flush()) return;
    peer.broken = true;
    mark(peer);
}

// Returns whether there may be more to hear at once.
bool TcpFabric::hear(Peer& peer) {
    constexpr size_t kFramesMax = 256;  // that wait to be handed out, of all peers: then no more are read
    if (peer.broken) return false;
    const TalkStream::Heard heard = peer.talk.hear([this] { return frames_.size() < kFramesMax; },
                                                   [&](const Talk& talk) { return take_talk(peer, talk); });
    peer.broken |= heard.over;
    if (heard.against != nullptr) peer.set_broken(heard.against);
    return heard.more;
}

// Null, or what the peer does that it may not.
const char* TcpFabric::take_talk(Peer& peer, const Talk& talk) {
    connections_->on_heard(peer.number);
    switch (talk.kind) {
        case TalkKind::kFrame:
            frames_.push_back({peer.at, {talk.frame.begin(), talk.frame.end()}});
            break;
        case TalkKind::kRequest:
            if (!peer.serving.ask({talk.id, talk.region, talk.offset, talk.bytes, 0, false}))
                return "asks for more than it may";
            break;
        case TalkKind::kAhead:
            if (!peer.coming.announce(talk, turned_ns_)) return "sends ahead more than it may";
            if (!std::exchange(peer.ages, true)) ageing_.push_back(&peer);
            break;
        case TalkKind::kUsed:
            if (!peer.sent_ahead.note_used(talk.used)) return "has used more than was sent ahead to it";
            break;
        case TalkKind::kHere:
            break;
        case TalkKind::kFewer:
            peer.receiving.note_fewer();
            peer.data_readable |= static_cast<bool>(peer.data);
            break;
    }
    return nullptr;
}

}  // namespace longshore
