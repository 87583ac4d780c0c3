// Rows of blocks in kTell and kHandOn. A message begins with
//     kind 1, group 8, sequence 8, collective 1, origin 4, number of rows 2, bytes of rows 2
// and has its rows behind that; both counts are brought up to date with each row. A row is
//     source 4, local index 2, form and flags 1, region 4, generation 4, and
//     kUniform: offset 8, stride 8, bytes 8
//     kOne: destination 4, offset 8, bytes 8
//     kSpans: spans of the row 2, the first here 2, spans here 2, bytes of spans 2, spans.
// A span is its bytes and, if it has any, how far it begins behind the end of the one before (zigzag), both
// with seven bits to a byte, the lowest first: spans mostly follow each other, and take two to four bytes
// then.
#include "base/little_endian.h"
#include "engine/message.h"

namespace longshore {
namespace {

constexpr size_t kCountsAt = 22, kToldBytes = kCountsAt + 4;
constexpr uint8_t kFormBits = 3, kAlongBit = 4, kWaitedBit = 8;
// However large a frame is, so many spans at least go into a part.
constexpr uint32_t kSpansPerPart = 8;

void put_number(Writer& w, uint64_t n) {
    for (; n >= 128; n >>= 7) w.put(static_cast<uint8_t>(n | 128));
    w.put(static_cast<uint8_t>(n));
}

uint64_t get_number(Reader& r) {
    uint64_t n = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
        const uint8_t byte = r.get<uint8_t>();
        n |= uint64_t{byte & 127u} << shift;
        if (byte < 128) break;
    }
    return n;
}

uint64_t zigzag(uint64_t n) {
    return n << 1 ^ (n >> 63 != 0 ? UINT64_MAX : 0);
}

uint64_t unzigzag(uint64_t n) {
    return n >> 1 ^ ((n & 1) != 0 ? UINT64_MAX : 0);
}

uint16_t get_u16(const std::byte* at) {
    return static_cast<uint16_t>(static_cast<uint8_t>(at[0]) | static_cast<uint32_t>(at[1]) << 8);
}

void set_u16(std::byte* at, size_t value) {
    at[0] = static_cast<std::byte>(value & 0xff);
    at[1] = static_cast<std::byte>(value >> 8);
}

// How many spans there is room for.
uint32_t put_spans(Writer& w, std::span<const BlockSpan> spans, size_t room) {
    uint64_t end = 0;
    uint32_t count = 0;
    for (const BlockSpan& span : spans) {
        if (w.used() + 20 > room) break;
        put_number(w, span.bytes);
        if (span.bytes != 0) {
            put_number(w, zigzag(span.offset - end));
            end = span.offset + span.bytes;
        }
        ++count;
    }
    return count;
}

}  // namespace

// Makes the last message of the frame one that rows of the operation can be added to.
bool FrameWriter::open_told(MessageKind kind, const Told& told) {
    std::byte head[kToldBytes];
    Writer w(head, sizeof head);
    w.put(static_cast<uint8_t>(kind));
    w.put(told.operation.group.value);
    w.put(told.operation.sequence);
    w.put(static_cast<uint8_t>(told.collective));
    put_address(w, told.origin);
    LONGSHORE_CHECK(w.used() == kCountsAt);
    if (told_at_ != 0 && memcmp(buffer_ + told_at_, head, kCountsAt) == 0) return true;
    if (capacity_ - used_ < kToldBytes) return false;
    told_at_ = used_;
    memcpy(buffer_ + used_, head, kCountsAt);
    memset(buffer_ + used_ + kCountsAt, 0, 4);
    used_ += kToldBytes;
    return true;
}

uint32_t FrameWriter::add_row(MessageKind kind, const Told& told, const Row& row,
                              std::span<const BlockSpan> spans) {
    const size_t used_before = used_, told_before = told_at_;
    if (!open_told(kind, told)) return 0;
    std::byte* const at = buffer_ + used_;
    const size_t room = capacity_ - used_;
    Writer w(at, room);
    w.put(row.source.value);
    w.put(row.local_index);
    w.put(static_cast<uint8_t>(static_cast<uint8_t>(row.form) | (row.along ? kAlongBit : 0) |
                               (row.waited ? kWaitedBit : 0)));
    w.put(row.region.value);
    w.put(row.generation);
    uint32_t written = 1;
    if (row.form == Row::Form::kSpans) {
        w.put(row.span_count);
        w.put(row.span_first);
        const size_t counts = w.used();
        w.put(uint16_t{0});
        w.put(uint16_t{0});
        const size_t first = w.used();
        written = w.ok() ? put_spans(w, spans, room) : 0;
        if (w.ok() && (written == spans.size() || written >= kSpansPerPart)) {
            set_u16(at + counts, written);
            set_u16(at + counts + 2, w.used() - first);
        } else {
            written = 0;
        }
    } else {
        if (row.form == Row::Form::kOne) w.put(row.destination);
        w.put(row.offset);
        if (row.form == Row::Form::kUniform) w.put(row.stride);
        w.put(row.bytes);
    }
    if (!w.ok() || written == 0) {
        used_ = used_before;
        told_at_ = told_before;
        return 0;
    }
    used_ += w.used();
    std::byte* const counts = buffer_ + told_at_ + kCountsAt;
    set_u16(counts, get_u16(counts) + 1u);
    set_u16(counts + 2, get_u16(counts + 2) + w.used());
    return written;
}

bool RowReader::next(Row* out) {
    if (left_ == 0) {
        malformed_ |= !rest_.empty();
        return false;
    }
    --left_;
    Reader r(rest_);
    *out = Row{};
    out->source = Rank{r.get<uint32_t>()};
    out->local_index = r.get<uint16_t>();
    const uint8_t form = r.get<uint8_t>();
    out->form = static_cast<Row::Form>(form & kFormBits);
    out->along = (form & kAlongBit) != 0;
    out->waited = (form & kWaitedBit) != 0;
    out->region = RegionId{r.get<uint32_t>()};
    out->generation = r.get<uint32_t>();
    switch (out->form) {
        case Row::Form::kSpans:
            out->span_count = r.get<uint16_t>();
            out->span_first = r.get<uint16_t>();
            out->spans_here = r.get<uint16_t>();
            out->spans = r.get_bytes(r.get<uint16_t>());
            malformed_ = out->spans_here == 0 || out->span_first + out->spans_here > out->span_count;
            break;
        case Row::Form::kOne:
        case Row::Form::kUniform:
            if (out->form == Row::Form::kOne) out->destination = r.get<uint32_t>();
            out->offset = r.get<uint64_t>();
            if (out->form == Row::Form::kUniform) out->stride = r.get<uint64_t>();
            out->bytes = r.get<uint64_t>();
            malformed_ = out->bytes == 0;
            break;
        default:
            malformed_ = true;
    }
    malformed_ |= !r.ok() || (form & ~(kFormBits | kAlongBit | kWaitedBit)) != 0;
    rest_ = r.rest();
    return !malformed_;
}

bool SpanReader::next(BlockSpan* out) {
    if (left_ == 0) return false;
    --left_;
    Reader r(rest_);
    out->bytes = get_number(r);
    out->offset = 0;
    if (out->bytes != 0) {
        out->offset = end_ + unzigzag(get_number(r));
        end_ = out->offset + out->bytes;
    }
    if (!r.ok()) return false;
    rest_ = r.rest();
    return true;
}

}  // namespace longshore
