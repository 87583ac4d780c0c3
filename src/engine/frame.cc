#include "engine/frame.h"

namespace longshore {

void put_header(Writer& w, const FrameHeader& header) {
    w.put(kWireVersion);
    w.put(static_cast<uint8_t>(header.service));
    w.put(uint16_t{0});
    put_address(w, header.sender);
    w.put(header.incarnation);
}

std::span<const std::byte> finish_frame(std::span<std::byte> frame) {
    frame[2] = static_cast<std::byte>(frame.size() & 0xff);
    frame[3] = static_cast<std::byte>(frame.size() >> 8);
    return frame;
}

const WireServiceRow* read_header(std::span<const std::byte> frame, FrameHeader* header,
                                  std::span<const std::byte>* rest) {
    Reader r(frame);
    const auto version = r.get<uint8_t>(), service = r.get<uint8_t>();
    const auto length = r.get<uint16_t>();
    header->sender = get_address(r);
    header->incarnation = r.get<uint32_t>();
    *rest = r.rest();
    if (!r.ok() || version != kWireVersion || length != frame.size()) return nullptr;
    for (const WireServiceRow& row : kWireServices) {
        if (static_cast<uint8_t>(row.id) != service) continue;
        header->service = row.id;
        return &row;
    }
    return nullptr;
}

bool open_frame(std::span<const std::byte> frame, WireService service, FrameHeader* header,
                std::span<const std::byte>* rest) {
    const WireServiceRow* const row = read_header(frame, header, rest);
    return row != nullptr && row->id == service;
}

}  // namespace longshore
