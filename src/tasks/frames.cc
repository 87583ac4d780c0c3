#include "tasks/frames.h"

#include <algorithm>

#include "base/little_endian.h"

namespace longshore::tasks {
namespace {

class Body {
  public:
    template <class T>
    Body& put(T value) {
        std::byte bytes[sizeof(T)];
        Writer(bytes, sizeof bytes).put(value);
        bytes_.insert(bytes_.end(), bytes, bytes + sizeof bytes);
        return *this;
    }
    Body& put_bytes(std::span<const std::byte> bytes) {
        bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
        return *this;
    }
    Body& put_text(const std::string& text, size_t most) {
        const size_t bytes = std::min(text.size(), most - 1);
        return put(static_cast<uint16_t>(bytes)).put_bytes(std::as_bytes(std::span(text).first(bytes)));
    }
    std::vector<std::byte> take() { return std::move(bytes_); }

  private:
    std::vector<std::byte> bytes_;
};

// One that is too long, or has a zero byte in it, ends the reading.
std::string get_text(Reader& r, size_t most) {
    const size_t size = r.get<uint16_t>();
    const auto bytes = r.get_bytes(size < most ? size : SIZE_MAX);
    const bool is_text = std::find(bytes.begin(), bytes.end(), std::byte{0}) == bytes.end();
    if (!is_text) r.get_bytes(SIZE_MAX);
    return is_text ? std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) : "";
}

bool is_whole(const Reader& r) {
    return r.ok() && r.rest().empty();
}

bool has_payload(FrameKind kind) {
    return kind == FrameKind::kTask || kind == FrameKind::kResult;
}

bool is_known(FrameKind kind) {
    return (kind >= FrameKind::kOpen && kind <= FrameKind::kTask) ||
           (kind >= FrameKind::kLoaded && kind <= FrameKind::kResult);
}

template <class Condition>
uint64_t sum(const Submission& submission, Condition condition) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < submission.buffers_count; ++i)
        bytes += condition(submission.buffers[i]) ? submission.buffers[i].bytes : 0;
    return bytes;
}

bool is_access(uint32_t access) {
    return access >= LONGSHORE_IN && access <= LONGSHORE_KEPT;
}

}  // namespace

void encode_header(const FrameHeader& header, std::span<std::byte, kFrameHeaderBytes> out) {
    Writer w(out.data(), out.size());
    w.put(kFrameMagic);
    w.put(kFrameVersion);
    w.put(static_cast<uint16_t>(header.kind));
    w.put(header.body_bytes);
    w.put(header.payload_bytes);
}

bool decode_header(std::span<const std::byte, kFrameHeaderBytes> bytes, FrameHeader* out) {
    Reader r(bytes);
    if (r.get<uint32_t>() != kFrameMagic || r.get<uint16_t>() != kFrameVersion) return false;
    out->kind = FrameKind{r.get<uint16_t>()};
    out->body_bytes = r.get<uint32_t>();
    out->payload_bytes = r.get<uint64_t>();
    return is_known(out->kind) && out->body_bytes <= kFrameBodyBytesMax &&
           out->payload_bytes <= (has_payload(out->kind) ? kSharedFileBytesMax : 0);
}

std::vector<std::byte> encode(const OpenFrame& f) {
    Body b;
    b.put_text(f.plugin, kPathBytes).put_text(f.directory, kPathBytes);
    b.put_text(f.cores, sizeof(OpenPool::cores)).put(static_cast<uint16_t>(f.environment.size()));
    for (const std::string& variable : f.environment) b.put_text(variable, kEnvironmentBytesMax);
    b.put(f.plugin_bytes).put(f.plugin_hash).put(f.threads).put(f.processes).put(f.index);
    return b.take();
}

bool decode(std::span<const std::byte> body, OpenFrame* out) {
    Reader r(body);
    out->plugin = get_text(r, kPathBytes);
    out->directory = get_text(r, kPathBytes);
    out->cores = get_text(r, sizeof(OpenPool::cores));
    out->environment.clear();
    for (uint32_t count = r.get<uint16_t>(); count != 0 && r.ok(); --count)
        out->environment.push_back(get_text(r, kEnvironmentBytesMax));
    out->plugin_bytes = r.get<uint64_t>();
    out->plugin_hash = r.get<uint64_t>();
    out->threads = r.get<uint32_t>();
    out->processes = r.get<uint32_t>();
    out->index = r.get<uint32_t>();
    return is_whole(r) && !out->plugin.empty() && out->processes <= kProcessesMax &&
           out->index < out->processes && out->threads >= 1 && out->threads <= kThreadsMax;
}

std::vector<std::byte> encode(const LoadedFrame& f) {
    Body b;
    b.put(static_cast<uint32_t>(f.error)).put_text(f.text, kTextBytes).put(f.table.functions_count);
    for (uint32_t i = 0; i < f.table.functions_count; ++i) b.put_text(f.table.names[i], kNameBytes);
    return b.take();
}

bool decode(std::span<const std::byte> body, LoadedFrame* out) {
    Reader r(body);
    out->error = static_cast<int32_t>(r.get<uint32_t>());
    out->text = get_text(r, kTextBytes);
    out->table = {};
    const auto count = r.get<uint32_t>();
    if (count > kFunctionsMax) return false;
    for (uint32_t i = 0; i < count; ++i) {
        const std::string name = get_text(r, kNameBytes);
        name.copy(out->table.names[i], kNameBytes - 1);
    }
    out->table.functions_count = count;
    return is_whole(r);
}

std::vector<std::byte> encode(const ClientFrame& f) {
    return Body().put(f.client).take();
}

bool decode(std::span<const std::byte> body, ClientFrame* out) {
    Reader r(body);
    out->client = r.get<uint64_t>();
    return is_whole(r);
}

std::vector<std::byte> encode(const ServingFrame& f) {
    return Body().put(f.client).put(static_cast<uint32_t>(f.error)).put_text(f.text, kTextBytes).take();
}

bool decode(std::span<const std::byte> body, ServingFrame* out) {
    Reader r(body);
    out->client = r.get<uint64_t>();
    out->error = static_cast<int32_t>(r.get<uint32_t>());
    out->text = get_text(r, kTextBytes);
    return is_whole(r);
}

std::vector<std::byte> encode(const TaskFrame& f) {
    const Submission& s = f.submission;
    Body b;
    b.put(f.client).put(s.function).put(s.buffers_count).put(s.arguments_bytes);
    for (uint32_t i = 0; i < s.buffers_count; ++i) {
        const BufferPlace& buffer = s.buffers[i];
        const bool is_kept = buffer.access == LONGSHORE_KEPT;
        b.put(buffer.access).put(buffer.bytes);
        b.put(is_kept ? buffer.address : 0).put(is_kept ? buffer.offset : 0);
    }
    return b.put_bytes(std::span(s.arguments).first(s.arguments_bytes)).take();
}

bool decode(std::span<const std::byte> body, TaskFrame* out) {
    Submission& s = out->submission;
    Reader r(body);
    out->client = r.get<uint64_t>();
    s.function = r.get<uint32_t>();
    s.buffers_count = r.get<uint32_t>();
    s.arguments_bytes = r.get<uint32_t>();
    if (s.buffers_count > LONGSHORE_BUFFERS_MAX || s.arguments_bytes > LONGSHORE_ARGUMENTS_BYTES_MAX)
        return false;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s.buffers_count; ++i) {
        BufferPlace& buffer = s.buffers[i];
        buffer = {};
        buffer.access = r.get<uint32_t>();
        buffer.bytes = r.get<uint64_t>();
        buffer.address = r.get<uint64_t>();
        buffer.offset = r.get<uint64_t>();
        const bool is_kept = buffer.access == LONGSHORE_KEPT;
        if (!is_access(buffer.access) || buffer.bytes > kSharedFileBytesMax ||
            (!is_kept &&
             (buffer.address != 0 || buffer.offset != 0 || (bytes += buffer.bytes) > kSharedFileBytesMax)))
            return false;
    }
    const auto arguments = r.get_bytes(s.arguments_bytes);
    std::copy(arguments.begin(), arguments.end(), s.arguments);
    return is_whole(r);
}

std::vector<std::byte> encode(const ResultFrame& f) {
    return Body().put(f.client).put(static_cast<uint32_t>(f.result)).put_text(f.text, kTextBytes).take();
}

bool decode(std::span<const std::byte> body, ResultFrame* out) {
    Reader r(body);
    out->client = r.get<uint64_t>();
    out->result = static_cast<int32_t>(r.get<uint32_t>());
    out->text = get_text(r, kTextBytes);
    return is_whole(r);
}

uint64_t bytes_that_go(const Submission& submission) {
    return sum(submission, goes);
}

uint64_t bytes_that_come(const Submission& submission) {
    return sum(submission, comes);
}

}  // namespace longshore::tasks
