#include "fabric/region_frame.h"

namespace longshore {

RegionFrameWriter::RegionFrameWriter(std::span<std::byte> buffer, ServiceAddress sender, uint32_t incarnation)
    : buffer_(buffer) {
    Writer w(buffer.data(), buffer.size());
    put_header(w, {WireService::kRegions, sender, incarnation});
    LONGSHORE_CHECK(w.ok());
    used_ = w.used();
}

bool RegionFrameWriter::add(const RegionNotice& message) {
    Writer w(buffer_.data() + used_, buffer_.size() - used_);
    w.put(static_cast<uint8_t>(message.kind));
    w.put(message.name.rank.value);
    w.put(message.name.region.value);
    w.put(message.name.generation);
    if (message.kind == RegionNoticeKind::kDescribe) {
        w.put(static_cast<uint16_t>(message.descriptor.size()));
        w.put_bytes(message.descriptor);
    }
    if (!w.ok()) return false;
    used_ += w.used();
    return true;
}

std::span<const std::byte> RegionFrameWriter::finish() {
    return finish_frame(buffer_.first(used_));
}

bool RegionFrameReader::start(std::span<const std::byte> frame, FrameHeader* header) {
    return open_frame(frame, WireService::kRegions, header, &rest_);
}

RegionFrameReader::Result RegionFrameReader::next(RegionNotice* out) {
    if (rest_.empty()) return Result::kEnd;
    Reader r(rest_);
    *out = {};
    out->kind = static_cast<RegionNoticeKind>(r.get<uint8_t>());
    if (out->kind != RegionNoticeKind::kAsk && out->kind != RegionNoticeKind::kDescribe)
        return Result::kMalformed;
    out->name.rank = LocalRank{r.get<uint16_t>()};
    out->name.region = RegionId{r.get<uint32_t>()};
    out->name.generation = r.get<uint32_t>();
    if (out->kind == RegionNoticeKind::kDescribe) out->descriptor = r.get_bytes(r.get<uint16_t>());
    if (!r.ok() || out->descriptor.size() > kDescriptorBytesMax) return Result::kMalformed;
    rest_ = r.rest();
    return Result::kNotice;
}

}  // namespace longshore
