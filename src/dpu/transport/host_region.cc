#include "dpu/transport/host_region.h"

#include <string.h>

#include "base/little_endian.h"

namespace longshore {
namespace {
constexpr uint32_t kMagic = 0x5248534c;  // "LSHR"
constexpr uint8_t kVersion = 3;

// The largest of each.
static_assert(4 + 1 + 2 + 8 + 8 + 4 + 2 + kHostKeyBytesMax + 2 + kExportedBytesMax <= kDescriptorBytesMax);

void assign(std::vector<std::byte>* out, std::span<const std::byte> bytes) {
    out->assign(bytes.begin(), bytes.end());
}
}  // namespace

std::vector<std::byte> encode_host_region(const HostRegion& region) {
    std::byte buffer[kDescriptorBytesMax];
    if (region.key.size() > kHostKeyBytesMax || region.exported.size() > kExportedBytesMax) return {};
    Writer w(buffer, sizeof buffer);
    w.put(kMagic);
    w.put(kVersion);
    w.put(region.node.value);
    w.put(region.address);
    w.put(region.bytes);
    w.put(region.heap_unit);
    w.put(static_cast<uint16_t>(region.key.size()));
    w.put_bytes(region.key);
    w.put(static_cast<uint16_t>(region.exported.size()));
    w.put_bytes(region.exported);
    return w.ok() ? std::vector<std::byte>(buffer, buffer + w.used()) : std::vector<std::byte>();
}

bool decode_host_region(std::span<const std::byte> descriptor, HostRegion* out) {
    Reader r(descriptor);
    if (r.get<uint32_t>() != kMagic || r.get<uint8_t>() != kVersion) return false;
    out->node = NodeId{r.get<uint16_t>()};
    out->address = r.get<uint64_t>();
    out->bytes = r.get<uint64_t>();
    out->heap_unit = r.get<uint32_t>();
    assign(&out->key, r.get_bytes(r.get<uint16_t>()));
    assign(&out->exported, r.get_bytes(r.get<uint16_t>()));
    return r.ok() && r.rest().empty() && !out->key.empty() && out->key.size() <= kHostKeyBytesMax &&
           out->exported.size() <= kExportedBytesMax && out->bytes <= UINT64_MAX - out->address;
}

bool publish_host_region(RegionEntry& entry, const HostRegion& region) {
    const std::vector<std::byte> descriptor = encode_host_region(region);
    if (descriptor.empty()) return false;
    entry.bytes = region.bytes;
    entry.descriptor_bytes = static_cast<uint32_t>(descriptor.size());
    memcpy(entry.descriptor, descriptor.data(), descriptor.size());
    entry.generation.fetch_add(1, std::memory_order_release);
    return true;
}

bool read_host_region(const RegionEntry& entry, HostRegion* out, uint32_t* read_generation) {
    const uint32_t generation = entry.generation.load(std::memory_order_acquire);
    const uint32_t bytes = entry.descriptor_bytes;
    if (generation % 2 == 0 || bytes > kDescriptorBytesMax) return false;
    if (read_generation != nullptr) *read_generation = generation;
    std::byte descriptor[kDescriptorBytesMax];
    memcpy(descriptor, entry.descriptor, bytes);
    const uint64_t region_bytes = entry.bytes;
    std::atomic_thread_fence(std::memory_order_acquire);
    return entry.generation.load(std::memory_order_relaxed) == generation &&
           decode_host_region({descriptor, bytes}, out) && out->bytes == region_bytes;
}

}  // namespace longshore
