// The bytes of blocks: those that are read here come straight to where they belong, those that others read
// leave from where they lie.
#include <algorithm>

#include "fabric/tcp/peer.h"

namespace longshore {
namespace {
constexpr uint64_t kBytesPerTurn = 1024 * 1024;  // of a peer, each way
constexpr uint64_t kWakeNs = 1'000'000;
constexpr uint64_t kWakeShare = 4;  // of what is asked for
}  // namespace

// --- Reads that are asked for here.

Post TcpFabric::read(ImportHandle from, uint64_t offset, const MemoryRef& to, uint64_t bytes, uint64_t id,
                     const AlongPart* part) {
    const Import* const import = imports_.find(from);
    const bool around = options_.staging_only && bytes != 0 && to.rank != kStaging;
    if (import == nullptr || around || bytes > PendingReads::kBytesMax) {
        complete(id, MoveResult::kFailed);
        return Post::kAccepted;
    }
    Peer& peer = *find(import->owner);
    if (peer.state == Peer::State::kLost || bytes == 0) {
        complete(id, bytes == 0 ? MoveResult::kMoved : MoveResult::kFailed);
        return Post::kAccepted;
    }
    if (reads_.full()) return Post::kAgain;
    const uint32_t at = reads_.add(import->owner, import->name, offset, to, bytes, id);
    if (part != nullptr && take_from_ahead(peer, at, *part)) return Post::kAccepted;
    if (peer.state == Peer::State::kNone) connect(peer);
    request(at);
    return Post::kAccepted;
}

// Where there is no stream now, all that is waited for is asked for when there is one.
void TcpFabric::request(uint32_t at) {
    const uint64_t number = reads_.begin_anew(at);
    const PendingRead& read = reads_[at];
    Peer& peer = *find(read.owner);
    if (peer.state != Peer::State::kConnected) return;
    Talk talk;
    talk.kind = TalkKind::kRequest;
    talk.id = number;
    talk.region = read.region;
    talk.offset = read.offset;
    talk.bytes = read.bytes;
    say(peer, talk);
    peer.in_asked += read.bytes;
}

void TcpFabric::ask_for_all(Peer& peer) {
    reads_.for_each_of(peer.at, [this](uint32_t at) { request(at); });
}

void TcpFabric::fail_reads(Peer& peer) {
    reads_.for_each_of(peer.at, [this](uint32_t at) {
        reads_[at].result = MoveResult::kFailed;
        end_read(reads_[at]);
    });
}

void TcpFabric::end_read(PendingRead& read) {
    reads_.remove(read);
    complete(read.id, read.result);
}

bool TcpFabric::end_if_over(uint32_t at) {
    if (reads_[at].received != reads_[at].bytes) return false;
    end_read(reads_[at]);
    return true;
}

// Null: not what that peer is asked for now.
PendingRead* TcpFabric::find_read(const Peer& peer, uint64_t number) {
    PendingRead* const read = reads_.find(peer.at, number);
    if (read == nullptr) ++counters_.dropped;
    return read;
}

// A header has come. False: it is not what may come. `early`: it is of a block whose announcement is still on
// its way on the stream of talk; it is looked at again then.
bool TcpFabric::begin_data(Peer& peer, bool* early) {
    DataHeader& header = peer.in_header;
    if (!decode_data(peer.in_header_bytes, &header)) {
        peer.set_broken("sends what is no header of data");
        return false;
    }
    peer.in_left = header.bytes;
    peer.in_read = Peer::kNoRead;
    if (header.ahead) {
        *early = header.id > peer.announced;
        if (*early) return true;
        Coming* const coming = find_coming(peer, header.id);
        if (header.result != MoveResult::kMoved) {
            fail_ahead(peer, header.id);
        } else if (coming != nullptr &&
                   (header.offset != coming->arrived || header.bytes > coming->bytes - coming->arrived)) {
            peer.set_broken("sends ahead what it has not announced");
            return false;
        }
        return true;
    }
    PendingRead* const read = find_read(peer, header.id);
    if (read == nullptr) return true;
    if (header.result != MoveResult::kMoved) {
        peer.in_asked -= read->bytes - read->received;
        read->result = header.result;
        end_read(*read);
        return true;
    }
    if (header.offset != read->received || header.bytes > read->bytes - read->received) {
        peer.set_broken("sends bytes that were not asked for");
        return false;
    }
    peer.in_read = static_cast<uint32_t>(header.id);
    return true;
}

// Where the next bytes of what the header tells of go.
void TcpFabric::begin_part(Peer& peer) {
    peer.in_part_have = 0;
    peer.in_part = peer.in_left;
    peer.in_into = Peer::Into::kNowhere;
    if (peer.in_header.ahead) {
        begin_ahead_part(peer);
    } else if (peer.in_read != Peer::kNoRead && reads_[peer.in_read].result == MoveResult::kMoved) {
        const PendingRead& read = reads_[peer.in_read];
        const std::span<std::byte> to = local_->copier().find_mapped(
            {read.to.rank, read.to.region, read.to.offset + read.received}, peer.in_part, true);
        peer.in_into = to.empty() ? Peer::Into::kCopy : Peer::Into::kRank;
        peer.in_to = to.data();
    }
    if (peer.in_into == Peer::Into::kCopy || peer.in_into == Peer::Into::kNowhere) {
        if (!peer.in_copy) peer.in_copy = std::make_unique_for_overwrite<std::byte[]>(kDataBytesMax);
        peer.in_to = peer.in_copy.get();
    }
}

void TcpFabric::end_part(Peer& peer) {
    peer.in_left -= peer.in_part;
    if (peer.in_into == Peer::Into::kRank) counters_.bytes_mapped += peer.in_part;
    if (peer.in_header.ahead) return end_ahead_part(peer);
    if (peer.in_read == Peer::kNoRead) return;
    PendingRead& read = reads_[peer.in_read];
    if (peer.in_into == Peer::Into::kCopy)
        read.result = local_->copier().write({peer.in_copy.get(), peer.in_part},
                                             {read.to.rank, read.to.region, read.to.offset + read.received});
    read.received += peer.in_part;
    end_if_over(peer.in_read);
}

// Nothing more is there: how many bytes must come until it is worth a wake-up, which takes the core from
// whoever computes there. What the present message still lacks, `lacks`; and if more than that is sure to
// come, what comes in kWakeNs, but so little that a link never waits for what is asked for then.
int TcpFabric::worth_waking(Peer& peer, size_t lacks) {
    const uint64_t ns = turned_ns_ - peer.in_since_ns;
    if (ns >= kWakeNs) {
        peer.in_bytes_per_ns = static_cast<double>(peer.in_bytes) / static_cast<double>(ns);
        peer.in_since_ns = turned_ns_;
        peer.in_bytes = 0;
    }
    if (!peer.in_all_asked) return static_cast<int>(lacks);
    const uint64_t soon = static_cast<uint64_t>(peer.in_bytes_per_ns * kWakeNs);
    return static_cast<int>(std::max<uint64_t>(lacks, std::min(soon, peer.in_asked / kWakeShare)));
}

// Returns whether there may be more to receive at once.
bool TcpFabric::receive(Peer& peer) {
    uint64_t budget = kBytesPerTurn;
    while (!peer.broken && peer.data) {
        if (!peer.in_begun && peer.in_header_have == kDataHeaderBytes) {
            bool early = false;
            if (!begin_data(peer, &early) || early)
                return false;  // what is early is marked by its announcement
            peer.in_header_have = 0;
            peer.in_begun = peer.in_left != 0;
            if (peer.in_begun) begin_part(peer);
            continue;
        }
        if (budget == 0) return true;
        iovec parts[2];
        size_t count = 0, wanted = 0;
        const size_t rest = peer.in_begun ? peer.in_part - peer.in_part_have : 0;
        if (rest != 0) {
            parts[count++] = {peer.in_to + peer.in_part_have, rest};
            wanted = peer.in_left - peer.in_part_have;
        }
        if (!peer.in_begun || peer.in_part == peer.in_left) {
            parts[count++] = {peer.in_header_bytes + peer.in_header_have,
                              kDataHeaderBytes - peer.in_header_have};
            if (!peer.in_begun) wanted = kDataHeaderBytes - peer.in_header_have;
        }
        size_t received = 0;
        const Io io = peer.data.receive({parts, count}, &received);
        if (io == Io::kClosed) peer.broken = true;
        if (io != Io::kOk) {
            peer.data_readable = false;
            if (io == Io::kAgain) peer.data.wake_at(worth_waking(peer, wanted));
            return false;
        }
        budget -= std::min<uint64_t>(budget, received);
        peer.in_bytes += received;
        const size_t of_part = std::min(received, rest);
        peer.in_part_have += of_part;
        if (!peer.in_header.ahead && peer.in_read != Peer::kNoRead) peer.in_asked -= of_part;
        peer.in_header_have += received - of_part;
        if (!peer.in_begun || peer.in_part_have != peer.in_part) continue;
        end_part(peer);
        peer.in_begun = peer.in_left != 0;
        if (peer.in_begun) begin_part(peer);
    }
    return false;
}

// --- Bytes that others read here.

// The next piece of what is to be sent. False: nothing is.
bool TcpFabric::begin_piece(Peer& peer) {
    if (peer.requests.empty()) return false;
    Request& request = peer.requests.front();
    DataHeader header;
    header.ahead = request.ahead;
    header.id = request.id;
    header.offset = request.sent;
    header.bytes = static_cast<uint32_t>(std::min<uint64_t>(request.bytes - request.sent, kDataBytesMax));
    const char* why = nullptr;
    const uint64_t at = request.offset + request.sent;
    header.result = source_.find(request.region, at, header.bytes, &peer.out_piece, &why);
    if (why != nullptr) refuse(why);
    if (header.result == MoveResult::kMoved && peer.out_piece.empty()) {
        if (!peer.out_copy) peer.out_copy = std::make_unique_for_overwrite<std::byte[]>(kDataBytesMax);
        const std::span<std::byte> copy(peer.out_copy.get(), header.bytes);
        header.result = source_.fetch(request.region, at, copy);
        peer.out_piece = copy;
    }
    if (header.result != MoveResult::kMoved) {
        Talk fewer;
        fewer.kind = TalkKind::kFewer;
        if (!request.ahead) say(peer, fewer);
        if (why == nullptr) ++counters_.refused;
        header.bytes = 0;
        peer.out_piece = {};
    }
    encode_data(header, peer.out_header);
    peer.out_header_left = kDataHeaderBytes;
    request.sent += header.bytes;
    if (header.result != MoveResult::kMoved || request.sent == request.bytes) peer.requests.pop_front();
    return true;
}

// As much as there is room for. Returns whether there may be room for more at once.
bool TcpFabric::serve(Peer& peer) {
    uint64_t budget = kBytesPerTurn;
    while (!peer.broken && peer.data) {
        if (peer.out_header_left == 0 && peer.out_piece.empty()) {
            if (budget == 0) return true;
            if (!begin_piece(peer)) return false;
        }
        const iovec parts[] = {
            {peer.out_header + kDataHeaderBytes - peer.out_header_left, peer.out_header_left},
            {const_cast<std::byte*>(peer.out_piece.data()), peer.out_piece.size()}};
        size_t sent = 0;
        const Io io = peer.data.send(parts, &sent);
        if (io == Io::kClosed) peer.broken = true;
        if (io == Io::kAgain) peer.data_writable = false;
        if (io != Io::kOk) return false;
        budget -= std::min<uint64_t>(budget, sent);
        const size_t of_header = std::min(sent, peer.out_header_left);
        peer.out_header_left -= of_header;
        peer.out_piece = peer.out_piece.subspan(sent - of_header);
    }
    return false;
}

}  // namespace longshore
