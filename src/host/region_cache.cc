#include "host/region_cache.h"

#include "base/prng.h"

namespace longshore {
namespace {
constexpr RegionId kSharedRegion{1};
constexpr uint32_t kFirst = 2;
}  // namespace

RegionCache::RegionCache(const NodeMemory& memory, LocalRank self, uint32_t pid, uint64_t start_time,
                         const ProcessSpan& whole)
    : memory_(memory), self_(self), pid_(pid), start_time_(start_time), entries_(kFirst) {
    // Region 0 is in use from the start; it gets its descriptor, for those who do not map this memory.
    RegionEntry& arena = memory_.region(self_, kArenaRegion);
    arena.descriptor_bytes = kProcessSpanBytes;
    encode_span(
        {pid, start_time, reinterpret_cast<uint64_t>(memory.arena(self)), memory.limits().arena_bytes},
        reinterpret_cast<std::byte*>(arena.descriptor));
    if (whole.bytes == 0) return;
    entries_[kSharedRegion.value] = {whole.base, whole.bytes, 0, 1, true};
    publish_region(memory.region(self, kSharedRegion), whole);
}

bool RegionCache::holds(const Entry& e, uint64_t address, uint64_t bytes) const {
    return e.used && address >= e.base && address - e.base <= e.bytes &&
           bytes <= e.bytes - (address - e.base);
}

bool RegionCache::acquire(const void* base, uint64_t bytes, MemoryRef* out) {
    const auto address = reinterpret_cast<uint64_t>(base);
    const auto arena = reinterpret_cast<uint64_t>(memory_.arena(self_));
    *out = {self_, kArenaRegion, 0};
    if (bytes == 0) return true;
    if (address >= arena && address - arena < memory_.limits().arena_bytes) {
        out->offset = address - arena;
        return true;
    }
    const Entry& whole = entries_[kSharedRegion.value];
    if (holds(whole, address, bytes)) {
        *out = {self_, kSharedRegion, address - whole.base};
        return true;
    }
    uint32_t& guess = guess_[mix64(address) % kGuesses];
    uint32_t found = guess != 0 && holds(entries_[guess], address, bytes) ? guess : 0;
    uint32_t victim = 0;
    for (uint32_t i = kFirst; found == 0 && i < entries_.size(); ++i) {
        const Entry& e = entries_[i];
        if (holds(e, address, bytes)) found = i;
        if (e.pins == 0 && (victim == 0 || e.last_use < entries_[victim].last_use)) victim = i;
    }
    if (found != 0) {
        Entry& e = entries_[found];
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
    publish_region(shared, {pid, start_time_, address, bytes});
    entries_[region] = {address, bytes, ++clock_, 1, true};
}

void RegionCache::release(RegionId region) {
    if (region.value >= kFirst && entries_[region.value].pins > 0) --entries_[region.value].pins;
}

void RegionCache::forget(const void* base, uint64_t bytes) {
    const auto address = reinterpret_cast<uint64_t>(base);
    for (uint32_t i = kFirst; i < entries_.size(); ++i) {
        Entry& e = entries_[i];
        if (!e.used || e.pins != 0 || e.base >= address + bytes || address >= e.base + e.bytes) continue;
        withdraw_region(memory_.region(self_, RegionId{i}));
        e = {};
    }
}

}  // namespace longshore
