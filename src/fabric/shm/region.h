// A memory region's descriptor in the shared-memory fabric: a span of a process's address space, and enough
// to tell that process from a later one with the same pid. Made by the rank, read by whoever moves its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/node_memory.h"

namespace longshore {

struct ProcessSpan {
    uint32_t pid = 0;
    uint64_t start_time = 0;  // of the process, in clock ticks since boot
    uint64_t base = 0, bytes = 0;
};

// 0 if there is no such process (or it cannot be seen).
uint64_t process_start_time(uint32_t pid);

constexpr size_t kProcessSpanBytes = 36;
void encode_span(const ProcessSpan& span, std::byte* out);
// False: not one of ours, or a span that wraps.
bool decode_span(std::span<const std::byte> descriptor, ProcessSpan* out);

// The owner's side: makes a free entry (even generation) describe `span`, and takes it back.
void publish_region(RegionEntry& entry, const ProcessSpan& span);
void withdraw_region(RegionEntry& entry);

// Anybody's side. False: not in use, or changed while it was read.
bool read_region(const RegionEntry& entry, ProcessSpan* out);

}  // namespace longshore
