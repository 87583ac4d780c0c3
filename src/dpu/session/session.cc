#include "dpu/session/session.h"

#include <algorithm>

#include "base/little_endian.h"

namespace longshore {
namespace {

constexpr size_t kTextBytesMax = 4096;
constexpr size_t kSpansMax = 1 << 20;

// A body that grows as it is written.
class Body {
  public:
    template <class T>
    Body& put(T value) {
        for (size_t i = 0; i < sizeof(T); ++i)
            bytes_.push_back(static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i)));
        return *this;
    }
    Body& put_bytes(std::span<const std::byte> bytes) {
        put(static_cast<uint32_t>(bytes.size()));
        bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
        return *this;
    }
    Body& put_text(const std::string& text) {
        return put_bytes(std::as_bytes(std::span(text).first(std::min(text.size(), kTextBytesMax))));
    }
    Body& put_spans(const std::vector<BlockSpan>& spans) {
        put(static_cast<uint32_t>(spans.size()));
        for (const BlockSpan& span : spans) put(span.offset).put(span.bytes);
        return *this;
    }
    std::vector<std::byte> take() { return std::move(bytes_); }

  private:
    std::vector<std::byte> bytes_;
};

std::vector<std::byte> get_bytes(Reader& r) {
    const auto bytes = r.get_bytes(r.get<uint32_t>());
    return {bytes.begin(), bytes.end()};
}

// One that is longer than anybody writes ends the reading.
std::string get_text(Reader& r) {
    const size_t size = r.get<uint32_t>();
    const auto bytes = r.get_bytes(size <= kTextBytesMax ? size : SIZE_MAX);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// No more of them than there are bytes for.
bool get_spans(Reader& r, std::vector<BlockSpan>* spans) {
    const auto count = r.get<uint32_t>();
    if (count > kSpansMax || r.rest().size() / sizeof(BlockSpan) < count) return false;
    spans->resize(count);
    for (BlockSpan& span : *spans) {
        span.offset = r.get<uint64_t>();
        span.bytes = r.get<uint64_t>();
    }
    return true;
}

bool whole(const Reader& r) {
    return r.ok() && r.rest().empty();
}

// The first words of all who come for a job begin so.
Body begin_of(uint64_t job, const std::array<uint8_t, 16>& token) {
    Body b;
    b.put(kSessionMagic).put(kSessionVersion).put(job);
    for (const uint8_t part : token) b.put(part);
    return b;
}

bool take_begin(Reader& r, uint64_t* job, std::array<uint8_t, 16>* token) {
    if (r.get<uint32_t>() != kSessionMagic || r.get<uint16_t>() != kSessionVersion) return false;
    *job = r.get<uint64_t>();
    for (uint8_t& part : *token) part = r.get<uint8_t>();
    return true;
}

}  // namespace

std::vector<std::byte> encode(const SessionHello& m) {
    Body b = begin_of(m.job, m.token);
    b.put(m.host).put(m.rank).put(m.size);
    b.put(m.service_count).put(m.service_reads_max).put(m.service_spin_us).put(m.service_restarts_max);
    b.put(m.limit_s).put(m.eager_bytes).put(m.chunk_bytes).put(m.staging_bytes);
    b.put_text(m.cores).put(m.memory_mode);
    return b.put_bytes(m.agent).put_bytes(m.probe).put_text(m.no_probe).put(uint8_t{m.copies}).take();
}

bool decode(std::span<const std::byte> body, SessionHello* out) {
    Reader r(body);
    if (!take_begin(r, &out->job, &out->token)) return false;
    out->host = r.get<uint64_t>();
    out->rank = r.get<uint32_t>();
    out->size = r.get<uint32_t>();
    for (uint32_t* field : {&out->service_count, &out->service_reads_max, &out->service_spin_us,
                            &out->service_restarts_max, &out->limit_s})
        *field = r.get<uint32_t>();
    for (uint64_t* field : {&out->eager_bytes, &out->chunk_bytes, &out->staging_bytes})
        *field = r.get<uint64_t>();
    out->cores = get_text(r);
    out->memory_mode = r.get<uint8_t>();
    out->agent = get_bytes(r);
    out->probe = get_bytes(r);
    out->no_probe = get_text(r);
    out->copies = r.get<uint8_t>() == 1;
    return whole(r) && out->rank < out->size;
}

std::vector<std::byte> encode(const SessionTasks& m) {
    return begin_of(m.job, m.token).put(m.limit_s).take();
}

bool decode(std::span<const std::byte> body, SessionTasks* out) {
    Reader r(body);
    if (!take_begin(r, &out->job, &out->token)) return false;
    out->limit_s = r.get<uint32_t>();
    return whole(r);
}

std::vector<std::byte> encode(const SessionCopier& m) {
    return begin_of(m.job, m.token).put(m.rank).take();
}

bool decode(std::span<const std::byte> body, SessionCopier* out) {
    Reader r(body);
    if (!take_begin(r, &out->job, &out->token)) return false;
    out->rank = r.get<uint32_t>();
    return whole(r);
}

std::vector<std::byte> encode(const SessionWelcome& m) {
    return Body().put(kSessionMagic).put(kSessionVersion).put(uint8_t{m.ok}).put_text(m.reason).take();
}

bool decode(std::span<const std::byte> body, SessionWelcome* out) {
    Reader r(body);
    if (r.get<uint32_t>() != kSessionMagic || r.get<uint16_t>() != kSessionVersion) return false;
    out->ok = r.get<uint8_t>() == 1;
    out->reason = get_text(r);
    return whole(r);
}

std::vector<std::byte> encode(const SessionExchange& m) {
    return Body().put(m.id).put(uint8_t{m.ok}).put_bytes(m.bytes).take();
}

bool decode(std::span<const std::byte> body, SessionExchange* out) {
    Reader r(body);
    out->id = r.get<uint64_t>();
    out->ok = r.get<uint8_t>() == 1;
    out->bytes = get_bytes(r);
    return whole(r);
}

std::vector<std::byte> encode(const SessionReady& m) {
    Body b;
    b.put(m.id).put(uint8_t{m.ok}).put(m.node).put(m.nodes).put(m.ranks_per_node).put(uint8_t{m.leader});
    return b.put(uint8_t{m.aliases}).put(uint8_t{m.spare_cores}).put_text(m.reason).take();
}

bool decode(std::span<const std::byte> body, SessionReady* out) {
    Reader r(body);
    out->id = r.get<uint64_t>();
    out->ok = r.get<uint8_t>() == 1;
    out->node = r.get<uint32_t>();
    out->nodes = r.get<uint32_t>();
    out->ranks_per_node = r.get<uint32_t>();
    out->leader = r.get<uint8_t>() == 1;
    out->aliases = r.get<uint8_t>() == 1;
    out->spare_cores = r.get<uint8_t>() == 1;
    out->reason = get_text(r);
    return whole(r);
}

std::vector<std::byte> encode(const SessionOpened& m) {
    Body b;
    b.put(m.region).put(m.address).put(m.bytes).put(m.heap_unit);
    return b.put_bytes(m.key).put_bytes(m.exported).take();
}

bool decode(std::span<const std::byte> body, SessionOpened* out) {
    Reader r(body);
    out->region = r.get<uint32_t>();
    out->address = r.get<uint64_t>();
    out->bytes = r.get<uint64_t>();
    out->heap_unit = r.get<uint32_t>();
    out->key = get_bytes(r);
    out->exported = get_bytes(r);
    return whole(r) && !out->key.empty() && out->bytes <= UINT64_MAX - out->address;
}

std::vector<std::byte> encode(const SessionGroup& m) {
    return Body().put(m.id).put(m.rank).put(m.size).take();
}

bool decode(std::span<const std::byte> body, SessionGroup* out) {
    Reader r(body);
    out->id = r.get<uint64_t>();
    out->rank = r.get<uint32_t>();
    out->size = r.get<uint32_t>();
    return whole(r) && out->id != 0 && out->rank < out->size;
}

std::vector<std::byte> encode(const SessionPost& m) {
    Body b;
    b.put(m.operation)
        .put(m.group)
        .put(m.collective)
        .put(m.algorithm)
        .put(uint8_t{m.self_in_place})
        .put(m.root);
    b.put(m.send_block_bytes).put(m.recv_block_bytes).put(m.send_bytes).put(m.recv_bytes);
    b.put(m.send_region).put(m.recv_region).put(m.send_offset).put(m.recv_offset);
    b.put_spans(m.send_blocks).put_spans(m.recv_blocks).put_bytes(m.data);
    return b.put(static_cast<uint8_t>(m.copies)).take();
}

bool decode(std::span<const std::byte> body, SessionPost* out) {
    Reader r(body);
    out->operation = r.get<uint32_t>();
    out->group = r.get<uint64_t>();
    out->collective = r.get<uint8_t>();
    out->algorithm = r.get<uint8_t>();
    out->self_in_place = r.get<uint8_t>() == 1;
    out->root = r.get<uint32_t>();
    for (uint64_t* field :
         {&out->send_block_bytes, &out->recv_block_bytes, &out->send_bytes, &out->recv_bytes})
        *field = r.get<uint64_t>();
    out->send_region = r.get<uint32_t>();
    out->recv_region = r.get<uint32_t>();
    out->send_offset = r.get<uint64_t>();
    out->recv_offset = r.get<uint64_t>();
    if (!get_spans(r, &out->send_blocks) || !get_spans(r, &out->recv_blocks)) return false;
    out->data = get_bytes(r);
    const auto copies = r.get<uint8_t>();
    out->copies = static_cast<SessionCopies>(copies);
    return whole(r) && copies <= static_cast<uint8_t>(SessionCopies::kInCall);
}

std::vector<std::byte> encode(const SessionDone& m) {
    Body b;
    b.put(m.operation).put(static_cast<uint32_t>(m.result));
    b.put(m.bytes_moved).put(m.bytes_by_agent);
    return b.put(m.blocks_by_rank).put(m.blocks_by_agent).take();
}

bool decode(std::span<const std::byte> body, SessionDone* out) {
    Reader r(body);
    out->operation = r.get<uint32_t>();
    out->result = static_cast<int32_t>(r.get<uint32_t>());
    out->bytes_moved = r.get<uint64_t>();
    out->bytes_by_agent = r.get<uint64_t>();
    out->blocks_by_rank = r.get<uint64_t>();
    out->blocks_by_agent = r.get<uint64_t>();
    return whole(r);
}

std::vector<std::byte> encode(const SessionAttend& m) {
    return Body().put(m.serial).put(uint8_t{m.on}).take();
}

bool decode(std::span<const std::byte> body, SessionAttend* out) {
    Reader r(body);
    out->serial = r.get<uint32_t>();
    const auto on = r.get<uint8_t>();
    out->on = on == 1;
    return whole(r) && on <= 1;
}

std::vector<std::byte> encode(const SessionCopied& m) {
    return Body().put(m.number).put(uint8_t{m.ok}).take();
}

bool decode(std::span<const std::byte> body, SessionCopied* out) {
    Reader r(body);
    out->number = r.get<uint32_t>();
    const auto ok = r.get<uint8_t>();
    out->ok = ok == 1;
    return whole(r) && ok <= 1;
}

std::vector<std::byte> encode(const HandedCopy& m) {
    return Body().put(m.number).put(m.operation).put(m.giver).put(m.from).put(m.to).put(m.bytes).take();
}

bool decode(std::span<const std::byte> body, HandedCopy* out) {
    Reader r(body);
    for (uint32_t* field : {&out->number, &out->operation, &out->giver}) *field = r.get<uint32_t>();
    for (uint64_t* field : {&out->from, &out->to, &out->bytes}) *field = r.get<uint64_t>();
    return whole(r) && out->number != 0 && out->bytes != 0 && out->bytes <= UINT64_MAX - out->from &&
           out->bytes <= UINT64_MAX - out->to;
}

std::vector<std::byte> encode(const SessionLine& m) {
    return Body().put(m.level).put_text(m.text).take();
}

bool decode(std::span<const std::byte> body, SessionLine* out) {
    Reader r(body);
    out->level = r.get<uint8_t>();
    out->text = get_text(r);
    return whole(r);
}

}  // namespace longshore
