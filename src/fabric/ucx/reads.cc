// Reads: asked for here, and answered for others.
#include <algorithm>

#include "fabric/ucx/peer.h"

namespace longshore {
namespace {
constexpr size_t kRequestsMax = 256;  // of a peer
constexpr uint32_t kPiecesSendingMax = 32;
constexpr uint64_t kMapped = uint64_t{1} << 32;  // as `lent`: a piece that lies where its owner has it
constexpr uint64_t kCopiedBytesMax = 32 * 1024;  // so many are copied sooner than another packet is sent
}  // namespace

// --- this side reads

Post UcxFabric::read(ServiceAddress owner, const RegionName& region, uint64_t offset, const MemoryRef& to,
                     uint64_t bytes, uint64_t id, const AlongPart*) {
    Peer* const known = find(owner);
    const bool around = options_.staging_only && bytes != 0 && to.rank != kStaging;
    if (known == nullptr || around || bytes > PendingReads::kBytesMax) {
        complete(id, MoveResult::kFailed);
        return Post::kAccepted;
    }
    Peer& peer = *known;
    if (peer.state == Peer::State::kLost || bytes == 0) {
        complete(id, bytes == 0 ? MoveResult::kMoved : MoveResult::kFailed);
        return Post::kAccepted;
    }
    if (reads_.full()) return Post::kAgain;
    const uint32_t at = reads_.add(owner, region, offset, to, bytes, id);
    if (peer.state == Peer::State::kNone) connect(peer);
    request(at);
    return Post::kAccepted;
}

// Where the connection is down its successor will be asked.
void UcxFabric::request(uint32_t at) {
    const uint64_t number = reads_.begin_anew(at);
    const PendingRead& read = reads_[at];
    Peer& peer = *find(read.owner);
    if (peer.state != Peer::State::kConnected) return;
    Packet packet;
    packet.kind = PacketKind::kReadRequest;
    packet.id = number;
    packet.region = read.region;
    packet.offset = read.offset;
    packet.bytes = read.bytes;
    send_packet(peer, packet);
}

void UcxFabric::reissue(Peer& peer) {
    if (peer.state != Peer::State::kConnected || peer.incarnation == 1) return;
    reads_.for_each_of(peer.at, [this](uint32_t at) { request(at); });
}

void UcxFabric::fail_reads(Peer& peer) {
    reads_.for_each_of(peer.at, [this](uint32_t at) {
        reads_[at].result = MoveResult::kFailed;
        end_read(reads_[at]);
    });
}

void UcxFabric::end_read(PendingRead& read) {
    reads_.remove(read);
    complete(read.id, read.result);
}

// Null: not what that peer is asked for now.
PendingRead* UcxFabric::find_read(const Peer& peer, uint64_t number) {
    PendingRead* const read = reads_.find(peer.at, number);
    if (read == nullptr) ++counters_.dropped;
    return read;
}

// What does not fit what was asked for is not written anywhere.
bool UcxFabric::expects(Peer& peer, const PendingRead& read, uint64_t offset, uint64_t bytes) {
    if (bytes != 0 && offset <= read.bytes && bytes <= read.bytes - offset &&
        bytes <= read.bytes - read.received)
        return true;
    peer.broken = true;
    refuse("bytes that were not asked for");
    return false;
}

// Pieces that are sent may overtake those that are offered.
void UcxFabric::note_received(PendingRead& read, uint64_t bytes) {
    read.received += bytes;
    if (read.received == read.bytes && (!read.open || read.held)) end_read(read);
}

void UcxFabric::take_data(Peer& peer, const Packet& packet, std::span<const std::byte> payload) {
    PendingRead* const read = find_read(peer, packet.id);
    if (read == nullptr) return;
    if (packet.result != MoveResult::kMoved) {
        read->result = packet.result;
        return end_read(*read);
    }
    if (!expects(peer, *read, packet.offset, payload.size())) return;
    read->open |= packet.is_open;
    if (read->result == MoveResult::kMoved)
        read->result = local_->copier().write(
            payload, {read->to.rank, read->to.region, read->to.offset + packet.offset});
    note_received(*read, payload.size());
}

// To where it belongs, if that is mapped here, else by way of a piece of ours.
void UcxFabric::take_offer(Peer& peer, const Packet& packet, uint64_t bytes, UcxOffer offer) {
    PendingRead* const read = find_read(peer, packet.id);
    if (read == nullptr || bytes > kOfferedBytesMax || !expects(peer, *read, packet.offset, bytes))
        return end_.talk->decline(offer);
    if (free_takings_.empty()) {
        free_takings_.push_back(static_cast<uint32_t>(takings_.size()));
        takings_.emplace_back();
    }
    const uint32_t at = free_takings_.back();
    free_takings_.pop_back();
    Taking& taking = takings_[at];
    taking = {peer.at, packet.id, packet.offset, bytes, Taking::kNoPiece};
    read->open |= packet.is_open;
    std::span<std::byte> to = local_->copier().find_mapped(
        {read->to.rank, read->to.region, read->to.offset + packet.offset}, bytes, true);
    if (to.empty()) {
        taking.piece = borrow_piece();
        to = {pieces_[taking.piece].get(), bytes};
    }
    end_.talk->take(offer, to, at);
}

void UcxFabric::on_taken(uint64_t id, bool ok) {
    const Taking taking = takings_[id];
    free_takings_.push_back(static_cast<uint32_t>(id));
    Peer& peer = *find(taking.owner);
    PendingRead* const read = find_read(peer, taking.read);
    if (read != nullptr && ok) {
        if (taking.piece != Taking::kNoPiece && read->result == MoveResult::kMoved)
            read->result =
                local_->copier().write({pieces_[taking.piece].get(), taking.bytes},
                                       {read->to.rank, read->to.region, read->to.offset + taking.offset});
        note_received(*read, taking.bytes);
    } else if (read != nullptr) {
        peer.broken = true;  // the successor will be asked
    }
    if (taking.piece != Taking::kNoPiece) free_pieces_.push_back(taking.piece);
}

// Pieces may still be on their way.
void UcxFabric::take_held(Peer& peer, const Packet& packet) {
    PendingRead* const read = find_read(peer, packet.id);
    if (read == nullptr) return;
    if (packet.result != MoveResult::kMoved) read->result = packet.result;
    read->held = true;
    note_received(*read, 0);
}

// --- others read

void UcxFabric::take_request(Peer& peer, const Packet& packet) {
    if (peer.requests.size() >= kRequestsMax || packet.bytes == 0 || packet.bytes > PendingReads::kBytesMax)
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
    const uint64_t bytes_max = end_.data->has_rdma() ? kOfferedBytesMax : kSentBytesMax;
    const uint64_t bytes = std::min(request.bytes - request.sent, bytes_max);
    std::span<const std::byte> piece;
    uint64_t lent = 0;
    Packet packet;
    packet.kind = PacketKind::kReadData;
    packet.id = request.id;
    packet.offset = request.sent;
    packet.result = find_piece(request, bytes, &piece, &lent, &packet.is_open);
    if (packet.result != MoveResult::kMoved) {
        end_lending(request, true);
        send_packet(peer, packet);
        return true;
    }
    if (packet.is_open) lent = lend(peer, request);
    request.sent += bytes;
    const bool last = request.sent == request.bytes;
    ++pieces_sending_;
    send_packet(peer, packet, piece, lent);
    if (last) end_lending(request, false);
    return last;
}

void UcxFabric::drop_requests(Peer& peer) {
    requests_ -= static_cast<uint32_t>(peer.requests.size());
    for (const Request& request : peer.requests) end_lending(request, true);
    peer.requests.clear();
}

// Another open piece of it.
uint64_t UcxFabric::lend(const Peer& peer, Request& request) {
    if (request.lending == Request::kNone) {
        if (free_lendings_.empty()) {
            free_lendings_.push_back(static_cast<uint32_t>(lendings_.size()));
            lendings_.emplace_back();
        }
        request.lending = free_lendings_.back();
        free_lendings_.pop_back();
        lendings_[request.lending] = {
            peer.at, peer.incarnation, request.id, source_.use_of(request.region), 0, false, false};
    }
    ++lendings_[request.lending].pieces;
    return kMapped + 1 + request.lending;
}

// No more pieces of it are sent.
void UcxFabric::end_lending(const Request& request, bool said) {
    if (request.lending == Request::kNone) return;
    Lending& lending = lendings_[request.lending];
    lending.all = true;
    lending.said = said;
    if (lending.pieces == 0) over_lendings_.push_back(request.lending);
}

void UcxFabric::end_lent_piece(uint32_t at) {
    Lending& lending = lendings_[at];
    if (--lending.pieces == 0 && lending.all) over_lendings_.push_back(at);
}

// A rank that has withdrawn its region may have written there before its bytes had left.
void UcxFabric::say_what_held() {
    for (const uint32_t at : std::exchange(over_lendings_, {})) {
        const Lending lending = lendings_[at];
        free_lendings_.push_back(at);
        Peer& peer = *find(lending.to);
        if (lending.said || peer.state != Peer::State::kConnected || peer.incarnation != lending.incarnation)
            continue;
        Packet packet;
        packet.kind = PacketKind::kReadHeld;
        packet.id = lending.id;
        packet.result = lending.use.is_over() ? MoveResult::kFailed : MoveResult::kMoved;
        send_packet(peer, packet);
    }
}

uint32_t UcxFabric::borrow_piece() {
    if (free_pieces_.empty()) {
        free_pieces_.push_back(static_cast<uint32_t>(pieces_.size()));
        pieces_.push_back(std::make_unique_for_overwrite<std::byte[]>(kOfferedBytesMax));
    }
    const uint32_t at = free_pieces_.back();
    free_pieces_.pop_back();
    return at;
}

// Where the bytes are: as they lie, if they are mapped here, else in a copy of ours.
MoveResult UcxFabric::find_piece(const Request& request, uint64_t bytes, std::span<const std::byte>* piece,
                                 uint64_t* lent, bool* is_open) {
    const uint64_t offset = request.offset + request.sent;
    if (offset < request.offset) return MoveResult::kFailed;
    *lent = kMapped;
    const char* why = nullptr;
    const MoveResult found = source_.find(request.region, offset, bytes, piece, &why);
    if (why != nullptr) {
        refuse(why);
    } else if (found != MoveResult::kMoved) {
        ++counters_.refused;
    }
    if (found != MoveResult::kMoved) return found;
    const bool may_go = source_.use_of(request.region).region != nullptr;
    *is_open = may_go && !piece->empty() && bytes > kCopiedBytesMax;
    if (*is_open || (!may_go && !piece->empty())) return found;
    const uint32_t at = borrow_piece();
    const std::span<std::byte> copy{pieces_[at].get(), bytes};
    const MoveResult result = source_.fetch(request.region, offset, copy);
    if (result != MoveResult::kMoved) {
        free_pieces_.push_back(at);
        return result;
    }
    *piece = copy;
    *lent = at + 1;
    return MoveResult::kMoved;
}

void UcxFabric::on_sent(uint64_t lent) {
    --pieces_sending_;
    if (lent > kMapped)
        end_lent_piece(static_cast<uint32_t>(lent - kMapped - 1));
    else if (lent != kMapped)
        free_pieces_.push_back(static_cast<uint32_t>(lent - 1));
}

}  // namespace longshore
