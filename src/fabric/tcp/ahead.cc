// Blocks that are sent ahead: right behind the word that they may be read, before anybody has asked. What
// comes before its read is kept, up to a window that both ends count alike, so that there is never more of it
// than that. What nobody reads is dropped after a while. A block that was not sent ahead, or was dropped, is
// asked for.
#include <string.h>

#include <algorithm>
#include <utility>

#include "fabric/tcp/peer.h"

namespace longshore {
namespace {
// Bytes sent ahead to one service process and not yet read there, at most: from all peers together, from
// one of them.
constexpr uint64_t kWindowOfAll = 16u << 20, kWindowMax = 4u << 20;
constexpr uint64_t kBlocksMax = 64;       // from one peer
constexpr uint64_t kCostMin = 16 * 1024;  // of one block
constexpr uint64_t kPartToTell = 8;
constexpr uint64_t kAgeMaxNs = 1'000'000'000;
}  // namespace

uint64_t TcpFabric::ahead_window(const NetworkOptions& options) {
    uint64_t all = 0;
    for (const NodeAddress& node : options.nodes) all += node.services;
    return std::min(kWindowMax, kWindowOfAll / std::max<uint64_t>(1, all));
}

// Small blocks count as more than they are, so that there are at most kBlocksMax of them.
uint64_t TcpFabric::ahead_cost(uint64_t bytes) const {
    return std::max({bytes, ahead_window_ / kBlocksMax, kCostMin});
}

// --- Blocks that this service process sends ahead.

void TcpFabric::send_along(ServiceAddress to, const BlockName& block, const RegionName& region,
                           uint64_t offset, uint64_t bytes) {
    Peer* const peer = find(to);
    if (peer == nullptr || bytes == 0 || !sends_along()) return;
    if (peer->state == Peer::State::kNone) connect(*peer);
    const uint64_t cost = ahead_cost(bytes);
    if (peer->state != Peer::State::kConnected ||
        cost > ahead_window_ - (peer->ahead_sent - peer->ahead_used) || offset + bytes < offset)
        return;
    peer->ahead_sent += cost;
    Talk talk;
    talk.kind = TalkKind::kAhead;
    talk.id = ++peer->ahead_count;
    talk.block = block;
    talk.bytes = bytes;
    say(*peer, talk);
    peer->held_back.push_back({talk.id, region, offset, bytes, 0, true});
}

// The frame that tells of them has gone: before it they would be in its way.
void TcpFabric::release_ahead(Peer& peer) {
    if (peer.held_back.empty()) return;
    peer.requests.insert(peer.requests.end(), peer.held_back.begin(), peer.held_back.end());
    peer.held_back.clear();
    mark(peer);
}

// --- Blocks that others send ahead to this one.

TcpFabric::Coming* TcpFabric::find_coming(Peer& peer, uint64_t id) {
    for (Coming& coming : peer.coming)
        if (coming.id == id) return &coming;
    return nullptr;
}

void TcpFabric::take_announcement(Peer& peer, const Talk& talk) {
    const uint64_t cost = ahead_cost(talk.bytes);
    if (talk.bytes == 0 || cost > ahead_window_ - peer.coming_cost || talk.id != peer.announced + 1)
        return peer.set_broken("sends ahead more than it may");
    peer.announced = talk.id;
    peer.coming_cost += cost;
    Coming& coming = peer.coming.emplace_back();
    coming.id = talk.id;
    coming.block = talk.block;
    coming.bytes = talk.bytes;
    coming.since_ns = turned_ns_;
    watch_time(peer);
    mark(peer);  // its first bytes may be there already
}

// To the read that waits for them, if its memory is mapped here; else they are kept.
void TcpFabric::begin_ahead_part(Peer& peer) {
    Coming* const coming = find_coming(peer, peer.in_header.id);
    if (coming == nullptr) return;  // it was dropped
    peer.in_read = Peer::kNoRead;
    for (const uint32_t at : coming->reads) {
        const PendingRead& read = reads_[at];
        if (coming->arrived < read.part_offset) {
            // What comes before that read's bytes has another place.
            peer.in_part = std::min<uint64_t>(peer.in_part, read.part_offset - coming->arrived);
            continue;
        }
        const uint64_t skip = coming->arrived - read.part_offset;
        if (skip >= read.bytes || skip != read.received || read.result != MoveResult::kMoved) continue;
        const uint64_t bytes = std::min<uint64_t>(peer.in_part, read.bytes - skip);
        const std::span<std::byte> to =
            local_->copier().find_mapped({read.to.rank, read.to.region, read.to.offset + skip}, bytes, true);
        if (to.empty()) continue;
        peer.in_part = bytes;
        peer.in_read = at;
        peer.in_into = Peer::Into::kRank;
        peer.in_to = to.data();
        return;
    }
    if (!coming->buffer) coming->buffer = std::make_unique_for_overwrite<std::byte[]>(coming->bytes);
    peer.in_into = Peer::Into::kKept;
    peer.in_to = coming->buffer.get() + coming->arrived;
}

void TcpFabric::end_ahead_part(Peer& peer) {
    Coming* const coming = find_coming(peer, peer.in_header.id);
    if (coming == nullptr) return;
    const uint64_t begin = coming->arrived;
    coming->arrived += peer.in_part;
    if (peer.in_into == Peer::Into::kRank) {
        PendingRead& read = reads_[peer.in_read];
        read.received += peer.in_part;
        coming->used += peer.in_part;
    } else {
        coming->kept.push_back({begin, coming->arrived});
        for (const uint32_t at : coming->reads) take_kept(*coming, reads_[at]);
    }
    std::erase_if(coming->reads, [&](uint32_t at) { return end_if_over(at); });
    settle_coming(peer, *coming);
}

// What is kept for that read goes to where it wants it. Returns how much.
uint64_t TcpFabric::take_kept(Coming& coming, PendingRead& read) {
    uint64_t taken = 0;
    std::vector<Coming::Kept> left;
    for (const Coming::Kept& kept : coming.kept) {
        const uint64_t begin = std::max(kept.begin, read.part_offset);
        const uint64_t end = std::min(kept.end, read.part_offset + read.bytes);
        if (begin >= end) {
            left.push_back(kept);
            continue;
        }
        if (read.result == MoveResult::kMoved)
            read.result = local_->copier().write(
                {coming.buffer.get() + begin, end - begin},
                {read.to.rank, read.to.region, read.to.offset + (begin - read.part_offset)});
        taken += end - begin;
        if (kept.begin < begin) left.push_back({kept.begin, begin});
        if (end < kept.end) left.push_back({end, kept.end});
    }
    coming.kept = std::move(left);
    coming.used += taken;
    read.received += taken;
    return taken;
}

// False: its block does not come ahead, or some of what the read wants has been given to another one.
bool TcpFabric::take_from_ahead(Peer& peer, uint32_t at, const AlongPart& part) {
    PendingRead& read = reads_[at];
    for (Coming& coming : peer.coming) {
        if (coming.block != part.block || part.offset > coming.bytes ||
            read.bytes > coming.bytes - part.offset)
            continue;
        // Bytes that are on their way into the buffer or into another read's memory count as not arrived.
        const uint64_t end = part.offset + read.bytes;
        uint64_t there = 0;
        for (const Coming::Kept& kept : coming.kept) {
            const uint64_t from = std::max(kept.begin, part.offset), to = std::min(kept.end, end);
            there += from < to ? to - from : 0;
        }
        const uint64_t arrived = std::min(end, std::max(coming.arrived, part.offset)) - part.offset;
        if (there != arrived) return false;
        for (const uint32_t other : coming.reads) {
            const PendingRead& o = reads_[other];
            if (o.part_offset < end && part.offset < o.part_offset + o.bytes) return false;
        }
        read.part_offset = part.offset;
        take_kept(coming, read);
        if (!end_if_over(at)) coming.reads.push_back(at);
        settle_coming(peer, coming);
        return true;
    }
    return false;
}

// The rest of it does not come: whoever waits for it asks.
void TcpFabric::fail_ahead(Peer& peer, uint64_t id) {
    Coming* const coming = find_coming(peer, id);
    if (coming == nullptr) return;
    const std::vector<uint32_t> waiting = std::exchange(coming->reads, {});
    drop_coming(peer, *coming);
    for (const uint32_t at : waiting) request(at);
}

// Forgets it when nothing is left to be read.
void TcpFabric::settle_coming(Peer& peer, Coming& coming) {
    if (coming.used == coming.bytes) drop_coming(peer, coming);
}

void TcpFabric::drop_coming(Peer& peer, Coming& coming) {
    peer.coming_cost -= ahead_cost(coming.bytes);
    peer.used += ahead_cost(coming.bytes);
    if (&coming != &peer.coming.back()) coming = std::move(peer.coming.back());
    peer.coming.pop_back();
    mark(peer);  // it is to be told
}

void TcpFabric::drop_all_coming(Peer& peer) {
    while (!peer.coming.empty()) drop_coming(peer, peer.coming.back());
}

// What has come and was not read for long: by another service process, or its rank does not enter.
void TcpFabric::drop_old_coming(Peer& peer, uint64_t now) {
    for (size_t i = peer.coming.size(); i-- > 0;) {
        Coming& coming = peer.coming[i];
        if (coming.arrived == coming.bytes && coming.reads.empty() &&
            now - std::min(now, coming.since_ns) > kAgeMaxNs)
            drop_coming(peer, coming);
    }
}

// With the next words, or as soon as it is much.
void TcpFabric::tell_used(Peer& peer) {
    if (peer.used == peer.told || peer.state != Peer::State::kConnected) return;
    if (peer.talk_out.empty() && peer.used - peer.told < ahead_window_ / kPartToTell) return;
    peer.told = peer.used;
    Talk talk;
    talk.kind = TalkKind::kUsed;
    talk.used = peer.used;
    say(peer, talk);
}

}  // namespace longshore
