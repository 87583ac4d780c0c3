#include "engine/message.h"

#include "base/little_endian.h"

namespace longshore {
namespace {

void put_operation(Writer& w, const OperationId& id) {
    w.put(id.group.value);
    w.put(id.sequence);
}

OperationId get_operation(Reader& r) {
    OperationId id;
    id.group = GroupId{r.get<uint64_t>()};
    id.sequence = r.get<uint64_t>();
    return id;
}

}  // namespace

void FrameWriter::start(std::byte* buffer, size_t capacity, const FrameHeader& header) {
    buffer_ = buffer;
    capacity_ = capacity;
    Writer w(buffer, capacity);
    put_header(w, header);
    used_ = w.used();
    told_at_ = 0;
}

bool FrameWriter::add(const Message& m) {
    Writer w(buffer_ + used_, capacity_ - used_);
    w.put(static_cast<uint8_t>(m.kind));
    switch (m.kind) {
        case MessageKind::kHello:
            break;
        case MessageKind::kAgain:
            break;
        case MessageKind::kTell:
        case MessageKind::kHandOn:
            LONGSHORE_CHECK(!"rows are added one by one");
            break;
        case MessageKind::kSmallBlock:
            put_operation(w, m.small.operation);
            w.put(m.small.source.value);
            w.put(m.small.destination);
            w.put(static_cast<uint16_t>(m.small.bytes.size()));
            w.put_bytes(m.small.bytes);
            break;
        case MessageKind::kLend: {
            const RemoteBlock& b = m.lent;
            put_operation(w, b.operation);
            w.put(b.source.value);
            w.put(b.destination);
            put_address(w, b.origin);
            w.put(b.owner.value);
            w.put(b.region.value);
            w.put(b.region_generation);
            w.put(b.offset);
            w.put(b.bytes);
            break;
        }
        case MessageKind::kAcknowledge:
            put_operation(w, m.acknowledgement.operation);
            w.put(static_cast<uint8_t>(m.acknowledgement.failed));
            w.put(m.acknowledgement.first);
            w.put(m.acknowledgement.sources);
            break;
        case MessageKind::kWant:
            put_operation(w, m.relayed.operation);
            w.put(m.relayed.source.value);
            put_address(w, m.relayed.origin);
            w.put(m.relayed.hops);
            w.put(m.relayed.ticket);
            break;
        case MessageKind::kOffer:
            w.put(m.relayed.ticket);
            w.put(m.relayed.slot);
            w.put(m.relayed.serial);
            w.put(m.relayed.offset);
            w.put(m.relayed.bytes);
            break;
        case MessageKind::kPass:
            w.put(m.relayed.ticket);
            break;
        case MessageKind::kTaken:
            w.put(m.relayed.ticket);
            w.put(m.relayed.slot);
            w.put(m.relayed.serial);
            break;
    }
    if (!w.ok()) return false;
    used_ += w.used();
    told_at_ = 0;
    return true;
}

std::span<const std::byte> FrameWriter::finish() {
    return finish_frame({buffer_, used_});
}

bool FrameReader::start(std::span<const std::byte> frame, FrameHeader* header) {
    return open_frame(frame, WireService::kOperations, header, &rest_);
}

FrameReader::Result FrameReader::next(Message* out) {
    if (rest_.empty()) return Result::kEnd;
    Reader r(rest_);
    *out = Message{};
    out->kind = static_cast<MessageKind>(r.get<uint8_t>());
    switch (out->kind) {
        case MessageKind::kHello:
            break;
        case MessageKind::kAgain:
            break;
        case MessageKind::kTell:
        case MessageKind::kHandOn: {
            Told& t = out->told;
            t.operation = get_operation(r);
            const uint8_t collective = r.get<uint8_t>();
            if (collective >= kCollectives) return Result::kMalformed;
            t.collective = static_cast<Collective>(collective);
            t.origin = get_address(r);
            t.row_count = r.get<uint16_t>();
            t.rows = r.get_bytes(r.get<uint16_t>());
            break;
        }
        case MessageKind::kSmallBlock:
            out->small.operation = get_operation(r);
            out->small.source = Rank{r.get<uint32_t>()};
            out->small.destination = r.get<uint32_t>();
            out->small.bytes = r.get_bytes(r.get<uint16_t>());
            if (out->small.bytes.empty() || out->small.bytes.size() > kEagerBytesMax)
                return Result::kMalformed;
            break;
        case MessageKind::kLend: {
            RemoteBlock& b = out->lent;
            b.operation = get_operation(r);
            b.source = Rank{r.get<uint32_t>()};
            b.destination = r.get<uint32_t>();
            b.origin = get_address(r);
            b.owner = LocalRank{r.get<uint16_t>()};
            b.region = RegionId{r.get<uint32_t>()};
            b.region_generation = r.get<uint32_t>();
            b.offset = r.get<uint64_t>();
            b.bytes = r.get<uint64_t>();
            break;
        }
        case MessageKind::kAcknowledge:
            out->acknowledgement.operation = get_operation(r);
            out->acknowledgement.failed = r.get<uint8_t>() != 0;
            out->acknowledgement.first = r.get<uint16_t>();
            out->acknowledgement.sources = r.get<uint64_t>();
            break;
        case MessageKind::kWant:
            out->relayed.operation = get_operation(r);
            out->relayed.source = Rank{r.get<uint32_t>()};
            out->relayed.origin = get_address(r);
            out->relayed.hops = r.get<uint8_t>();
            out->relayed.ticket = r.get<uint64_t>();
            break;
        case MessageKind::kOffer:
            out->relayed.ticket = r.get<uint64_t>();
            out->relayed.slot = r.get<uint32_t>();
            out->relayed.serial = r.get<uint32_t>();
            out->relayed.offset = r.get<uint64_t>();
            out->relayed.bytes = r.get<uint64_t>();
            break;
        case MessageKind::kPass:
            out->relayed.ticket = r.get<uint64_t>();
            break;
        case MessageKind::kTaken:
            out->relayed.ticket = r.get<uint64_t>();
            out->relayed.slot = r.get<uint32_t>();
            out->relayed.serial = r.get<uint32_t>();
            break;
        default:
            return Result::kMalformed;
    }
    if (!r.ok()) return Result::kMalformed;
    rest_ = r.rest();
    return Result::kMessage;
}

}  // namespace longshore
