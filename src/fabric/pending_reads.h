// Reads of other nodes' memory that are under way, in a network that asks for bytes: each has a number, by
// which its peer names what it sends. A read that is asked for again has another one, so that what comes late
// of the former question is known.
#pragma once

#include <utility>
#include <vector>

#include "fabric/region_source.h"

namespace longshore {

struct PendingRead {
    bool used = false;
    uint32_t serial = 0;  // tells one question from another
    uint64_t id = 0;      // as posted
    ServiceAddress owner;
    RegionName region;
    uint64_t offset = 0, bytes = 0, received = 0;
    MemoryRef to;
    MoveResult result = MoveResult::kMoved;
    uint64_t part_offset = 0;         // where in its block, if that was sent ahead
    bool open = false, held = false;  // pieces of it count when their sender has said that they held; it has
};

class PendingReads {
  public:
    static constexpr size_t kMax = 1u << 16;
    static constexpr uint64_t kBytesMax = 1u << 31;  // of one

    bool full() const { return free_.empty() && reads_.size() >= kMax; }
    // Unless full(). Returns its place.
    uint32_t add(ServiceAddress owner, const RegionName& region, uint64_t offset, const MemoryRef& to,
                 uint64_t bytes, uint64_t id) {
        if (free_.empty()) {
            free_.push_back(static_cast<uint32_t>(reads_.size()));
            reads_.emplace_back();
        }
        const uint32_t at = free_.back();
        free_.pop_back();
        const uint32_t serial = reads_[at].serial;
        reads_[at] = {true, serial, id, owner, region, offset, bytes, 0, to, MoveResult::kMoved, 0};
        return at;
    }
    PendingRead& operator[](uint32_t at) { return reads_[at]; }
    // Nothing of it has come: its number from now on.
    uint64_t begin_anew(uint32_t at) {
        PendingRead& read = reads_[at];
        read.received = 0;
        read.result = MoveResult::kMoved;
        read.open = read.held = false;
        return uint64_t{++read.serial} << 32 | at;
    }
    // Null: not what `owner` is asked for now.
    PendingRead* find(ServiceAddress owner, uint64_t number) {
        const auto at = static_cast<uint32_t>(number);
        if (at >= reads_.size()) return nullptr;
        PendingRead& read = reads_[at];
        return read.used && read.owner == owner && read.serial == number >> 32 ? &read : nullptr;
    }
    void remove(PendingRead& read) {
        read.used = false;
        free_.push_back(static_cast<uint32_t>(&read - reads_.data()));
    }
    // Calls `what(place)` for each read of `owner`; it may remove that one.
    template <typename What>
    void for_each_of(ServiceAddress owner, What what) {
        for (uint32_t at = 0; at < reads_.size(); ++at)
            if (reads_[at].used && reads_[at].owner == owner) what(at);
    }

  private:
    std::vector<PendingRead> reads_;
    std::vector<uint32_t> free_;
};

}  // namespace longshore
