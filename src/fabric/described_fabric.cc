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
    if (use == RegionDirectory::Use::kHeld) talk_.ask_for(directory_);
    return Post::kAccepted;
}

Post DescribedFabric::post(uint32_t at) {
    const Read& read = reads_[at];
    return inner_.read(directory_[read.place].handle, read.offset, read.to, read.bytes, kReadBit | at,
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
    talk_.ask_for(directory_);
    for (uint32_t place; directory_.next_import(&place);) imports_.push_back(place);
    for (; !imports_.empty(); imports_.pop_front()) {
        const RegionDirectory::Place& place = directory_[imports_.front()];
        if (inner_.import_region(place.region.owner, place.region.name, place.descriptor,
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
    const RegionTalk::Counts& talk = talk_.counts();
    sum.refused += talk.refused;
    sum.dropped += talk.stale + talk.unasked;
    return sum;
}

// Whether it goes no further.
bool DescribedFabric::take_event(FabricEvent& event) {
    switch (event.kind) {
        case FabricEvent::Kind::kMessage:
            return talk_.take(event, directory_);
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

size_t DescribedFabric::poll(std::span<FabricEvent> events, uint64_t wait_ns) {
    size_t count = 0;
    const auto collect = [&] {
        for (; count < events.size() && !done_.empty(); done_.pop_front()) events[count++] = done_.front();
    };
    advance();
    collect();
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
    collect();
    return count;
}

}  // namespace longshore
