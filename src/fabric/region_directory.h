// Which regions of other nodes' memory this service process has descriptors of, for a fabric that reads by
// descriptors. Pure: no clock, no frames, no fabric. Keeps: the regions that are asked for, being imported,
// or imported, at most regions_max of them, and which reads wait for which. Promises: each read that waits is
// released once. Asks: whoever uses it sends the requests, has descriptors imported, and tells it what came
// of both. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/service_engine.h"

namespace longshore {

// An importing fabric's name for a region. 0: none.
using ImportHandle = uint64_t;

// Of a rank or (name.rank is kStaging) of a service process; `owner` is asked for its descriptor: any service
// process of its node.
struct Region {
    ServiceAddress owner;
    RegionName name;
    bool operator==(const Region&) const = default;
};

class RegionDirectory {
  public:
    static constexpr uint32_t kImportAttempts = 3;  // of one descriptor, before what waits for it fails
    static constexpr uint32_t kAskAgainTicks = 2;   // without an answer: at least one whole tick

    explicit RegionDirectory(uint32_t regions_max) : entries_max_(regions_max) {}

    enum class Use : uint8_t { kReady, kHeld, kFull, kLost };
    // A read begins; `read` is the caller's number for it. kReady: it can be posted by the handle of *place.
    // kHeld: it waits until next_released() names it. In both cases end(*place) is called once, when it has
    // ended. kFull: there is no room now, and will be when some read has ended. kLost: its owner is gone for
    // good.
    Use begin(const Region& region, uint32_t read, uint32_t* place);
    void end(uint32_t place);
    struct Place {
        Region region;
        ImportHandle handle = 0;            // of one that is imported
        std::vector<std::byte> descriptor;  // of one that is being imported
    };
    const Place& operator[](uint32_t place) const { return entries_[place]; }

    // What there is to do; false: nothing more.
    bool next_ask(Region* out);         // its owner is to be asked for its descriptor
    bool next_import(uint32_t* place);  // its descriptor is to be imported; then on_imported()
    struct Released {
        uint32_t read = 0;
        bool ok = false;  // it can be posted by the handle of its place now; else it has failed
    };
    bool next_released(Released* out);
    bool next_forgotten(ImportHandle* out);

    // Its owner has said how it is to be found; empty: it is gone. False: nobody had asked.
    bool on_described(const Region& region, std::span<const std::byte> descriptor);
    void on_imported(uint32_t place, ImportHandle handle);  // 0: it could not be
    // Nothing more comes of that service process, or what it was asked before (it has started anew).
    void on_lost(ServiceAddress owner);
    void on_restarted(ServiceAddress owner);
    void on_tick();

    struct Counts {
        uint64_t reads = 0;  // that have begun and not ended
        uint64_t evicted = 0, asked_again = 0;
    };
    const Counts& counts() const { return counts_; }

  private:
    enum class State : uint8_t { kFree, kAsked, kImporting, kReady, kFailed };
    struct Entry : Place {
        State state = State::kFree;
        // Reads of that region find it. Else it is kept only until its reads and its import have ended.
        bool named = false;
        bool unused = false;
        uint8_t ticks = 0, attempts = 0;
        uint32_t users = 0;
        std::vector<uint32_t> held;
        std::list<uint32_t>::iterator at;  // in unused_ or others_
    };
    struct Hash {
        size_t operator()(const Region& region) const;
    };
    bool make_room(uint32_t* place);
    void ask(uint32_t place);
    void release(Entry& entry, bool ok);
    void retire(uint32_t place);
    void set_unused(Entry& entry, bool unused);
    void settle(uint32_t place);

    const uint32_t entries_max_;
    std::vector<Entry> entries_;
    std::vector<uint32_t> free_;
    std::unordered_map<Region, uint32_t, Hash> named_;
    std::list<uint32_t> unused_, others_;  // imported and not being read, the one used longest ago first
    std::set<ServiceAddress> lost_;
    std::deque<Region> asks_;
    std::deque<uint32_t> imports_;
    std::deque<Released> released_;
    std::vector<ImportHandle> forgotten_;
    Counts counts_;
};

}  // namespace longshore
