#include "fabric/ucx/packet.h"

#include "base/check.h"
#include "base/little_endian.h"

namespace longshore {
namespace {

bool get_flag(Reader& r, bool* out) {
    const uint8_t value = r.get<uint8_t>();
    *out = value == 1;
    return value <= 1;
}

bool get_result(Reader& r, MoveResult* out) {
    const uint8_t value = r.get<uint8_t>();
    if (value > static_cast<uint8_t>(MoveResult::kFailed)) return false;
    *out = static_cast<MoveResult>(value);
    return true;
}

}  // namespace

std::span<const std::byte> encode_packet(const Packet& p, std::span<std::byte, kPacketHeaderBytesMax> out) {
    Writer w(out.data(), out.size());
    w.put(kPacketMagic);
    w.put(kPacketVersion);
    w.put(static_cast<uint8_t>(p.kind));
    put_address(w, p.from);
    put_address(w, p.to);
    w.put(p.incarnation);
    w.put_bytes(std::as_bytes(std::span(p.token)));
    w.put(p.taken);
    switch (p.kind) {
        case PacketKind::kGreeting:
        case PacketKind::kTaken:
            break;
        case PacketKind::kAlive:
            w.put(static_cast<uint8_t>(p.asks));
            break;
        case PacketKind::kFrame:
            w.put(p.sequence);
            break;
        case PacketKind::kReadRequest:
            w.put(p.id);
            w.put(p.region.rank.value);
            w.put(p.region.region.value);
            w.put(p.region.generation);
            w.put(p.offset);
            w.put(p.bytes);
            break;
        case PacketKind::kReadData:
            w.put(p.id);
            w.put(p.offset);
            w.put(static_cast<uint8_t>(p.result));
            w.put(static_cast<uint8_t>(p.is_open));
            break;
        case PacketKind::kReadHeld:
            w.put(p.id);
            w.put(static_cast<uint8_t>(p.result));
            break;
    }
    LONGSHORE_CHECK(w.ok());
    return out.first(w.used());
}

bool decode_packet(std::span<const std::byte> header, Packet* out) {
    Reader r(header);
    *out = {};
    if (r.get<uint16_t>() != kPacketMagic || r.get<uint8_t>() != kPacketVersion) return false;
    out->kind = static_cast<PacketKind>(r.get<uint8_t>());
    out->from = get_address(r);
    out->to = get_address(r);
    out->incarnation = r.get<uint32_t>();
    const std::span<const std::byte> token = r.get_bytes(out->token.size());
    if (!r.ok()) return false;
    memcpy(out->token.data(), token.data(), token.size());
    out->taken = r.get<uint32_t>();
    switch (out->kind) {
        case PacketKind::kGreeting:
        case PacketKind::kTaken:
            break;
        case PacketKind::kAlive:
            if (!get_flag(r, &out->asks)) return false;
            break;
        case PacketKind::kFrame:
            out->sequence = r.get<uint32_t>();
            break;
        case PacketKind::kReadRequest:
            out->id = r.get<uint64_t>();
            out->region.rank = LocalRank{r.get<uint16_t>()};
            out->region.region = RegionId{r.get<uint32_t>()};
            out->region.generation = r.get<uint32_t>();
            out->offset = r.get<uint64_t>();
            out->bytes = r.get<uint64_t>();
            break;
        case PacketKind::kReadData:
            out->id = r.get<uint64_t>();
            out->offset = r.get<uint64_t>();
            if (!get_result(r, &out->result) || !get_flag(r, &out->is_open)) return false;
            break;
        case PacketKind::kReadHeld:
            out->id = r.get<uint64_t>();
            if (!get_result(r, &out->result)) return false;
            break;
        default:
            return false;
    }
    return r.ok() && r.rest().empty();
}

}  // namespace longshore
