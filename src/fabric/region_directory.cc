#include "fabric/region_directory.h"

#include <utility>

#include "base/check.h"
#include "base/prng.h"

namespace longshore {
namespace {

template <class Queue, class Item>
bool take_front(Queue& queue, Item* out) {
    if (queue.empty()) return false;
    *out = queue.front();
    queue.pop_front();
    return true;
}

}  // namespace

size_t RegionDirectory::Hash::operator()(const Region& region) const {
    const uint64_t owner = uint64_t{region.owner.node.value} << 16 | region.owner.service.value;
    const uint64_t rank = uint64_t{region.name.rank.value} << 32 | region.name.region.value;
    return mix64(mix64(owner << 32 | region.name.generation) ^ rank);
}

// A place for another region, perhaps that of the one which nobody has read for longest.
bool RegionDirectory::make_room(uint32_t* place) {
    if (free_.empty() && entries_.size() < entries_max_) {
        const auto made = static_cast<uint32_t>(entries_.size());
        Entry& entry = entries_.emplace_back();
        free_.push_back(made);
        entry.at = others_.insert(others_.end(), made);
    }
    if (free_.empty() && !unused_.empty()) {
        const uint32_t oldest = unused_.front();
        ++counts_.evicted;
        retire(oldest);
    }
    if (free_.empty()) return false;
    *place = free_.back();
    free_.pop_back();
    return true;
}

RegionDirectory::Use RegionDirectory::begin(const Region& region, uint32_t read, uint32_t* place) {
    const auto found = named_.find(region);
    if (found != named_.end()) {
        *place = found->second;
    } else {
        if (lost_.contains(region.owner)) return Use::kLost;
        if (!make_room(place)) return Use::kFull;
        Entry& entry = entries_[*place];
        entry.region = region;
        entry.named = true;
        entry.attempts = 0;
        entry.handle = 0;
        named_.emplace(region, *place);
        ask(*place);
    }
    Entry& entry = entries_[*place];
    ++entry.users;
    ++counts_.reads;
    set_unused(entry, false);
    if (entry.state == State::kReady) return Use::kReady;
    entry.held.push_back(read);
    return Use::kHeld;
}

void RegionDirectory::end(uint32_t place) {
    Entry& entry = entries_[place];
    LONGSHORE_CHECK(entry.users != 0);
    --counts_.reads;
    --entry.users;
    settle(place);
}

bool RegionDirectory::next_ask(Region* out) {
    return take_front(asks_, out);
}
bool RegionDirectory::next_import(uint32_t* place) {
    return take_front(imports_, place);
}
bool RegionDirectory::next_released(Released* out) {
    return take_front(released_, out);
}
bool RegionDirectory::next_forgotten(ImportHandle* out) {
    if (forgotten_.empty()) return false;
    *out = forgotten_.back();
    forgotten_.pop_back();
    return true;
}

void RegionDirectory::ask(uint32_t place) {
    Entry& entry = entries_[place];
    entry.state = State::kAsked;
    entry.ticks = 0;
    asks_.push_back(entry.region);
}

void RegionDirectory::release(Entry& entry, bool ok) {
    for (const uint32_t read : entry.held) released_.push_back({read, ok});
    entry.held.clear();
}

void RegionDirectory::set_unused(Entry& entry, bool unused) {
    if (std::exchange(entry.unused, unused) == unused) return;
    std::list<uint32_t>&from = unused ? others_ : unused_, &to = unused ? unused_ : others_;
    to.splice(to.end(), from, entry.at);
}

// Reads of the region ask anew from now on. Those that wait for it fail, those that are under way go on.
void RegionDirectory::retire(uint32_t place) {
    Entry& entry = entries_[place];
    if (std::exchange(entry.named, false)) named_.erase(entry.region);
    release(entry, false);
    if (entry.state == State::kAsked) entry.state = State::kFailed;
    settle(place);
}

// What is to become of an entry that nobody may be reading any more.
void RegionDirectory::settle(uint32_t place) {
    Entry& entry = entries_[place];
    if (entry.users != 0 || entry.state == State::kFree) return;
    if (entry.named) {
        // One that is asked for or being imported has reads that wait for it.
        LONGSHORE_CHECK(entry.state == State::kReady);
        set_unused(entry, true);
        return;
    }
    if (entry.state == State::kImporting) return;  // until that has ended
    if (entry.state == State::kReady) forgotten_.push_back(entry.handle);
    set_unused(entry, false);
    entry.state = State::kFree;
    free_.push_back(place);
}

bool RegionDirectory::on_described(const Region& region, std::span<const std::byte> descriptor) {
    const auto found = named_.find(region);
    if (found == named_.end() || entries_[found->second].state != State::kAsked) return false;
    const uint32_t place = found->second;
    if (descriptor.empty()) {
        retire(place);
        return true;
    }
    Entry& entry = entries_[place];
    entry.state = State::kImporting;
    entry.descriptor.assign(descriptor.begin(), descriptor.end());
    imports_.push_back(place);
    return true;
}

void RegionDirectory::on_imported(uint32_t place, ImportHandle handle) {
    Entry& entry = entries_[place];
    LONGSHORE_CHECK(entry.state == State::kImporting);
    if (handle == 0 && entry.named && ++entry.attempts < kImportAttempts) {
        imports_.push_back(place);
        return;
    }
    entry.descriptor.clear();
    entry.state = handle != 0 ? State::kReady : State::kFailed;
    entry.handle = handle;
    if (handle == 0) return retire(place);
    release(entry, true);
    settle(place);
}

void RegionDirectory::on_lost(ServiceAddress owner) {
    lost_.insert(owner);
    for (uint32_t place = 0; place < entries_.size(); ++place)
        if (entries_[place].named && entries_[place].region.owner == owner) retire(place);
}

void RegionDirectory::on_restarted(ServiceAddress owner) {
    for (uint32_t place = 0; place < entries_.size(); ++place) {
        Entry& entry = entries_[place];
        if (!entry.named || entry.region.owner != owner) continue;
        if (entry.state == State::kAsked) {
            ++counts_.asked_again;
            ask(place);
        } else if (entry.state == State::kReady) {
            retire(place);
        }
    }
}

void RegionDirectory::on_tick() {
    for (uint32_t place = 0; place < entries_.size(); ++place) {
        Entry& entry = entries_[place];
        if (entry.state != State::kAsked || ++entry.ticks < kAskAgainTicks) continue;
        ++counts_.asked_again;
        ask(place);
    }
}

}  // namespace longshore
