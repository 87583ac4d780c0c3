#include "fabric/shm/region.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <string_view>

#include "fabric/shm/system.h"

namespace longshore {
namespace {
constexpr uint32_t kSpanMagic = 0x4c535032;  // "2PSL"
}

namespace {
// From field 3 on (proc(5)), counted after the name in brackets, which may hold anything. Empty: there is no
// such process.
std::string_view fields_of(uint32_t pid, std::span<char> text) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    const Fd fd(open(path, O_RDONLY | O_CLOEXEC));
    if (!fd) return {};
    const ssize_t got = read(fd.get(), text.data(), text.size() - 1);
    if (got <= 0) return {};
    text[static_cast<size_t>(got)] = 0;
    const char* const end = strrchr(text.data(), ')');
    return end != nullptr && end[1] == ' ' ? std::string_view(end + 2) : std::string_view();
}
}  // namespace

uint64_t process_start_time(uint32_t pid) {
    char text[1024];
    std::string_view rest = fields_of(pid, text);
    for (int field = 3; field < 22; ++field) {
        const size_t space = rest.find(' ');
        if (space == std::string_view::npos) return 0;
        rest.remove_prefix(space + 1);
    }
    return strtoull(rest.data(), nullptr, 10);
}

bool process_is_over(uint32_t pid) {
    char text[1024];
    const std::string_view rest = fields_of(pid, text);
    return rest.empty() || rest[0] == 'Z' || rest[0] == 'X';
}

void encode_span(const ProcessSpan& span, std::byte* out) {
    const SharedPart& shared = span.shared;
    const uint32_t words[4] = {kSpanMagic, span.pid, shared.file, 0};
    const uint64_t longs[7] = {span.start_time, span.base,  span.bytes,        shared.identity,
                               shared.begin,    shared.end, shared.file_offset};
    static_assert(sizeof words + sizeof longs == kProcessSpanBytes);
    memcpy(out, words, sizeof words);
    memcpy(out + sizeof words, longs, sizeof longs);
}

bool decode_span(std::span<const std::byte> descriptor, ProcessSpan* out) {
    uint32_t words[4];
    uint64_t longs[7];
    if (descriptor.size() != kProcessSpanBytes) return false;
    memcpy(words, descriptor.data(), sizeof words);
    memcpy(longs, descriptor.data() + sizeof words, sizeof longs);
    *out = {words[1], longs[0], longs[1], longs[2], {words[2], longs[3], longs[4], longs[5], longs[6]}};
    const SharedPart& shared = out->shared;
    return words[0] == kSpanMagic && out->pid != 0 && static_cast<int32_t>(out->pid) > 0 &&
           out->base + out->bytes >= out->base && static_cast<int32_t>(shared.file) >= 0 &&
           shared.begin <= shared.end && shared.end <= out->bytes &&
           shared.file_offset + (shared.end - shared.begin) >= shared.file_offset;
}

void publish_region(RegionEntry& entry, const ProcessSpan& span) {
    const uint32_t generation = entry.generation.load(std::memory_order_relaxed);
    entry.bytes = span.bytes;
    entry.descriptor_bytes = kProcessSpanBytes;
    encode_span(span, reinterpret_cast<std::byte*>(entry.descriptor));
    entry.generation.store(generation + 1, std::memory_order_release);
}

void withdraw_region(RegionEntry& entry) {
    entry.generation.fetch_add(1, std::memory_order_release);
    // What the next owner writes must not be seen with the old generation.
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool read_region(const RegionEntry& entry, ProcessSpan* out, uint32_t* read_generation) {
    const uint32_t generation = entry.generation.load(std::memory_order_acquire);
    if (generation % 2 == 0 || entry.descriptor_bytes != kProcessSpanBytes) return false;
    if (read_generation != nullptr) *read_generation = generation;
    std::byte descriptor[kProcessSpanBytes];
    memcpy(descriptor, entry.descriptor, sizeof descriptor);
    const uint64_t bytes = entry.bytes;
    std::atomic_thread_fence(std::memory_order_acquire);
    return entry.generation.load(std::memory_order_relaxed) == generation && decode_span(descriptor, out) &&
           out->bytes == bytes;
}

}  // namespace longshore
