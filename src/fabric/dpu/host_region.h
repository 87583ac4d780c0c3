// A memory region's descriptor where service processes are on a DPU: where the host's agent has the memory of
// a rank, and the key by which the network lets others in. Made by the host's side; it travels between
// machines, so that it is little-endian and versioned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/node_memory.h"

namespace longshore {

struct HostRegion {
    NodeId node;  // whose agent has opened it
    uint64_t address = 0, bytes = 0;
    std::vector<std::byte> key;
};

constexpr size_t kHostKeyBytesMax = 256;

// Empty: the key is too long.
std::vector<std::byte> encode_host_region(const HostRegion& region);
// False: not one of these, of another version, or a region that wraps.
bool decode_host_region(std::span<const std::byte> descriptor, HostRegion* out);

// The owner's side: makes a free entry (even generation) describe the region. False: the key is too long.
bool publish_host_region(RegionEntry& entry, const HostRegion& region);
// Anybody's side. False: not in use, not one of these, or changed while it was read.
bool read_host_region(const RegionEntry& entry, HostRegion* out);

}  // namespace longshore
