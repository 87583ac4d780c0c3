#include "fabric/ucx/exported_memory.h"

#include "base/little_endian.h"

namespace longshore {
namespace {
constexpr uint8_t kExportedVersion = 1;
}  // namespace

std::vector<std::byte> encode_exported(const ExportedMemory& memory) {
    std::byte buffer[kExportedBytesMax];
    Writer w(buffer, sizeof buffer);
    w.put(kExportedVersion);
    w.put(memory.ucx_major);
    w.put(memory.ucx_minor);
    w.put(memory.ucx_release);
    w.put(static_cast<uint16_t>(memory.handle.size()));
    w.put_bytes(memory.handle);
    const bool fits = w.ok() && !memory.handle.empty() && memory.handle.size() <= kExportedBytesMax;
    return fits ? std::vector<std::byte>(buffer, buffer + w.used()) : std::vector<std::byte>();
}

bool decode_exported(std::span<const std::byte> bytes, ExportedMemory* out) {
    Reader r(bytes);
    if (bytes.size() > kExportedBytesMax || r.get<uint8_t>() != kExportedVersion) return false;
    out->ucx_major = r.get<uint8_t>();
    out->ucx_minor = r.get<uint8_t>();
    out->ucx_release = r.get<uint8_t>();
    const auto handle = r.get_bytes(r.get<uint16_t>());
    out->handle.assign(handle.begin(), handle.end());
    return r.ok() && r.rest().empty() && !out->handle.empty();
}

}  // namespace longshore
