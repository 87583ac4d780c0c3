// What service processes of different nodes say to each other of regions, where memory is read by descriptors
// (fabric/described_fabric.h): frames of the service kRegions, a header (engine/frame.h) and entries.
// Decoding never reads past the frame and never trusts a length.
#pragma once

#include "engine/frame.h"
#include "engine/service_engine.h"

namespace longshore {

enum class RegionNoticeKind : uint8_t {
    kAsk = 1,   // how is that region to be found?
    kDescribe,  // so; without a descriptor: it is gone, or there never was one
};

struct RegionNotice {
    RegionNoticeKind kind = RegionNoticeKind::kAsk;
    RegionName name;
    std::span<const std::byte> descriptor;  // kDescribe, at most kDescriptorBytesMax
};

class RegionFrameWriter {
  public:
    RegionFrameWriter(std::span<std::byte> buffer, ServiceAddress sender, uint32_t incarnation);
    // False: no room left; nothing was written.
    bool add(const RegionNotice& message);
    std::span<const std::byte> finish();

  private:
    std::span<std::byte> buffer_;
    size_t used_ = 0;
};

class RegionFrameReader {
  public:
    // False: not a frame of this service (open_frame).
    bool start(std::span<const std::byte> frame, FrameHeader* header);
    enum class Result : uint8_t { kNotice, kEnd, kMalformed };
    // The descriptor lies in the frame.
    Result next(RegionNotice* out);

  private:
    std::span<const std::byte> rest_;
};

}  // namespace longshore
