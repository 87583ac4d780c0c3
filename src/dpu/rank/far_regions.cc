#include "dpu/rank/far_regions.h"

#include <algorithm>
#include <utility>

#include "dpu/transport/host_region.h"

namespace longshore {
namespace {

// What is opened at once: few regions, and not much memory that nobody asked for.
constexpr uint64_t kRegionUnit = kHeapUnitBytes;
constexpr size_t kRegionsKept = 64;  // more only while all of them are in use

}  // namespace

bool FarRegions::is_shared(const void* base, uint64_t bytes, int* place) const {
    const ls_shared_memory& shared = c_.options.shared;
    const auto begin = reinterpret_cast<uint64_t>(shared.base);
    const auto address = reinterpret_cast<uint64_t>(base);
    *place = -1;
    if (address < begin || address - begin > shared.bytes || bytes > shared.bytes - (address - begin))
        return false;
    if (shared.open_buffer == nullptr) return true;
    *place = shared.open_buffer(base, bytes, 0);
    return *place >= 0;
}

void FarRegions::leave(int place) const {
    if (place >= 0) c_.options.shared.close_buffer(place);
}

bool FarRegions::has_room(uint32_t count) const {
    uint32_t free = kFarRegionsMax - static_cast<uint32_t>(regions_.size());
    for (uint32_t i = 1; i < regions_.size() && free < count; ++i) free += regions_[i].pins == 0;
    return free >= count;
}

// A place for one more; 0: there is none.
uint32_t FarRegions::make_room() {
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < regions_.size(); ++i) {
        if (regions_[i].pins == 0 && (oldest == 0 || regions_[i].last_use < regions_[oldest].last_use))
            oldest = i;
    }
    if (regions_.size() <= kRegionsKept || (oldest == 0 && regions_.size() < kFarRegionsMax)) {
        regions_.emplace_back();
        return static_cast<uint32_t>(regions_.size() - 1);
    }
    // One that could not be opened, or was closed before, is nothing to the agent.
    if (oldest != 0 && regions_[oldest].used) agent_.close(regions_[oldest].opened);
    return oldest;
}

bool FarRegions::pin(const void* base, uint64_t bytes, uint32_t* region, uint64_t* offset) {
    const auto address = reinterpret_cast<uint64_t>(base);
    const auto heap = reinterpret_cast<uint64_t>(c_.options.shared.base);
    for (uint32_t i = 1; i < regions_.size(); ++i) {
        Region& known = regions_[i];
        if (!known.used || address < known.begin || address + bytes > known.end) continue;
        ++known.pins;
        known.last_use = ++clock_;
        *region = i;
        *offset = address - known.begin;
        return true;
    }
    const uint32_t place = make_room();
    if (place == 0) return false;
    const uint64_t begin = (address - heap) / kRegionUnit * kRegionUnit;
    const uint64_t end = std::min<uint64_t>(
        c_.options.shared.bytes, (address - heap + bytes + kRegionUnit - 1) / kRegionUnit * kRegionUnit);
    OpenedMemory opened;
    std::string error;
    regions_[place] = {};
    if (!agent_.open(begin, end - begin, c_.aliases, &opened, &error)) {
        log_line(c_, 0, ("a buffer cannot be opened to the network: " + error).c_str());
        return false;
    }
    regions_[place] = {heap + begin, heap + end, ++clock_, opened.id, 1, true};
    connection_.stream().send(SessionKind::kOpened, SessionOpened{place, opened.address, opened.bytes,
                                                                  static_cast<uint32_t>(begin / kRegionUnit),
                                                                  opened.key, opened.exported});
    *region = place;
    *offset = address - heap - begin;
    return true;
}

void FarRegions::close_unused() {
    for (Region& region : regions_)
        if (region.used && region.pins == 0 && std::exchange(region.used, false)) agent_.close(region.opened);
}

void FarRegions::unpin(uint32_t region) {
    --regions_[region].pins;
}

}  // namespace longshore
