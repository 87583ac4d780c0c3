#include "fabric/region_talk.h"

#include <string.h>

#include <algorithm>

namespace longshore {

void RegionTalk::ask_for(RegionDirectory& directory) {
    for (Region region; directory.next_ask(&region);) {
        auto& line = lines_[region.owner];
        const Due due{RegionNoticeKind::kAsk, region.name};
        if (std::find(line.begin(), line.end(), due) == line.end()) line.push_back(due);
    }
}

bool RegionTalk::take(const FabricEvent& message, RegionDirectory& directory) {
    FrameHeader header;
    std::span<const std::byte> rest;
    const WireServiceRow* const row = read_header(message.message, &header, &rest);
    if (row == nullptr) return false;
    const bool is_own = row->id == WireService::kRegions;
    if (header.sender != message.peer) {
        counts_.refused += is_own;
        return is_own;
    }
    uint32_t& newest = incarnations_[message.peer];
    if (header.incarnation > newest) {
        newest = header.incarnation;
        directory.on_restarted(message.peer);
    }
    if (!is_own) return false;
    if (header.incarnation < newest) {
        ++counts_.stale;
    } else {
        take_notices(message.peer, message.message, directory);
    }
    return true;
}

void RegionTalk::take_notices(ServiceAddress from, std::span<const std::byte> frame,
                              RegionDirectory& directory) {
    RegionFrameReader reader;
    FrameHeader header;
    RegionFrameReader::Result result = RegionFrameReader::Result::kMalformed;
    RegionNotice notice;
    // Of memory of its own node nobody asks.
    if (from.node != self_.node && reader.start(frame, &header)) {
        while ((result = reader.next(&notice)) == RegionFrameReader::Result::kNotice) {
            if (notice.kind == RegionNoticeKind::kDescribe) {
                counts_.unasked += !directory.on_described({from, notice.name}, notice.descriptor);
                continue;
            }
            auto& line = lines_[from];
            if (line.size() < kAnswersMax) line.push_back({RegionNoticeKind::kDescribe, notice.name});
        }
    }
    counts_.refused += result == RegionFrameReader::Result::kMalformed;
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
    if (name.rank.value >= memory_.rank_count() || name.region.value >= memory_.limits().regions_max)
        return {};
    const RegionEntry& entry = memory_.region(name.rank, name.region);
    // Of a region that its rank had withdrawn before it was told of, the name says an even number.
    if (name.generation % 2 == 0 || entry.generation.load(std::memory_order_acquire) != name.generation)
        return {};
    const size_t bytes = entry.descriptor_bytes;
    if (bytes > copy.size()) return {};
    memcpy(copy.data(), entry.descriptor, bytes);
    // It may have been taken back while it was copied.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (entry.generation.load(std::memory_order_relaxed) != name.generation) return {};
    return copy.first(bytes);
}

}  // namespace longshore
