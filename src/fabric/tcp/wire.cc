#include "fabric/tcp/wire.h"

#include "base/check.h"
#include "base/little_endian.h"

namespace longshore {
namespace {

constexpr uint32_t kWelcomeMagic = 0x4b4f534c;  // "LSOK"

void put_start(Writer& w) {
    w.put(kTcpMagic);
    w.put(kTcpVersion);
}

bool starts_right(Reader& r) {
    return r.get<uint32_t>() == kTcpMagic && r.get<uint16_t>() == kTcpVersion;
}

}  // namespace

void encode_preface(ServiceId service, std::span<std::byte, kPrefaceBytes> out) {
    Writer w(out.data(), out.size());
    put_start(w);
    w.put(service.value);
    LONGSHORE_CHECK(w.ok() && w.used() == kPrefaceBytes);
}

bool decode_preface(std::span<const std::byte, kPrefaceBytes> bytes, ServiceId* service) {
    Reader r(bytes);
    if (!starts_right(r)) return false;
    service->value = r.get<uint16_t>();
    return r.ok();
}

void encode_hello(const Hello& h, std::span<std::byte, kHelloBytes> out) {
    Writer w(out.data(), out.size());
    put_start(w);
    w.put(static_cast<uint8_t>(h.kind));
    w.put(uint8_t{0});
    put_address(w, h.from);
    put_address(w, h.to);
    w.put(h.incarnation);
    w.put(uint32_t{0});
    w.put(h.connection);
    w.put_bytes(h.nonce);
    LONGSHORE_CHECK(w.ok() && w.used() == kHelloBytes);
}

bool decode_hello(std::span<const std::byte, kHelloBytes> bytes, Hello* out) {
    Reader r(bytes);
    if (!starts_right(r)) return false;
    const auto kind = r.get<uint8_t>();
    if (kind < static_cast<uint8_t>(StreamKind::kTalk) || kind > static_cast<uint8_t>(StreamKind::kTasks) ||
        r.get<uint8_t>() != 0)
        return false;
    out->kind = static_cast<StreamKind>(kind);
    out->from = get_address(r);
    out->to = get_address(r);
    out->incarnation = r.get<uint32_t>();
    if (r.get<uint32_t>() != 0) return false;
    out->connection = r.get<uint64_t>();
    memcpy(out->nonce.data(), r.get_bytes(sizeof(Nonce)).data(), sizeof(Nonce));
    return r.ok();
}

void encode_challenge(const Challenge& c, std::span<std::byte, kChallengeBytes> out) {
    Writer w(out.data(), out.size());
    put_start(w);
    w.put(uint16_t{0});
    w.put(c.incarnation);
    w.put_bytes(c.nonce);
    LONGSHORE_CHECK(w.used() == kChallengeBytesProved);
    w.put_bytes(c.proof);
    LONGSHORE_CHECK(w.ok() && w.used() == kChallengeBytes);
}

bool decode_challenge(std::span<const std::byte, kChallengeBytes> bytes, Challenge* out) {
    Reader r(bytes);
    if (!starts_right(r) || r.get<uint16_t>() != 0) return false;
    out->incarnation = r.get<uint32_t>();
    memcpy(out->nonce.data(), r.get_bytes(sizeof(Nonce)).data(), sizeof(Nonce));
    memcpy(out->proof.data(), r.get_bytes(sizeof(Proof)).data(), sizeof(Proof));
    return r.ok();
}

void encode_welcome(std::span<std::byte, kWelcomeBytes> out) {
    Writer(out.data(), out.size()).put(kWelcomeMagic);
}

bool is_welcome(std::span<const std::byte, kWelcomeBytes> bytes) {
    return Reader(bytes).get<uint32_t>() == kWelcomeMagic;
}

size_t encode_talk(const Talk& t, std::span<std::byte> out) {
    Writer w(out.data() + kTalkHeaderBytes, out.size() - kTalkHeaderBytes);
    switch (t.kind) {
        case TalkKind::kFrame:
            w.put_bytes(t.frame);
            break;
        case TalkKind::kRequest:
            w.put(t.id);
            w.put(t.region.rank.value);
            w.put(t.region.region.value);
            w.put(t.region.generation);
            w.put(t.offset);
            w.put(t.bytes);
            break;
        case TalkKind::kAhead:
            w.put(t.id);
            w.put(t.block.operation.group.value);
            w.put(t.block.operation.sequence);
            w.put(t.block.source.value);
            w.put(t.block.destination);
            w.put(t.bytes);
            break;
        case TalkKind::kUsed:
            w.put(t.used);
            break;
        case TalkKind::kHere:
        case TalkKind::kFewer:
            break;
    }
    Writer header(out.data(), kTalkHeaderBytes);
    header.put(static_cast<uint32_t>(w.used()));
    header.put(static_cast<uint32_t>(t.kind));
    LONGSHORE_CHECK(w.ok() && header.ok());
    return kTalkHeaderBytes + w.used();
}

size_t talk_body_bytes(std::span<const std::byte, kTalkHeaderBytes> header) {
    Reader r(header);
    const auto bytes = r.get<uint32_t>();
    const auto kind = r.get<uint32_t>();
    const bool known =
        kind >= static_cast<uint32_t>(TalkKind::kFrame) && kind <= static_cast<uint32_t>(TalkKind::kFewer);
    return known && bytes <= kFrameBytesMax ? bytes : SIZE_MAX;
}

bool decode_talk(std::span<const std::byte> message, Talk* out) {
    if (message.size() < kTalkHeaderBytes) return false;
    const size_t bytes = talk_body_bytes(message.first<kTalkHeaderBytes>());
    if (bytes != message.size() - kTalkHeaderBytes) return false;
    Reader header(message.subspan(4));
    *out = {};
    out->kind = static_cast<TalkKind>(header.get<uint32_t>());
    Reader r(message.subspan(kTalkHeaderBytes));
    switch (out->kind) {
        case TalkKind::kFrame:
            out->frame = r.get_bytes(bytes);
            break;
        case TalkKind::kRequest:
            out->id = r.get<uint64_t>();
            out->region.rank = LocalRank{r.get<uint16_t>()};
            out->region.region = RegionId{r.get<uint32_t>()};
            out->region.generation = r.get<uint32_t>();
            out->offset = r.get<uint64_t>();
            out->bytes = r.get<uint64_t>();
            break;
        case TalkKind::kAhead:
            out->id = r.get<uint64_t>();
            out->block.operation.group = GroupId{r.get<uint64_t>()};
            out->block.operation.sequence = r.get<uint64_t>();
            out->block.source = Rank{r.get<uint32_t>()};
            out->block.destination = r.get<uint32_t>();
            out->bytes = r.get<uint64_t>();
            break;
        case TalkKind::kUsed:
            out->used = r.get<uint64_t>();
            break;
        case TalkKind::kHere:
        case TalkKind::kFewer:
            break;
    }
    return r.ok() && r.rest().empty();
}

void encode_data(const DataHeader& h, std::span<std::byte, kDataHeaderBytes> out) {
    Writer w(out.data(), out.size());
    w.put(static_cast<uint8_t>(h.ahead));
    w.put(static_cast<uint8_t>(h.result));
    w.put(uint16_t{h.is_open});
    w.put(h.bytes);
    w.put(h.id);
    w.put(h.offset);
    LONGSHORE_CHECK(w.ok() && w.used() == kDataHeaderBytes);
}

bool decode_data(std::span<const std::byte, kDataHeaderBytes> bytes, DataHeader* out) {
    Reader r(bytes);
    const auto ahead = r.get<uint8_t>();
    const auto result = r.get<uint8_t>();
    const auto is_open = r.get<uint16_t>();
    if (ahead > 1 || result > static_cast<uint8_t>(MoveResult::kFailed) || is_open > 1) return false;
    out->ahead = ahead != 0;
    out->is_open = is_open != 0;
    out->result = static_cast<MoveResult>(result);
    out->bytes = r.get<uint32_t>();
    out->id = r.get<uint64_t>();
    out->offset = r.get<uint64_t>();
    const uint32_t bytes_max = out->result == MoveResult::kMoved ? kDataBytesMax : 0;
    return r.ok() && out->bytes <= bytes_max && (out->bytes != 0 || !out->is_open);
}

}  // namespace longshore
