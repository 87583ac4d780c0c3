// The memory of a simulated job: every node's shared memory, the ranks' own buffers, and who may touch what
// when. A Workspace is used for one world after the other; it keeps the pages.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/region_use.h"
#include "simulator/options.h"

namespace longshore::sim {

// Pages that are kept between worlds.
class Pages {
  public:
    Pages() = default;
    ~Pages();
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    // At least `bytes`, all zero if `zeroed` (else whatever is there). What was got before is gone.
    std::byte* get(uint64_t bytes, bool zeroed);

  private:
    std::byte* base_ = nullptr;
    uint64_t capacity_ = 0, used_ = 0;
};

struct Workspace {
    Pages nodes, services, buffers, ranks;
};

// A buffer with red zones around what the operation may touch.
struct Buffer {
    uint64_t at = 0;     // of the usable part in the pool
    uint64_t bytes = 0;  // usable
    uint32_t owner = 0;  // index of its use + 1: see Memory::set_closed
};
constexpr uint64_t kRedZoneBytes = 64;

struct Region {
    uint64_t at = 0, bytes = 0;  // in the pool
    uint32_t generation = 0;     // odd while in use
    bool unreadable = false;     // nobody can
    bool rank_only = false;      // service processes cannot
    bool withdrawn = false;      // for good
};

class Memory {
  public:
    Memory(Workspace& workspace, const WorldOptions& options, const NodeLimits* limits,
           const uint16_t* rank_counts, uint64_t pool_bytes);

    NodeMemory& node(uint32_t n) { return nodes_[n]; }
    Region& region(NodeId node, LocalRank rank, RegionId id) {
        return regions_[node.value][uint64_t{rank.value} * regions_max_ + id.value];
    }
    std::byte* pool(uint64_t at) { return pool_ + at; }
    uint64_t pool_bytes() const { return pool_bytes_; }

    // A fresh buffer; nothing in a world is ever used twice, so that late accesses show.
    Buffer allocate(uint64_t bytes);
    // From now on nobody may touch it: its operation is complete.
    void set_closed(const Buffer& buffer) { closed_[buffer.owner - 1] = true; }
    bool is_closed(const std::byte* at) const;

    // Whether those bytes of the pool are in one buffer that may still be touched.
    bool is_open(uint64_t at, uint64_t bytes, std::string* wrong) const;
    // A service process has written so many bytes there, and what it has written to a buffer so far.
    void count_written(NodeId node, const MemoryRef& to, uint64_t bytes);
    uint64_t written(const Buffer& buffer) const {
        return buffer.owner == 0 ? 0 : written_[buffer.owner - 1];
    }

    // Registers pool memory as a region of a rank; false: no entry free.
    bool add_region(NodeId node, LocalRank rank, uint64_t at, uint64_t bytes, uint32_t descriptor_bytes,
                    RegionId* out);
    void remove_region(NodeId node, LocalRank rank, RegionId id);
    // Its rank has its buffers back: whoever wants to move bytes there finds it gone. As in the host library
    // (host/region_cache.h) its number is not used again.
    void withdraw_region(NodeId node, LocalRank rank, RegionId id);
    bool is_withdrawn(NodeId node, const MemoryRef& ref);
    // The region's use now.
    RegionUse use_of(NodeId node, const MemoryRef& ref);
    void write_descriptor(NodeId node, LocalRank rank, RegionId id, uint32_t descriptor_bytes);

    // The bytes behind a reference; null, with the reason in `wrong`, if the access breaks a rule.
    std::byte* resolve(NodeId node, const MemoryRef& ref, uint64_t bytes, std::string* wrong);

  private:
    std::vector<NodeMemory> nodes_;
    std::vector<std::vector<Region>> regions_;
    uint32_t regions_max_ = 0;
    std::byte* pool_ = nullptr;
    uint64_t pool_bytes_ = 0, pool_used_ = 0;
    std::vector<uint32_t> owner_of_;  // per 64 bytes of the pool: use + 1
    std::vector<bool> closed_;
    std::vector<uint64_t> written_;
};

// What a descriptor says, in its first bytes; the rest is filling that must arrive unharmed.
struct RegionIdentity {
    uint16_t node = 0, rank = 0;
    uint32_t region = 0, generation = 0;
};
void fill_descriptor(const RegionIdentity& name, std::span<std::byte> out);
bool read_descriptor(const std::byte* bytes, uint64_t count, RegionIdentity* out);

}  // namespace longshore::sim
