#include "fabric/region_source.h"

namespace longshore {

MoveResult RegionSource::find(const RegionName& region, uint64_t offset, uint64_t bytes,
                              std::span<const std::byte>* piece, const char** why) {
    *piece = {};
    if (region.rank == kStaging) {
        const std::span<std::byte> staging = local_.staging();
        if (region.region.value != self_.value || region.generation != incarnation_ ||
            offset > staging.size() || bytes > staging.size() - offset) {
            *why = "a read outside staging memory";
            return MoveResult::kFailed;
        }
        *piece = staging.subspan(offset, bytes);
        return MoveResult::kMoved;
    }
    if (region.rank.value >= memory_.rank_count() || region.region.value >= memory_.limits().regions_max ||
        memory_.region(region.rank, region.region).generation.load(std::memory_order_acquire) !=
            region.generation)
        return MoveResult::kFailed;
    *piece = local_.copier().find_mapped({region.rank, region.region, offset}, bytes, false);
    return MoveResult::kMoved;
}

RegionUse RegionSource::use_of(const RegionName& region) const {
    if (region.rank == kStaging || region.region == kArenaRegion) return {};
    return {&memory_.region(region.rank, region.region), region.generation};
}

MoveResult RegionSource::fetch(const RegionName& region, uint64_t offset, std::span<std::byte> to) {
    return local_.copier().fetch({region.rank, region.region, offset}, to);
}

}  // namespace longshore
