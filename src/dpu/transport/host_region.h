// A memory region's descriptor where service processes are on a DPU: where the host's agent has the memory of
// a rank, the key by which the network lets others in, and where there are aliases what service processes of
// the host's own DPU make one from. Made by the host's side; it travels between machines, so that it is
// little-endian and versioned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/node_memory.h"
#include "fabric/ucx/exported_memory.h"

namespace longshore {

struct HostRegion {
    NodeId node;  // whose agent has opened it
    uint64_t address = 0, bytes = 0;
    std::vector<std::byte> key;
    std::vector<std::byte> exported;  // an ExportedMemory; empty: there is none
    uint32_t heap_unit = 0;           // where it begins in the heap of its rank, in units of kHeapUnitBytes
};

constexpr uint64_t kHeapUnitBytes = uint64_t{16} << 20;

constexpr size_t kHostKeyBytesMax = 256;

// Empty: the key or what is exported is too long.
std::vector<std::byte> encode_host_region(const HostRegion& region);
// False: not one of these, of another version, or a region that wraps.
bool decode_host_region(std::span<const std::byte> descriptor, HostRegion* out);

// The owner's side: makes a free entry (even generation) describe the region. False: as encode_host_region().
bool publish_host_region(RegionEntry& entry, const HostRegion& region);
// Anybody's side; `generation` is that of the entry. False: not in use, not one of these, or changed while it
// was read.
bool read_host_region(const RegionEntry& entry, HostRegion* out, uint32_t* generation = nullptr);

}  // namespace longshore
