#include "fabric/region_talk.h"

#include <string.h>

#include <algorithm>

namespace longshore {

void RegionTalk::ask(const Region& region) {
    auto& line = lines_[region.owner];
    const Due due{RegionNoticeKind::kAsk, region.name};
    if (std::find(line.begin(), line.end(), due) == line.end()) line.push_back(due);
}

void RegionTalk::answer(ServiceAddress to, const RegionName& name) {
    auto& line = lines_[to];
    if (line.size() < kAnswersMax) line.push_back({RegionNoticeKind::kDescribe, name});
}

// As many as one frame takes, from the first on.
std::span<const std::byte> RegionTalk::fill(const std::deque<Due>& due, std::span<std::byte> buffer,
                                            size_t* count) const {
    RegionFrameWriter writer(buffer, self_, incarnation_);
    for (*count = 0; *count < due.size(); ++*count) {
        std::byte copy[kDescriptorBytesMax];
        RegionNotice notice{due[*count].kind, due[*count].name, {}};
        if (notice.kind == RegionNoticeKind::kDescribe) notice.descriptor = describe(notice.name, copy);
        if (!writer.add(notice)) break;
    }
    return writer.finish();
}

// Empty: there is no such region (any more), or not in that use.
std::span<const std::byte> RegionTalk::describe(const RegionName& name,
                                                std::span<std::byte, kDescriptorBytesMax> copy) const {
    if (name.rank == kStaging) {
        const bool current = name.region.value == self_.service.value && name.generation == incarnation_;
        return current ? staging_ : std::span<const std::byte>{};
    }
    if (name.rank.value >= memory_.rank_count() || name.region.value >= memory_.limits().regions_max) return {};
    const RegionEntry& entry = memory_.region(name.rank, name.region);
    if (entry.generation.load(std::memory_order_acquire) != name.generation) return {};
    const size_t bytes = entry.descriptor_bytes;
    if (bytes > copy.size()) return {};
    memcpy(copy.data(), entry.descriptor, bytes);
    // It may have been taken back while it was copied.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (entry.generation.load(std::memory_order_relaxed) != name.generation) return {};
    return copy.first(bytes);
}

}  // namespace longshore
