#include "engine/message.h"

#include "base/little_endian.h"

namespace longshore {
namespace {

// Hops and collective share a byte, so that as many notifications fit into a frame as without the collective.
constexpr uint32_t kHops = 256 / kCollectives;
static_assert(kServicesPerNodeMax < kHops && kLent < kHops);

// As the length of an eager block: it is none, and comes along.
constexpr uint16_t kAlong = 0xffff;
static_assert(kEagerBytesMax < kAlong);

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
    w.put(header.version);
    w.put(header.service);
    w.put(uint16_t{0});
    put_address(w, header.sender);
    w.put(header.incarnation);
    used_ = w.used();
}

bool FrameWriter::add(const Message& m) {
    Writer w(buffer_ + used_, capacity_ - used_);
    w.put(static_cast<uint8_t>(m.kind));
    switch (m.kind) {
        case MessageKind::kHello:
            break;
        case MessageKind::kNotify:
        case MessageKind::kHandOn: {
            const Notification& n = m.notification;
            put_operation(w, n.operation);
            w.put(n.source.value);
            w.put(n.destination);
            put_address(w, n.origin);
            w.put(n.owner.value);
            w.put(n.region.value);
            w.put(n.region_generation);
            w.put(n.offset);
            w.put(n.bytes);
            w.put(static_cast<uint8_t>(static_cast<uint32_t>(n.collective) * kHops + n.hops % kHops));
            w.put(static_cast<uint16_t>(n.along ? kAlong : n.eager.size()));
            w.put_bytes(n.eager);
            break;
        }
        case MessageKind::kAcknowledge:
            put_operation(w, m.acknowledgement.operation);
            w.put(m.acknowledgement.source.value);
            w.put(m.acknowledgement.destination);
            w.put(static_cast<uint8_t>(m.acknowledgement.failed));
            break;
        case MessageKind::kRequest:
            put_operation(w, m.request.operation);
            w.put(m.request.source.value);
            w.put(m.request.destination);
            break;
        case MessageKind::kRegionRequest:
        case MessageKind::kRegion:
            w.put(m.region.owner.value);
            w.put(m.region.region.value);
            w.put(m.region.generation);
            w.put(static_cast<uint16_t>(m.region.descriptor.size()));
            w.put_bytes(m.region.descriptor);
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
            w.put(m.relayed.slot);
            w.put(m.relayed.serial);
            break;
    }
    if (!w.ok()) return false;
    used_ += w.used();
    return true;
}

std::span<const std::byte> FrameWriter::finish() {
    buffer_[2] = static_cast<std::byte>(used_ & 0xff);
    buffer_[3] = static_cast<std::byte>(used_ >> 8);
    return {buffer_, used_};
}

bool FrameReader::start(std::span<const std::byte> frame, FrameHeader* header) {
    Reader r(frame);
    header->version = r.get<uint8_t>();
    header->service = r.get<uint8_t>();
    header->length = r.get<uint16_t>();
    header->sender = get_address(r);
    header->incarnation = r.get<uint32_t>();
    rest_ = r.rest();
    return r.ok() && header->version == kWireVersion && header->service == kCollectivesService &&
           header->length == frame.size();
}

FrameReader::Result FrameReader::next(Message* out) {
    if (rest_.empty()) return Result::kEnd;
    Reader r(rest_);
    *out = Message{};
    out->kind = static_cast<MessageKind>(r.get<uint8_t>());
    switch (out->kind) {
        case MessageKind::kHello:
            break;
        case MessageKind::kNotify:
        case MessageKind::kHandOn: {
            Notification& n = out->notification;
            n.operation = get_operation(r);
            n.source = Rank{r.get<uint32_t>()};
            n.destination = r.get<uint32_t>();
            n.origin = get_address(r);
            n.owner = LocalRank{r.get<uint16_t>()};
            n.region = RegionId{r.get<uint32_t>()};
            n.region_generation = r.get<uint32_t>();
            n.offset = r.get<uint64_t>();
            n.bytes = r.get<uint64_t>();
            const uint8_t hops = r.get<uint8_t>();
            if (hops / kHops >= kCollectives) return Result::kMalformed;
            n.hops = hops % kHops;
            n.collective = static_cast<Collective>(hops / kHops);
            uint16_t eager = r.get<uint16_t>();
            n.along = eager == kAlong;
            if (n.along) eager = 0;
            if (eager > kEagerBytesMax || (eager != 0 && eager != n.bytes)) return Result::kMalformed;
            n.eager = r.get_bytes(eager);
            break;
        }
        case MessageKind::kAcknowledge:
            out->acknowledgement.operation = get_operation(r);
            out->acknowledgement.source = Rank{r.get<uint32_t>()};
            out->acknowledgement.destination = r.get<uint32_t>();
            out->acknowledgement.failed = r.get<uint8_t>() != 0;
            break;
        case MessageKind::kRequest:
            out->request.operation = get_operation(r);
            out->request.source = Rank{r.get<uint32_t>()};
            out->request.destination = r.get<uint32_t>();
            break;
        case MessageKind::kRegionRequest:
        case MessageKind::kRegion: {
            out->region.owner = LocalRank{r.get<uint16_t>()};
            out->region.region = RegionId{r.get<uint32_t>()};
            out->region.generation = r.get<uint32_t>();
            out->region.descriptor = r.get_bytes(r.get<uint16_t>());
            break;
        }
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
