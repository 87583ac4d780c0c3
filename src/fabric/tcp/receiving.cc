#include "fabric/tcp/receiving.h"

#include <algorithm>

namespace longshore {
namespace {
constexpr uint64_t kReceivedPerTurn = 1024 * 1024;
constexpr uint64_t kWakeNs = 1'000'000;
constexpr uint64_t kWakeShare = 4;  // of what is asked for
}  // namespace

void Receiving::reset() {
    asked_ = since_ns_ = bytes_ = 0;
    all_asked_ = true;
    bytes_per_ns_ = 0;
    header_have_ = 0;
    begun_ = false;
    left_ = part_have_ = 0;
    part_ = {};
    is_open_ = false;
    open_parts_.clear();
}

// The header that has come says whether the piece before it holds. False: it is about something else.
bool Receiving::close_piece() {
    is_open_ = false;
    if (header_.bytes != 0 || header_.ahead != open_.ahead || header_.id != open_.id) return false;
    if (header_.result == MoveResult::kMoved) {
        for (const ComingBlocks::Part& part : open_parts_) coming_->end_part(header_.id, part);
        const uint32_t at = header_.ahead ? TcpReads::kNone : reads_->find(peer_, header_.id);
        if (at != TcpReads::kNone) reads_->end_if_over(at);
    }
    open_parts_.clear();
    return true;
}

// A header has come. kEarly: it is of a block whose announcement is still on its way on the stream of talk;
// it is looked at again then. kNo: it is not what may come.
Receiving::Begun Receiving::begin_data(Received* out) {
    const auto refuse = [out](const char* why) {
        out->against = why;
        return Begun::kNo;
    };
    if (!decode_data(header_bytes_, &header_)) return refuse("sends what is no header of data");
    left_ = header_.bytes;
    read_ = TcpReads::kNone;
    const bool moved = header_.result == MoveResult::kMoved;
    if (is_open_ ? !close_piece() : moved && header_.bytes == 0)
        return refuse("does not say whether bytes hold that it has sent");
    if (moved && header_.bytes == 0) return Begun::kYes;
    if (header_.ahead) {
        if (!coming_->is_announced(header_.id)) return Begun::kEarly;
        if (!moved) {
            for (const uint32_t at : coming_->fail(header_.id)) out->ask.push_back(at);
        } else if (!coming_->may_come(header_)) {
            return refuse("sends ahead what it has not announced");
        }
        return Begun::kYes;
    }
    const uint32_t at = reads_->find(peer_, header_.id);
    if (at == TcpReads::kNone) {
        ++out->unwanted;
        return Begun::kYes;
    }
    const PendingRead& read = (*reads_)[at];
    if (!moved) {
        asked_ -= read.bytes - read.received;
        reads_->end(at, header_.result);
        return Begun::kYes;
    }
    if (header_.offset != read.received || header_.bytes > read.bytes - read.received)
        return refuse("sends bytes that were not asked for");
    read_ = at;
    return Begun::kYes;
}

// Where the next bytes of what the header tells of go.
void Receiving::begin_part() {
    part_have_ = 0;
    part_ = {nullptr, left_, TcpReads::kNone};
    into_ = Into::kNowhere;
    if (header_.ahead) {
        part_ = coming_->begin_part(header_.id, left_);
        into_ = part_.to == nullptr             ? Into::kNowhere
                : part_.read != TcpReads::kNone ? Into::kRank
                                                : Into::kKept;
    } else if (read_ != TcpReads::kNone && (*reads_)[read_].result == MoveResult::kMoved) {
        part_.to = reads_->place(read_, (*reads_)[read_].received, left_).data();
        into_ = part_.to == nullptr ? Into::kCopy : Into::kRank;
    }
    if (part_.to != nullptr) return;
    if (!copy_) copy_ = std::make_unique_for_overwrite<std::byte[]>(kDataBytesMax);
    part_.to = copy_.get();
}

void Receiving::end_part(Received* out) {
    left_ -= part_.bytes;
    if (into_ == Into::kRank) out->mapped_bytes += part_.bytes;
    is_open_ = header_.is_open && left_ == 0;
    if (is_open_) open_ = header_;
    if (header_.ahead) {
        coming_->note_arrived(header_.id, &part_);
        if (header_.is_open) return open_parts_.push_back(part_);
        return coming_->end_part(header_.id, part_);
    }
    if (read_ == TcpReads::kNone) return;
    if (into_ == Into::kCopy) reads_->write(read_, (*reads_)[read_].received, {copy_.get(), part_.bytes});
    reads_->note_arrived(read_, part_.bytes);
    if (!header_.is_open) reads_->end_if_over(read_);
}

// Nothing more is there: how many bytes must come until it is worth a wake-up, which takes the core from
// whoever computes there. What the present message still lacks, `lacks`; and if more than that is sure to
// come, what comes in kWakeNs, but so little that a link never waits for what is asked for then.
int Receiving::worth_waking(size_t lacks, uint64_t now) {
    const uint64_t ns = now - since_ns_;
    if (ns >= kWakeNs) {
        bytes_per_ns_ = static_cast<double>(bytes_) / static_cast<double>(ns);
        since_ns_ = now;
        bytes_ = 0;
    }
    if (!all_asked_) return static_cast<int>(lacks);
    const uint64_t soon = static_cast<uint64_t>(bytes_per_ns_ * kWakeNs);
    return static_cast<int>(std::max<uint64_t>(lacks, std::min(soon, asked_ / kWakeShare)));
}

// Where what comes next goes: the rest of a part, and behind the last of them the next header. Returns how
// many places; `wanted`: what the present message lacks.
size_t Receiving::wanted_parts(iovec (&parts)[2], size_t* wanted) {
    size_t count = 0;
    const size_t rest = begun_ ? part_.bytes - part_have_ : 0;
    if (rest != 0) {
        parts[count++] = {part_.to + part_have_, rest};
        *wanted = left_ - part_have_ + (header_.is_open ? kDataHeaderBytes : 0);
    }
    if (!begun_ || part_.bytes == left_) {
        parts[count++] = {header_bytes_ + header_have_, kDataHeaderBytes - header_have_};
        if (!begun_) *wanted = kDataHeaderBytes - header_have_;
    }
    return count;
}

void Receiving::note_received(size_t received) {
    const size_t of_part = begun_ ? std::min<size_t>(received, part_.bytes - part_have_) : 0;
    bytes_ += received;
    part_have_ += of_part;
    if (!header_.ahead && read_ != TcpReads::kNone) asked_ -= of_part;
    header_have_ += received - of_part;
}

Receiving::Received Receiving::receive(Stream& stream, uint64_t now) {
    Received out;
    uint64_t budget = kReceivedPerTurn;
    for (;;) {
        if (!begun_ && header_have_ == kDataHeaderBytes) {
            if (begin_data(&out) != Begun::kYes)
                return out;  // what is early is tried again when it is announced
            header_have_ = 0;
            begun_ = left_ != 0;
            if (begun_) begin_part();
            continue;
        }
        out.more = budget == 0;
        if (out.more) return out;
        iovec parts[2];
        size_t wanted = 0, received = 0;
        const size_t count = wanted_parts(parts, &wanted);
        const Io io = stream.receive({parts, count}, &received);
        out.over = io == Io::kClosed;
        out.nothing = io != Io::kOk;
        if (io == Io::kAgain) stream.wake_at(worth_waking(wanted, now));
        if (io != Io::kOk) return out;
        budget -= std::min<uint64_t>(budget, received);
        note_received(received);
        if (!begun_ || part_have_ != part_.bytes) continue;
        end_part(&out);
        begun_ = left_ != 0;
        if (begun_) begin_part();
    }
}

}  // namespace longshore
