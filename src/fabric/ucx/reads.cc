// Reads: asked for here, and answered for others.
#include <algorithm>

#include "fabric/ucx/peer.h"

namespace longshore {
namespace {
constexpr size_t kReadsMax = 1u << 16;
constexpr size_t kRequestsMax = 256;      // of a peer
constexpr uint64_t kBytesMax = 1u << 31;  // of a read
constexpr uint32_t kPiecesSendingMax = 32;
constexpr uint64_t kMapped = uint64_t{1} << 32;  // as `lent`: a piece that lies where its rank has it
}  // namespace

// --- this side reads

Post UcxFabric::read(ImportHandle from, uint64_t offset, const MemoryRef& to, uint64_t bytes, uint64_t id) {
    const Import* const import = imports_.find(from);
    const bool around = options_.staging_only && bytes != 0 && to.rank != kStaging;
    if (import == nullptr || around || bytes > kBytesMax) {
        complete(id, MoveResult::kFailed);
        return Post::kAccepted;
    }
    Peer& peer = *find(import->owner);
    if (peer.state == Peer::State::kLost || bytes == 0) {
        complete(id, bytes == 0 ? MoveResult::kMoved : MoveResult::kFailed);
        return Post::kAccepted;
    }
    if (free_reads_.empty()) {
        if (reads_.size() >= kReadsMax) return Post::kAgain;
        free_reads_.push_back(static_cast<uint32_t>(reads_.size()));
        reads_.emplace_back();
    }
    const uint32_t at = free_reads_.back();
    free_reads_.pop_back();
    Read& read = reads_[at];
    read.used = true;
    read.id = id;
    read.owner = import->owner;
    read.region = import->name;
    read.offset = offset;
    read.bytes = bytes;
    read.to = to;
    if (peer.state == Peer::State::kNone) connect(peer);
    request(at);
    return Post::kAccepted;
}

// Where the connection is down its successor will be asked.
void UcxFabric::request(uint32_t at) {
    Read& read = reads_[at];
    Peer& peer = *find(read.owner);
    read.received = 0;
    read.result = MoveResult::kMoved;
    ++read.serial;
    if (peer.state != Peer::State::kConnected) return;
    Packet packet;
    packet.kind = PacketKind::kReadRequest;
    packet.id = uint64_t{read.serial} << 32 | at;
    packet.region = read.region;
    packet.offset = read.offset;
    packet.bytes = read.bytes;
    send_packet(peer, packet);
}

void UcxFabric::reissue(Peer& peer) {
    if (peer.state != Peer::State::kConnected || peer.incarnation == 1) return;
    for (uint32_t at = 0; at < reads_.size(); ++at) {
        if (reads_[at].used && reads_[at].owner == peer.at) request(at);
    }
}

void UcxFabric::fail_reads(Peer& peer) {
    for (uint32_t at = 0; at < reads_.size(); ++at) {
        if (!reads_[at].used || reads_[at].owner != peer.at) continue;
        reads_[at].result = MoveResult::kFailed;
        end_read(at);
    }
}

void UcxFabric::end_read(uint32_t at) {
    Read& read = reads_[at];
    read.used = false;
    free_reads_.push_back(at);
    complete(read.id, read.result);
}

// Pieces come in order. What does not fit what was asked for is not written anywhere.
void UcxFabric::take_data(Peer& peer, const Packet& packet, std::span<const std::byte> payload) {
    const auto at = static_cast<uint32_t>(packet.id);
    if (at >= reads_.size() || !reads_[at].used || reads_[at].owner != peer.at ||
        reads_[at].serial != packet.id >> 32) {
        ++counters_.dropped;
        return;
    }
    Read& read = reads_[at];
    if (packet.result != MoveResult::kMoved) {
        read.result = packet.result;
        return end_read(at);
    }
    if (packet.offset != read.received || payload.empty() || payload.size() > read.bytes - read.received) {
        peer.broken = true;
        return refuse("bytes that were not asked for");
    }
    if (read.result == MoveResult::kMoved)
        read.result =
            local_->copier().write(payload, {read.to.rank, read.to.region, read.to.offset + read.received});
    read.received += payload.size();
    if (read.received == read.bytes) end_read(at);
}

// --- others read

void UcxFabric::take_request(Peer& peer, const Packet& packet) {
    if (peer.requests.size() >= kRequestsMax || packet.bytes == 0 || packet.bytes > kBytesMax)
        return break_off(peer, "asks for more than it may");
    peer.requests.push_back({packet.id, packet.region, packet.offset, packet.bytes, 0});
    ++requests_;
}

// Peers in turn, a piece each.
void UcxFabric::serve() {
    const size_t nodes = peers_.size();
    for (size_t idle = 0; idle < nodes && requests_ != 0; ++next_served_) {
        bool served = false;
        for (Peer& peer : peers_[next_served_ % nodes]) {
            if (peer.requests.empty()) continue;
            if (pieces_sending_ >= kPiecesSendingMax) return;
            served = true;
            if (!serve(peer, peer.requests.front())) continue;
            peer.requests.pop_front();
            --requests_;
        }
        idle = served ? 0 : idle + 1;
    }
}

// Sends the next piece. True: it was the last.
bool UcxFabric::serve(Peer& peer, Request& request) {
    const uint64_t bytes = std::min(request.bytes - request.sent, kPieceBytes);
    std::span<const std::byte> piece;
    uint64_t lent = 0;
    Packet packet;
    packet.kind = PacketKind::kReadData;
    packet.id = request.id;
    packet.offset = request.sent;
    packet.result = find_piece(request, bytes, &piece, &lent);
    if (packet.result != MoveResult::kMoved) {
        send_packet(peer, packet);
        return true;
    }
    request.sent += bytes;
    const bool last = request.sent == request.bytes;
    ++pieces_sending_;
    send_packet(peer, packet, piece, lent);
    return last;
}

// Where the bytes are: as they lie, if they are mapped here, else in a copy of ours.
MoveResult UcxFabric::find_piece(const Request& request, uint64_t bytes, std::span<const std::byte>* piece,
                                 uint64_t* lent) {
    const RegionName& region = request.region;
    const uint64_t offset = request.offset + request.sent;
    if (offset < request.offset) return MoveResult::kFailed;
    *lent = kMapped;
    if (region.rank == kStaging) {
        const std::span<std::byte> staging = local_->staging();
        if (region.region.value != options_.self.service.value || region.generation != options_.incarnation ||
            offset > staging.size() || bytes > staging.size() - offset) {
            refuse("a read outside staging memory");
            return MoveResult::kFailed;
        }
        *piece = staging.subspan(offset, bytes);
        return MoveResult::kMoved;
    }
    const NodeMemory& memory = options_.memory;
    if (region.rank.value >= memory.rank_count() || region.region.value >= memory.limits().regions_max ||
        memory.region(region.rank, region.region).generation.load(std::memory_order_acquire) !=
            region.generation) {
        ++counters_.refused;
        return MoveResult::kFailed;
    }
    const MemoryRef from{region.rank, region.region, offset};
    *piece = local_->copier().find_mapped(from, bytes);
    if (!piece->empty()) return MoveResult::kMoved;
    if (free_pieces_.empty()) {
        free_pieces_.push_back(static_cast<uint32_t>(pieces_.size()));
        pieces_.push_back(std::make_unique_for_overwrite<std::byte[]>(kPieceBytes));
    }
    const uint32_t at = free_pieces_.back();
    const std::span<std::byte> copy{pieces_[at].get(), bytes};
    const MoveResult result = local_->copier().fetch(from, copy);
    if (result != MoveResult::kMoved) return result;
    free_pieces_.pop_back();
    *piece = copy;
    *lent = at + 1;
    return MoveResult::kMoved;
}

void UcxFabric::on_sent(uint64_t lent) {
    --pieces_sending_;
    if (lent != kMapped) free_pieces_.push_back(static_cast<uint32_t>(lent - 1));
}

}  // namespace longshore
