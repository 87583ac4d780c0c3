#include "simulator/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "simulator/pattern.h"

namespace longshore::sim {

Pages::~Pages() {
    if (base_ != nullptr) munmap(base_, capacity_);
}

std::byte* Pages::get(uint64_t bytes, bool zeroed) {
    if (bytes > capacity_) {
        if (base_ != nullptr) munmap(base_, capacity_);
        capacity_ = (bytes + (1 << 20)) & ~uint64_t{4095};
        void* made = mmap(nullptr, capacity_, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        LONGSHORE_CHECK(made != MAP_FAILED);
        base_ = static_cast<std::byte*>(made);
        used_ = 0;
    }
    if (zeroed && used_ != 0) memset(base_, 0, std::min(used_, bytes));
    used_ = std::max(used_, bytes);
    return base_;
}

Memory::Memory(Workspace& workspace, const WorldOptions& o, const NodeLimits* limits,
               const uint16_t* rank_counts, uint64_t pool_bytes)
    : pool_bytes_(pool_bytes) {
    uint64_t total = 0;
    for (uint32_t n = 0; n < o.nodes; ++n) total += NodeLayout::of(limits[n]).total_bytes;
    std::byte* base = workspace.nodes.get(total, true);
    regions_max_ = o.regions;
    for (uint32_t n = 0; n < o.nodes; ++n) {
        nodes_.push_back(NodeMemory::create(base, limits[n], NodeId(static_cast<uint16_t>(n)),
                                            static_cast<uint16_t>(o.nodes), rank_counts[n],
                                            static_cast<uint16_t>(o.services_of_node[n])));
        base += NodeLayout::of(limits[n]).total_bytes;
        regions_.emplace_back(uint64_t{rank_counts[n]} * o.regions);
        for (Region& r : regions_.back()) r.generation = o.last_pair();
    }
    pool_ = workspace.buffers.get(pool_bytes, false);
    owner_of_.resize(pool_bytes / 64 + 1);
    pool_used_ = 64;
}

Buffer Memory::allocate(uint64_t bytes) {
    const uint64_t whole = ((bytes + 63) & ~uint64_t{63}) + 2 * kRedZoneBytes;
    LONGSHORE_CHECK(pool_used_ + whole <= pool_bytes_);
    Buffer b;
    b.at = pool_used_ + kRedZoneBytes;
    b.bytes = bytes;
    closed_.push_back(false);
    written_.push_back(0);
    b.owner = static_cast<uint32_t>(closed_.size());
    for (uint64_t i = b.at / 64; i <= (b.at + bytes) / 64; ++i) owner_of_[i] = b.owner;
    pool_used_ += whole;
    return b;
}

bool Memory::is_closed(const std::byte* at) const {
    if (at < pool_ || at >= pool_ + pool_bytes_) return false;
    const uint32_t owner = owner_of_[static_cast<uint64_t>(at - pool_) / 64];
    return owner != 0 && closed_[owner - 1];
}

bool Memory::is_open(uint64_t at, uint64_t bytes, std::string* wrong) const {
    const uint32_t first = owner_of_[at / 64], last = owner_of_[(at + bytes - (bytes != 0)) / 64];
    if (first == 0 || first != last)
        *wrong = "outside a buffer";
    else if (closed_[first - 1])
        *wrong = "a buffer after its completion";
    return wrong->empty();
}

void Memory::count_written(NodeId node, const MemoryRef& to, uint64_t bytes) {
    const uint32_t owner = owner_of_[(region(node, to.rank, to.region).at + to.offset) / 64];
    if (owner != 0) written_[owner - 1] += bytes;
}

bool Memory::add_region(NodeId node, LocalRank rank, uint64_t at, uint64_t bytes, uint32_t descriptor_bytes,
                        RegionId* out) {
    for (uint32_t i = 1; i < regions_max_; ++i) {
        Region& r = region(node, rank, RegionId{i});
        if (r.generation % 2 != 0 || r.withdrawn) continue;
        const uint32_t generation = r.generation + 1;
        r = Region{at, bytes, generation, false, false, false};
        RegionEntry& entry = nodes_[node.value].region(rank, RegionId{i});
        store_relaxed(&entry.bytes, bytes);
        write_descriptor(node, rank, RegionId{i}, descriptor_bytes);
        entry.generation.store(generation, std::memory_order_release);
        *out = RegionId{i};
        return true;
    }
    return false;
}

void Memory::remove_region(NodeId node, LocalRank rank, RegionId id) {
    Region& r = region(node, rank, id);
    if (r.withdrawn) return;
    ++r.generation;
    nodes_[node.value].region(rank, id).generation.store(r.generation, std::memory_order_release);
}

void Memory::withdraw_region(NodeId node, LocalRank rank, RegionId id) {
    if (id == kArenaRegion) return;
    remove_region(node, rank, id);
    region(node, rank, id).withdrawn = true;
}

bool Memory::is_withdrawn(NodeId node, const MemoryRef& ref) {
    const bool exists = ref.rank.value < nodes_[node.value].rank_count() && ref.region.value < regions_max_;
    return exists && region(node, ref.rank, ref.region).withdrawn;
}

RegionUse Memory::use_of(NodeId node, const MemoryRef& ref) {
    if (ref.rank == kStaging || ref.region == kArenaRegion) return {};
    return {&nodes_[node.value].region(ref.rank, ref.region), region(node, ref.rank, ref.region).generation};
}

void Memory::write_descriptor(NodeId node, LocalRank rank, RegionId id, uint32_t descriptor_bytes) {
    RegionEntry& entry = nodes_[node.value].region(rank, id);
    Region& r = region(node, rank, id);
    if (id == kArenaRegion) r.generation = 1;
    const RegionIdentity name{node.value, rank.value, id.value, r.generation};
    std::byte bytes[kDescriptorBytesMax];
    fill_descriptor(name, {bytes, descriptor_bytes});
    memcpy(entry.descriptor, bytes, descriptor_bytes);
    store_relaxed(&entry.descriptor_bytes, descriptor_bytes);
}

void fill_descriptor(const RegionIdentity& name, std::span<std::byte> out) {
    memcpy(out.data(), &name, sizeof name);
    fill_pattern(out.data() + sizeof name, 5, 0, out.size() - sizeof name);
}

bool read_descriptor(const std::byte* bytes, uint64_t count, RegionIdentity* out) {
    if (count < sizeof *out) return false;
    memcpy(out, bytes, sizeof *out);
    return is_pattern(bytes + sizeof *out, 5, 0, count - sizeof *out);
}

std::byte* Memory::resolve(NodeId node, const MemoryRef& ref, uint64_t bytes, std::string* wrong) {
    NodeMemory& m = nodes_[node.value];
    const auto refuse = [&](const char* why) {
        *wrong = std::string(why) + ": node " + std::to_string(node.value) + " rank " +
                 std::to_string(ref.rank.value) + " region " + std::to_string(ref.region.value) + " offset " +
                 std::to_string(ref.offset) + " bytes " + std::to_string(bytes);
        return nullptr;
    };
    if (ref.rank.value >= m.header().rank_count || ref.region.value >= regions_max_)
        return refuse("no such region");
    if (ref.region == kArenaRegion) {
        if (ref.offset > m.limits().arena_bytes || bytes > m.limits().arena_bytes - ref.offset)
            return refuse("outside the arena");
        return m.arena(ref.rank) + ref.offset;
    }
    const Region& r = region(node, ref.rank, ref.region);
    if (r.generation % 2 == 0) return refuse("access to a region that is gone");
    if (ref.offset > r.bytes || bytes > r.bytes - ref.offset) return refuse("outside the region");
    const uint64_t at = r.at + ref.offset;
    if (bytes == 0) return pool_ + at;
    const uint32_t first = owner_of_[at / 64], last = owner_of_[(at + bytes - 1) / 64];
    if (first == 0 || first != last) return refuse("outside a buffer");
    if (closed_[first - 1]) return refuse("access to a buffer after its completion");
    return pool_ + at;
}

}  // namespace longshore::sim
