// Blocks sent along with the word that they may be read: a read need not ask for them. What comes before its
// read is kept, up to a window that both sides count alike; so there is never more of it than that, and what
// nobody reads is dropped after a while. A block that is not sent along, or was dropped, is asked for.
#include <string.h>

#include <algorithm>
#include <utility>

#include "fabric/ucx/peer.h"

namespace longshore {
namespace {
// Of what is sent along to one service process: by all others, and by one.
constexpr uint64_t kWindowOfAll = 16u << 20, kWindowMax = 4u << 20;
constexpr uint64_t kBlocksMax = 64;       // of one other
constexpr uint64_t kCostMin = 16 * 1024;  // all together at most 1,024: each is mapped by itself
constexpr uint64_t kPartOfWindow = 4;     // of longer blocks the way of a request is a small part of the time
constexpr uint64_t kAgeMaxNs = 1'000'000'000;
}  // namespace

bool UcxFabric::sends_along() const {
    // Cards bring what they are asked for without help; what they bring goes where it belongs at once.
    return !end_.data->has_rdma() && !options_.staging_only;
}

uint64_t UcxFabric::along_window(const NetworkOptions& options) {
    uint64_t all = 0;
    for (const NodeAddress& node : options.nodes) all += node.services;
    return std::min(kWindowMax, kWindowOfAll / std::max<uint64_t>(1, all));
}

// Small blocks count as more than they are: there are at most kBlocksMax of them, and each takes a piece.
uint64_t UcxFabric::along_cost(uint64_t bytes) const {
    return std::max({bytes, along_window_ / kBlocksMax, kCostMin});
}

// --- ours

void UcxFabric::send_along(ServiceAddress to, const BlockName& block, const RegionName& region,
                           uint64_t offset, uint64_t bytes) {
    Peer* const peer = find(to);
    if (peer == nullptr || bytes == 0 || !sends_along()) return;
    if (peer->state == Peer::State::kNone) connect(*peer);
    const uint64_t cost = along_cost(bytes);
    if (peer->state != Peer::State::kConnected || bytes > along_window_ / kPartOfWindow ||
        cost > along_window_ - (peer->along_sent - peer->along_used))
        return;
    peer->along_sent += cost;
    Packet packet;
    packet.kind = PacketKind::kAlong;
    packet.id = ++peer->along_count;
    packet.block = block;
    packet.bytes = bytes;
    send_packet(*peer, packet);
    peer->held_back.push_back({packet.id, region, offset, bytes, 0, true});
}

// The frame that tells of them has gone: before it they would be in its way.
void UcxFabric::release_along(Peer& peer) {
    requests_ += static_cast<uint32_t>(peer.held_back.size());
    peer.requests.insert(peer.requests.end(), peer.held_back.begin(), peer.held_back.end());
    peer.held_back.clear();
}

// --- others'

UcxFabric::Coming* UcxFabric::find_coming(Peer& peer, uint64_t id) {
    for (Coming& coming : peer.coming)
        if (coming.id == id) return &coming;
    return nullptr;
}

void UcxFabric::take_along(Peer& peer, const Packet& packet) {
    const uint64_t cost = along_cost(packet.bytes);
    if (packet.bytes == 0 || cost > along_window_ - peer.coming_cost)
        return break_off(peer, "sends along more than it may");
    Coming* coming = find_coming(peer, packet.id);
    if (coming == nullptr) {
        coming = &peer.coming.emplace_back();
        coming->id = packet.id;
    } else if (coming->announced || coming->arrived > packet.bytes) {
        return break_off(peer, "sends along what it has not told of");
    }
    peer.coming_cost += cost;
    coming->announced = true;
    coming->block = packet.block;
    coming->bytes = packet.bytes;
    coming->since_ns = turned_ns_;
    settle_coming(peer, *coming);
}

// A piece may come before the word of its block, which has another way.
void UcxFabric::take_along_data(Peer& peer, const Packet& packet, std::span<const std::byte> payload) {
    Coming* coming = find_coming(peer, packet.id);
    uint64_t room = coming != nullptr ? coming->bytes : 0;
    if (coming == nullptr || !coming->announced) {
        room = along_window_;
        for (const Coming& early : peer.coming) room -= early.announced ? 0 : early.arrived;
        if (coming == nullptr && peer.coming.size() < 2 * kBlocksMax) {
            coming = &peer.coming.emplace_back();
            coming->id = packet.id;
        }
        if (coming != nullptr) room += coming->arrived;
    }
    const bool ends = packet.result != MoveResult::kMoved;
    if (coming == nullptr || coming->failed ||
        (!ends && (payload.empty() || packet.offset > room ||
                   payload.size() > room - std::max(packet.offset, coming->arrived)))) {
        peer.broken = true;
        return refuse("bytes that nobody has told of");
    }
    if (ends) {
        coming->failed = true;
        free_pieces_of(*coming);
        for (const uint32_t at : std::exchange(coming->reads, {})) request(at);
        return settle_coming(peer, *coming);
    }
    coming->arrived += payload.size();
    uint64_t used = 0;
    for (const uint32_t at : coming->reads) used += give(reads_[at], packet.offset, payload);
    std::erase_if(coming->reads, [&](uint32_t at) { return end_if_over(at); });
    if (used < payload.size()) keep_piece(*coming, packet.offset, used, payload);
    coming->used += used;
    settle_coming(peer, *coming);
}

void UcxFabric::keep_piece(Coming& coming, uint64_t offset, uint64_t used,
                           std::span<const std::byte> payload) {
    const uint32_t at = borrow_piece();
    memcpy(pieces_[at].get(), payload.data(), payload.size());
    coming.pieces.push_back({offset, used, payload.size(), at});
}

void UcxFabric::free_pieces_of(Coming& coming) {
    for (const Coming::Piece& piece : coming.pieces) free_pieces_.push_back(piece.at);
    coming.pieces.clear();
}

// What of a piece at `offset` of its block belongs to a read goes to where that wants it. Returns how much.
uint64_t UcxFabric::give(Read& read, uint64_t offset, std::span<const std::byte> piece) {
    const uint64_t begin = std::max(offset, read.part_offset);
    const uint64_t end = std::min(offset + piece.size(), read.part_offset + read.bytes);
    if (begin >= end || end - begin > read.bytes - read.received) return 0;
    const uint64_t bytes = end - begin;
    if (read.result == MoveResult::kMoved)
        read.result = local_->copier().write(
            piece.subspan(begin - offset, bytes),
            {read.to.rank, read.to.region, read.to.offset + (begin - read.part_offset)});
    read.received += bytes;
    return bytes;
}

bool UcxFabric::end_if_over(uint32_t at) {
    if (reads_[at].received != reads_[at].bytes) return false;
    end_read(reads_[at]);
    return true;
}

// False: its block does not come along.
bool UcxFabric::take_from_along(Peer& peer, uint32_t at, const AlongPart& part) {
    Read& read = reads_[at];
    for (Coming& coming : peer.coming) {
        if (!coming.announced || coming.failed || coming.block != part.block || part.offset > coming.bytes ||
            read.bytes > coming.bytes - part.offset)
            continue;
        read.part_offset = part.offset;
        for (Coming::Piece& piece : coming.pieces) {
            const uint64_t used = give(read, piece.offset, {pieces_[piece.at].get(), piece.bytes});
            piece.used += used;
            coming.used += used;
        }
        std::erase_if(coming.pieces, [this](Coming::Piece& p) {
            if (p.used != p.bytes) return false;
            free_pieces_.push_back(p.at);
            return true;
        });
        if (!end_if_over(at)) coming.reads.push_back(at);
        settle_coming(peer, coming);
        return true;
    }
    return false;
}

// Forgets it when nothing of it is to come any more, and nothing is left to be read.
void UcxFabric::settle_coming(Peer& peer, Coming& coming) {
    if (!coming.announced || (!coming.failed && coming.used < coming.bytes)) return;
    drop_coming(peer, coming);
}

void UcxFabric::drop_coming(Peer& peer, Coming& coming) {
    if (coming.announced) {
        peer.coming_cost -= along_cost(coming.bytes);
        peer.used += along_cost(coming.bytes);
    }
    free_pieces_of(coming);
    if (&coming != &peer.coming.back()) coming = std::move(peer.coming.back());
    peer.coming.pop_back();
}

// The connection is over: reads that wait for it ask the successor.
void UcxFabric::drop_all_coming(Peer& peer) {
    while (!peer.coming.empty()) drop_coming(peer, peer.coming.back());
}

// What has come and was not read for long: by another service process, or its rank does not enter.
void UcxFabric::drop_old_coming(Peer& peer, uint64_t now) {
    for (size_t i = peer.coming.size(); i-- > 0;) {
        Coming& coming = peer.coming[i];
        if (coming.announced && coming.arrived == coming.bytes && coming.reads.empty() &&
            now - std::min(now, coming.since_ns) > kAgeMaxNs)
            drop_coming(peer, coming);
    }
}

}  // namespace longshore
