#include "fabric/described_fabric.h"

#include <algorithm>
#include <utility>

namespace longshore {
namespace {

constexpr uint64_t kNoRoomWaitNs =
    1'000'000;  // the longest sleep while the inner fabric has no room for something

}  // namespace

// --- Reads.

Post DescribedFabric::read(ServiceAddress owner, const RegionName& region, uint64_t offset,
                           const MemoryRef& to, uint64_t bytes, uint64_t id, const AlongPart* part) {
    if (free_reads_.empty()) {
        free_reads_.push_back(static_cast<uint32_t>(reads_.size()));
        reads_.emplace_back();
    }
    const uint32_t at = free_reads_.back();
    uint32_t place = 0;
    const RegionDirectory::Use use = directory_.begin({owner, region}, at, &place);
    if (use == RegionDirectory::Use::kFull) return Post::kAgain;
    if (use == RegionDirectory::Use::kLost) {
        done_.push_back(FabricEvent::moved(id, MoveResult::kFailed));
        return Post::kAccepted;
    }
    free_reads_.pop_back();
    reads_[at] = {place, offset, bytes, id, to, part != nullptr, part != nullptr ? *part : AlongPart{}};
    if (use == RegionDirectory::Use::kReady && post(at) == Post::kAgain) {
        give(at);
        return Post::kAgain;
    }
    if (use == RegionDirectory::Use::kHeld)
        for (Region asked; directory_.next_ask(&asked);) talk_.ask(asked);
    return Post::kAccepted;
}

Post DescribedFabric::post(uint32_t at) {
    const Read& read = reads_[at];
    return inner_.read(directory_.handle(read.place), read.offset, read.to, read.bytes, kReadBit | at,
                       read.has_part ? &read.part : nullptr);
}

void DescribedFabric::give(uint32_t at) {
    directory_.end(reads_[at].place);
    free_reads_.push_back(at);
}

void DescribedFabric::end(uint32_t at, MoveResult result) {
    done_.push_back(FabricEvent::moved(reads_[at].id, result));
    give(at);
}

// --- Between the directory and the inner fabric.

void DescribedFabric::advance() {
    for (Region asked; directory_.next_ask(&asked);) talk_.ask(asked);
    for (uint32_t place; directory_.next_import(&place);) imports_.push_back(place);
    for (; !imports_.empty(); imports_.pop_front()) {
        const Region& region = directory_.region(imports_.front());
        if (inner_.import_region(region.owner, region.name, directory_.descriptor(imports_.front()),
                                 kReadBit | imports_.front()) == Post::kAgain)
            break;
    }
    for (RegionDirectory::Released released; directory_.next_released(&released);) {
        if (released.ok) {
            ready_.push_back(released.read);
        } else {
            end(released.read, MoveResult::kFailed);
        }
    }
    while (!ready_.empty() && post(ready_.front()) == Post::kAccepted) ready_.pop_front();
    for (ImportHandle handle; directory_.next_forgotten(&handle);) inner_.forget_region(handle);
    talk_.flush_all(
        [this](ServiceAddress to, std::span<const std::byte> frame) { return inner_.send(to, frame); });
}

void DescribedFabric::on_tick() {
    inner_.on_tick();
    directory_.on_tick();
    advance();
}

// --- Messages and events.

// What there is to be said of regions goes out with it.
Post DescribedFabric::send(ServiceAddress to, std::span<const std::byte> message) {
    if (!talk_.empty())
        talk_.flush(to, [this](ServiceAddress peer, std::span<const std::byte> frame) {
            return inner_.send(peer, frame);
        });
    return inner_.send(to, message);
}

FabricCounters DescribedFabric::counters() const {
    FabricCounters sum = inner_.counters();
    sum.refused += refused_;
    sum.dropped += dropped_ + stale_;
    return sum;
}

void DescribedFabric::take_notices(ServiceAddress from, std::span<const std::byte> frame) {
    RegionFrameReader reader;
    FrameHeader header;
    RegionFrameReader::Result result = RegionFrameReader::Result::kMalformed;
    RegionNotice notice;
    // Of memory of its own node nobody asks.
    if (from.node != self_.node && reader.start(frame, &header)) {
        while ((result = reader.next(&notice)) == RegionFrameReader::Result::kNotice) {
            if (notice.kind == RegionNoticeKind::kAsk) {
                talk_.answer(from, notice.name);
            } else if (!directory_.on_described({from, notice.name}, notice.descriptor)) {
                ++dropped_;  // it was asked for twice
            }
        }
    }
    refused_ += result == RegionFrameReader::Result::kMalformed;
}

// Whether it was for nobody else. What is no frame, or of no service that is known, is left to whoever polls,
// who counts it.
bool DescribedFabric::take_frame(const FabricEvent& event) {
    FrameHeader header;
    std::span<const std::byte> rest;
    const WireServiceRow* const row = read_header(event.message, &header, &rest);
    if (row == nullptr) return false;
    const bool is_own = row->id == WireService::kRegions;
    if (header.sender != event.peer) {
        refused_ += is_own;
        return is_own;
    }
    uint32_t& newest = incarnations_[event.peer];
    if (header.incarnation > newest) {
        newest = header.incarnation;
        directory_.on_restarted(event.peer);
    }
    if (!is_own) return false;
    if (header.incarnation < newest) {
        ++stale_;
    } else {
        take_notices(event.peer, event.message);
    }
    return true;
}

// Whether it goes no further.
bool DescribedFabric::take_event(FabricEvent& event) {
    switch (event.kind) {
        case FabricEvent::Kind::kMessage:
            return take_frame(event);
        case FabricEvent::Kind::kImported:
            directory_.on_imported(static_cast<uint32_t>(event.id & ~kReadBit), event.region);
            return true;
        case FabricEvent::Kind::kMoved:
            if ((event.id & kReadBit) != 0) {
                const auto at = static_cast<uint32_t>(event.id & ~kReadBit);
                event.id = reads_[at].id;
                give(at);
            }
            return false;
        case FabricEvent::Kind::kPeerLost:
            directory_.on_lost(event.peer);
            talk_.drop(event.peer);
            return false;
    }
    return false;
}

size_t DescribedFabric::collect(std::span<FabricEvent> events) {
    size_t count = 0;
    for (; count < events.size() && !done_.empty(); done_.pop_front()) events[count++] = done_.front();
    return count;
}

size_t DescribedFabric::poll(std::span<FabricEvent> events, uint64_t wait_ns) {
    advance();
    size_t count = collect(events);
    if (count == events.size()) return count;
    if (count != 0) {
        wait_ns = 0;
    } else if (busy()) {
        wait_ns = std::min(wait_ns, kNoRoomWaitNs);
    }
    const size_t end = count + inner_.poll(events.subspan(count), wait_ns);
    for (size_t i = count; i < end; ++i)
        if (!take_event(events[i])) events[count++] = events[i];
    advance();
    return count + collect(events.subspan(count));
}

}  // namespace longshore
