#include "host/region_cache.h"

#include <algorithm>
#include <utility>

#include "base/prng.h"

namespace longshore {
namespace {
constexpr uint32_t kFirst = 2;
constexpr uint64_t kAdoptBytesMin = 64 * 1024;
}  // namespace

RegionCache::RegionCache(const NodeMemory& memory, LocalRank self, uint32_t pid, uint64_t start_time,
                         const ls_shared_memory& shared)
    : memory_(memory), self_(self), pid_(pid), start_time_(start_time), shared_(shared), entries_(kFirst) {
    // Region 0 is in use from the start; it gets its descriptor, for those who do not map this memory.
    RegionEntry& arena = memory_.region(self_, kArenaRegion);
    arena.descriptor_bytes = kProcessSpanBytes;
    encode_span(
        {pid, start_time, reinterpret_cast<uint64_t>(memory.arena(self)), memory.limits().arena_bytes},
        reinterpret_cast<std::byte*>(arena.descriptor));
    if (shared.identity != 0) publish_whole();
}

void RegionCache::publish_whole() {
    Entry& whole = entries_[whole_];
    whole.base = reinterpret_cast<uint64_t>(shared_.base);
    whole.bytes = shared_.bytes;
    whole.used = true;
    publish_region(memory_.region(self_, RegionId{whole_}),
                   {pid_,
                    start_time_,
                    whole.base,
                    whole.bytes,
                    {static_cast<uint32_t>(shared_.file), shared_.identity, 0, shared_.bytes, 0}});
}

bool RegionCache::holds(const Entry& e, uint64_t address, uint64_t bytes) const {
    return e.used && !e.withdrawn && !e.stale && address >= e.base && address - e.base <= e.bytes &&
           bytes <= e.bytes - (address - e.base);
}

bool RegionCache::acquire(const void* base, uint64_t bytes, uint64_t moves, AcquiredSpan* out) {
    const auto address = reinterpret_cast<uint64_t>(base);
    const auto arena = reinterpret_cast<uint64_t>(memory_.arena(self_));
    *out = {{self_, kArenaRegion, 0}, -1};
    if (bytes == 0) return true;
    if (address >= arena && address - arena < memory_.limits().arena_bytes) {
        out->ref.offset = address - arena;
        return true;
    }
    const Entry& whole = entries_[whole_];
    const bool is_within = holds(whole, address, bytes);
    const bool has_places = shared_.open_buffer != nullptr;
    // Before anything is looked up: from here on no fork makes a part of the span private.
    if (has_places && (is_within || shared_.adopt != nullptr))
        out->open_place = shared_.open_buffer(base, bytes, is_within ? 0 : 1);
    if (is_within && (!has_places || out->open_place >= 0)) {
        out->ref = {self_, RegionId{whole_}, address - whole.base};
        return true;
    }
    if (!adopted_.empty()) forget_adopted();
    if (acquire_region(address, bytes, moves, &out->ref)) return true;
    if (out->open_place >= 0) shared_.close_buffer(out->open_place);
    out->open_place = -1;
    return false;
}

bool RegionCache::acquire_region(uint64_t address, uint64_t bytes, uint64_t moves, MemoryRef* out) {
    uint32_t& guess = guess_[mix64(address) % kGuesses];
    uint32_t found = guess != 0 && holds(entries_[guess], address, bytes) ? guess : 0;
    uint32_t victim = 0;
    for (uint32_t i = kFirst; found == 0 && i < entries_.size(); ++i) {
        const Entry& e = entries_[i];
        if (e.withdrawn || i == whole_) continue;
        if (holds(e, address, bytes)) found = i;
        if (e.pins == 0 && (victim == 0 || e.last_use < entries_[victim].last_use)) victim = i;
    }
    if (found != 0) {
        Entry& e = entries_[found];
        if (e.moved >= shared_.adopt_after * e.bytes && moves != 0 && e.pins == 0 && !e.adopted &&
            bytes == e.bytes)
            adopt(found);
        e.moved += moves;
        ++e.pins;
        e.last_use = ++clock_;
        guess = found;
        *out = {self_, RegionId{found}, address - e.base};
        return true;
    }
    const auto end = static_cast<uint32_t>(entries_.size());
    if (end < kUnpinnedMax || (victim == 0 && end < memory_.limits().regions_max)) {
        victim = end;
        entries_.emplace_back();
    }
    if (victim == 0) return false;
    guess = victim;
    renew(victim, pid_, address, bytes);
    if (moves != 0 && shared_.adopt_after == 0) adopt(victim);
    entries_[victim].moved = moves;
    *out = {self_, RegionId{victim}, 0};
    return true;
}

bool RegionCache::acquire_nothing(uint64_t bytes, MemoryRef* out) {
    const auto region = static_cast<uint32_t>(entries_.size());
    if (region >= memory_.limits().regions_max) return false;
    entries_.emplace_back();
    renew(region, 0, 0, bytes);
    entries_[region].bytes = 0;  // found by no address
    *out = {self_, RegionId{region}, 0};
    return true;
}

void RegionCache::renew(uint32_t region, uint32_t pid, uint64_t address, uint64_t bytes) {
    RegionEntry& shared = memory_.region(self_, RegionId{region});
    if (entries_[region].used) withdraw_region(shared);
    publish_region(shared, {pid, start_time_, address, bytes, shared_part(address, bytes)});
    Entry& e = entries_[region];
    e = {};
    e.base = address;
    e.bytes = bytes;
    e.last_use = ++clock_;
    e.pins = 1;
    e.used = true;
    e.parted = shared_part(address, bytes).identity != 0;
}

// What of the span was adopted as part of another.
SharedPart RegionCache::shared_part(uint64_t address, uint64_t bytes) const {
    for (const Adopted& a : adopted_) {
        const uint64_t begin = std::max(a.begin, address), end = std::min(a.end, address + bytes);
        if (begin < end)
            return {static_cast<uint32_t>(shared_.file), shared_.identity, begin - address, end - address,
                    a.file_offset + (begin - a.begin)};
    }
    return {};
}

// Where a fork has made adopted memory private again, regions of it are made anew when they are needed.
void RegionCache::forget_adopted() {
    const uint32_t forks = shared_.adopted_forks != nullptr ? shared_.adopted_forks() : 0;
    if (std::exchange(forks_, forks) == forks) return;
    adopted_.clear();
    for (uint32_t i = kFirst; i < entries_.size(); ++i) {
        Entry& e = entries_[i];
        if (!e.parted || e.withdrawn) continue;
        e.stale = true;
        if (e.pins == 0) drop_stale(i);
    }
}

void RegionCache::drop_stale(uint32_t region) {
    withdraw_region(memory_.region(self_, RegionId{region}));
    entries_[region] = {};
}

// Nobody has the region in use: its memory is made shared where it is, and it is published anew.
void RegionCache::adopt(uint32_t region) {
    Entry& e = entries_[region];
    e.adopted = true;
    uint64_t begin = 0, end = 0, offset = 0;
    if (shared_.adopt == nullptr || e.bytes < kAdoptBytesMin || shared_part(e.base, e.bytes).identity != 0 ||
        shared_.adopt(reinterpret_cast<const void*>(e.base), e.bytes, &begin, &end, &offset) == 0)
        return;
    if (adopted_.empty() && shared_.adopted_forks != nullptr) forks_ = shared_.adopted_forks();
    adopted_.push_back({e.base + begin, e.base + end, offset});
    e.parted = true;
    RegionEntry& shared = memory_.region(self_, RegionId{region});
    withdraw_region(shared);
    publish_region(shared, {pid_, start_time_, e.base, e.bytes, shared_part(e.base, e.bytes)});
}

void RegionCache::release(const AcquiredSpan& span) {
    if (span.open_place >= 0) shared_.close_buffer(span.open_place);
    const uint32_t region = span.ref.region.value;
    if (region < kFirst || region == whole_ || entries_[region].pins == 0) return;
    if (--entries_[region].pins == 0 && entries_[region].stale && !entries_[region].withdrawn)
        drop_stale(region);
}

void RegionCache::withdraw(RegionId region) {
    if (region == kArenaRegion || entries_[region.value].withdrawn) return;
    withdraw_region(memory_.region(self_, region));
    entries_[region.value].withdrawn = true;
    const auto next = static_cast<uint32_t>(entries_.size());
    if (region.value != whole_ || next >= memory_.limits().regions_max) return;
    whole_ = next;
    entries_.emplace_back();
    publish_whole();
}

void RegionCache::forget(const void* base, uint64_t bytes) {
    const auto address = reinterpret_cast<uint64_t>(base);
    for (uint32_t i = kFirst; i < entries_.size(); ++i) {
        Entry& e = entries_[i];
        if (!e.used || e.withdrawn || i == whole_ || e.pins != 0 || e.base >= address + bytes ||
            address >= e.base + e.bytes)
            continue;
        withdraw_region(memory_.region(self_, RegionId{i}));
        e = {};
    }
}

}  // namespace longshore
