// A fabric that reads by descriptors, played: it moves nothing, keeps what is posted, and ends it when told.
// Aborts if it is used as it may not be.
#pragma once

#include <stdlib.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "fabric/described_fabric.h"

namespace longshore::test {

class PlayedFabric : public ImportingFabric {
  public:
    struct Frame {
        ServiceAddress to;
        std::vector<std::byte> bytes;
    };
    struct Import {
        ServiceAddress owner;
        RegionName name;
        std::vector<std::byte> descriptor;
        uint64_t id = 0;
    };
    struct Read {
        ImportHandle from = 0;
        uint64_t id = 0;
    };

    Post send(ServiceAddress to, std::span<const std::byte> message) override {
        require(message.size() <= kFrameBytesMax);
        if (full) return Post::kAgain;
        frames.push_back({to, {message.begin(), message.end()}});
        return Post::kAccepted;
    }
    Post copy(const MemoryRef&, const MemoryRef&, uint64_t, uint64_t, uint64_t) override {
        return Post::kAgain;
    }
    Post write(std::span<const std::byte>, const MemoryRef&, uint64_t) override { return Post::kAgain; }
    Post read(ImportHandle from, uint64_t, const MemoryRef&, uint64_t, uint64_t id,
              const AlongPart*) override {
        require(imported.contains(from));
        if (full) return Post::kAgain;
        reads.push_back({from, id});
        return Post::kAccepted;
    }
    Post import_region(ServiceAddress owner, const RegionName& name, std::span<const std::byte> descriptor,
                       uint64_t id) override {
        require(!descriptor.empty() && descriptor.size() <= kDescriptorBytesMax);
        if (full) return Post::kAgain;
        imports.push_back({owner, name, {descriptor.begin(), descriptor.end()}, id});
        return Post::kAccepted;
    }
    void forget_region(ImportHandle region) override { require(imported.erase(region) == 1); }
    std::span<const std::byte> staging_descriptor() const override { return staging; }
    size_t poll(std::span<FabricEvent> out, uint64_t wait_ns) override {
        waited_ns = wait_ns;
        messages_.clear();
        size_t count = 0;
        for (; count < out.size() && !events_.empty(); events_.pop_front()) {
            out[count] = events_.front().first;
            messages_.push_back(std::move(events_.front().second));
            if (out[count].kind == FabricEvent::Kind::kMessage) out[count].message = messages_.back();
            ++count;
        }
        return count;
    }
    void wake(const WakeSet&) override {}

    // --- what the test does
    void deliver(ServiceAddress from, std::span<const std::byte> frame) {
        FabricEvent event;
        event.peer = from;
        events_.emplace_back(event, std::vector<std::byte>(frame.begin(), frame.end()));
    }
    void lose(ServiceAddress peer) {
        events_.emplace_back(FabricEvent::lost(peer), std::vector<std::byte>{});
    }
    void end_import(bool ok) {
        require(!imports.empty());
        const ImportHandle handle = ok ? ++last_handle_ : 0;
        if (ok) imported.insert(handle);
        events_.emplace_back(FabricEvent::imported(imports.front().id, handle), std::vector<std::byte>{});
        imports.pop_front();
    }
    void end_read(MoveResult result) {
        require(!reads.empty());
        events_.emplace_back(FabricEvent::moved(reads.front().id, result), std::vector<std::byte>{});
        reads.pop_front();
    }

    bool full = false;  // it says `again` to all
    std::deque<Frame> frames;
    std::deque<Import> imports;
    std::deque<Read> reads;
    std::set<ImportHandle> imported;
    std::vector<std::byte> staging = std::vector<std::byte>(24, std::byte{0x33});
    uint64_t waited_ns = 0;

  private:
    static void require(bool condition) {
        if (!condition) abort();
    }
    std::deque<std::pair<FabricEvent, std::vector<std::byte>>> events_;
    std::deque<std::vector<std::byte>> messages_;  // of the last poll
    ImportHandle last_handle_ = 0;
};

// The memory of a node with two ranks, each with a region 1 in its first use.
class PlayedNode {
  public:
    static constexpr uint32_t kRanks = 2, kRegions = 3;
    explicit PlayedNode(NodeId node) {
        NodeLimits limits;
        limits.ranks_max = kRanks;
        limits.services_max = 2;
        limits.groups_max = 1;
        limits.records_max = 2;
        limits.operations_ahead_max = 1;
        limits.regions_max = kRegions;
        limits.claims_bytes = limits.arena_bytes = limits.groups_bytes = 4096;
        const uint64_t bytes = NodeLayout::of(limits).total_bytes;
        bytes_ = static_cast<std::byte*>(aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
        if (bytes_ == nullptr) abort();
        std::fill(bytes_, bytes_ + bytes, std::byte{0});
        memory = NodeMemory::create(bytes_, limits, node, 3, kRanks, 2);
        for (uint16_t r = 0; r < kRanks; ++r) {
            RegionEntry& entry = memory.region(LocalRank{r}, RegionId{1});
            entry.descriptor_bytes = 8 + r;
            std::fill(entry.descriptor, entry.descriptor + kDescriptorBytesMax,
                      static_cast<uint8_t>(0x40 + r));
            entry.generation.store(1);
        }
    }
    ~PlayedNode() { free(bytes_); }
    PlayedNode(const PlayedNode&) = delete;
    PlayedNode& operator=(const PlayedNode&) = delete;
    NodeMemory memory;

  private:
    std::byte* bytes_;
};

}  // namespace longshore::test
