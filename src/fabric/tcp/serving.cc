#include "fabric/tcp/serving.h"

#include <algorithm>

#include "fabric/pending_reads.h"

namespace longshore {
namespace {
constexpr size_t kRequestsMax = 4096;  // of a peer, and blocks that are sent ahead to it
constexpr uint64_t kServedPerTurn = 1024 * 1024;
constexpr uint64_t kCopiedBytesMax = 16 * 1024;  // so many are copied sooner than another header is sent
}  // namespace

bool Serving::ask(const Request& request) {
    if (requests_.size() >= kRequestsMax || request.bytes == 0 || request.bytes > PendingReads::kBytesMax ||
        request.offset + request.bytes < request.offset)
        return false;
    requests_.push_back(request);
    return true;
}

bool Serving::release() {
    const bool any = !held_.empty();
    requests_.insert(requests_.end(), held_.begin(), held_.end());
    held_.clear();
    return any;
}

void Serving::reset() {
    requests_.clear();
    held_.clear();
    header_left_ = closing_left_ = 0;
    last_ = {};
    piece_ = {};
}

// The next piece of what is to be sent. False: nothing is.
bool Serving::begin_piece(RegionSource& source, Served* served) {
    if (requests_.empty()) return false;
    Request& request = requests_.front();
    DataHeader header;
    header.ahead = request.ahead;
    header.id = request.id;
    header.offset = request.sent;
    header.bytes = static_cast<uint32_t>(std::min<uint64_t>(request.bytes - request.sent, kDataBytesMax));
    const char* why = nullptr;
    const uint64_t at = request.offset + request.sent;
    header.result = source.find(request.region, at, header.bytes, &piece_, &why);
    if (why != nullptr) served->refused = why;
    use_ = header.result == MoveResult::kMoved ? source.use_of(request.region) : RegionUse{};
    if (use_.region != nullptr && piece_.size() <= kCopiedBytesMax) piece_ = {};
    header.is_open = use_.region != nullptr && !piece_.empty();
    if (header.result == MoveResult::kMoved && piece_.empty()) {
        if (!copy_) copy_ = std::make_unique_for_overwrite<std::byte[]>(kDataBytesMax);
        const std::span<std::byte> copy(copy_.get(), header.bytes);
        header.result = source.fetch(request.region, at, copy);
        piece_ = copy;
    }
    const bool failed = header.result != MoveResult::kMoved;
    if (failed) {
        served->fewer += !request.ahead;
        ++served->failed;
        header.bytes = 0;
        header.is_open = false;
        piece_ = {};
    }
    last_ = header;
    encode_data(header, header_);
    header_left_ = kDataHeaderBytes;
    request.sent += header.bytes;
    if (failed || request.sent == request.bytes) requests_.pop_front();
    return true;
}

// All of an open piece has been sent: the rank may have written there meanwhile.
void Serving::close_piece(Served* served) {
    DataHeader closing = last_;
    last_ = {};
    closing.is_open = false;
    closing.offset += closing.bytes;
    closing.bytes = 0;
    if (use_.is_over()) {
        closing.result = MoveResult::kFailed;
        ++served->failed;
        // Nothing more is sent of it.
        if (!requests_.empty() && requests_.front().id == closing.id &&
            requests_.front().ahead == closing.ahead) {
            served->fewer += !closing.ahead;
            requests_.pop_front();
        }
    }
    encode_data(closing, closing_);
    closing_left_ = kDataHeaderBytes;
}

Serving::Served Serving::serve(Stream& stream, RegionSource& source) {
    Served served;
    uint64_t budget = kServedPerTurn;
    for (;;) {
        if (header_left_ == 0 && piece_.empty()) {
            if (last_.is_open) close_piece(&served);
            served.more = budget == 0;
            const bool begun = !served.more && begin_piece(source, &served);
            if (!begun && closing_left_ == 0) return served;
        }
        const iovec parts[] = {{closing_ + kDataHeaderBytes - closing_left_, closing_left_},
                               {header_ + kDataHeaderBytes - header_left_, header_left_},
                               {const_cast<std::byte*>(piece_.data()), piece_.size()}};
        size_t sent = 0;
        const Io io = stream.send(parts, &sent);
        served.over = io == Io::kClosed;
        served.full = io == Io::kAgain;
        if (io != Io::kOk) return served;
        budget -= std::min<uint64_t>(budget, sent);
        const size_t of_closing = std::min(sent, closing_left_);
        const size_t of_header = std::min(sent - of_closing, header_left_);
        closing_left_ -= of_closing;
        header_left_ -= of_header;
        piece_ = piece_.subspan(sent - of_closing - of_header);
    }
}

}  // namespace longshore
