// What every frame between service processes begins with: version, service, length, sender. A frame is of one
// service of the table below; what follows its header is that service's business (collectives:
// engine/message.h, regions: fabric/region_frame.h). Little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/little_endian.h"

namespace longshore {

constexpr size_t kFrameBytesMax = 4096;
constexpr uint8_t kWireVersion = 6;

enum class WireService : uint8_t { kOperations = 1, kRegions = 2 };
struct WireServiceRow {
    WireService id;
    const char* name;
};
// All that there are. A frame of any other is malformed, and so is one that comes to a place where nobody
// takes frames of its service: it is counted and dropped.
constexpr WireServiceRow kWireServices[] = {{WireService::kOperations, "collectives"},
                                            {WireService::kRegions, "regions"}};

struct FrameHeader {
    WireService service = WireService::kOperations;
    ServiceAddress sender;
    uint32_t incarnation = 0;  // of the sender; messages of an older one are dropped
};
constexpr size_t kFrameHeaderBytes = 12;

void put_header(Writer& w, const FrameHeader& header);
// Fills in the length of a frame that has its header and entries.
std::span<const std::byte> finish_frame(std::span<std::byte> frame);
// The frame's header; `rest`: what follows it. Null: too short, of another version, of another length than it
// says, or of no service of the table.
const WireServiceRow* read_header(std::span<const std::byte> frame, FrameHeader* header,
                                  std::span<const std::byte>* rest);
// Likewise; false also if the frame is of another service.
bool open_frame(std::span<const std::byte> frame, WireService service, FrameHeader* header,
                std::span<const std::byte>* rest);

}  // namespace longshore
