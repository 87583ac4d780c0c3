// A memory region's descriptor in the shared-memory fabric: a span of a process's address space, and enough
// to tell that process from a later one with the same pid. Made by the rank, read by whoever moves its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/node_memory.h"

namespace longshore {

// Part of a span whose pages are those of a memfd of its process, so that others can map them.
struct SharedPart {
    uint32_t file = 0;            // the process's descriptor
    uint64_t identity = 0;        // the file's inode number; 0: there is no such part
    uint64_t begin = 0, end = 0;  // in the span
    uint64_t file_offset = 0;     // of `begin`
};

struct ProcessSpan {
    uint32_t pid = 0;
    uint64_t start_time = 0;  // of the process, in clock ticks since boot
    uint64_t base = 0, bytes = 0;
    SharedPart shared = {};
};

// 0 if there is no such process (or it cannot be seen).
uint64_t process_start_time(uint32_t pid);
// Whether it has let go of all it had: what it was about to do by a device, too. (Its locks are gone
// earlier.)
bool process_is_over(uint32_t pid);

constexpr size_t kProcessSpanBytes = 72;
void encode_span(const ProcessSpan& span, std::byte* out);
// False: not one of ours, a span that wraps, or a shared part that is not within it.
bool decode_span(std::span<const std::byte> descriptor, ProcessSpan* out);

// The owner's side: makes a free entry (even generation) describe `span`, and takes it back.
void publish_region(RegionEntry& entry, const ProcessSpan& span);
void withdraw_region(RegionEntry& entry);

// Anybody's side. False: not in use, or changed while it was read. `generation`: in which use it is.
bool read_region(const RegionEntry& entry, ProcessSpan* out, uint32_t* generation = nullptr);

}  // namespace longshore
