#include "tasks/kept.h"

#include <algorithm>

#include "longshore_task.h"

namespace longshore::tasks {

const KeptRanges::Range* KeptRanges::find(uint64_t address, uint64_t bytes) const {
    const auto at = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& range) {
        return address >= range.address && address - range.address <= range.bytes &&
               bytes <= range.bytes - (address - range.address);
    });
    return at == ranges_.end() ? nullptr : &*at;
}

const KeptRanges::Range* KeptRanges::add(uint64_t address, uint64_t bytes, const char** why) {
    for (const Range& range : ranges_) {
        if (range.address == address && range.bytes == bytes) return &range;
        if (address < range.address + range.bytes && range.address < address + bytes) {
            *why = "it overlaps a buffer that is kept; forget that one first";
            return nullptr;
        }
    }
    if (ranges_.size() >= LONGSHORE_KEPT_MAX) {
        *why = "LONGSHORE_KEPT_MAX buffers of this pool are kept; forget one first";
        return nullptr;
    }
    ranges_.push_back({address, bytes, ++numbers_});
    return &ranges_.back();
}

bool KeptRanges::remove(uint64_t address, Range* out) {
    const auto at = std::find_if(ranges_.begin(), ranges_.end(),
                                 [&](const Range& range) { return range.address == address; });
    if (at == ranges_.end()) return false;
    *out = *at;
    ranges_.erase(at);
    return true;
}

// A number that is not its pool's is a rank's that has gone wild: it gets no more copies than others.
std::byte* KeptCopies::make(uint64_t number, uint64_t bytes) {
    copies_.erase(number);
    if (copies_.size() >= LONGSHORE_KEPT_MAX || bytes > kSharedFileBytesMax) return nullptr;
    Mapping memory = Mapping::accounted(bytes, false);
    if (!memory) return nullptr;
    return (copies_[number] = Copy{std::move(memory), bytes}).memory.data();
}

std::byte* KeptCopies::find(uint64_t number, uint64_t offset, uint64_t bytes) {
    const auto at = copies_.find(number);
    if (at == copies_.end() || offset > at->second.bytes || bytes > at->second.bytes - offset) return nullptr;
    return at->second.memory.data() + offset;
}

}  // namespace longshore::tasks
