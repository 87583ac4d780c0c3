// What a fabric gives the conformance suite: members (service processes) of two nodes, and ranks whose memory
// the test can look at. A new fabric implements it and adds itself to worlds(), at the end of its world's
// file.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "fabric/fabric.h"

namespace longshore::test {

// How many times slower than others the machine is: an emulated one. Limits of time are as many times longer,
// and what is done many times is done as many times less.
inline uint32_t slowness() {
    static const char* const text = getenv("LONGSHORE_INTERNAL_TEST_SLOWNESS");
    static const uint32_t times = text != nullptr ? static_cast<uint32_t>(strtoul(text, nullptr, 10)) : 1;
    return times != 0 ? times : 1;
}

// Within which what is to happen does, on a machine that is busy with other things.
inline std::chrono::seconds in_time() {
    return std::chrono::seconds(60) * slowness();
}

class FabricWorld {
  public:
    virtual ~FabricWorld() = default;
    // Nodes 0 and 1, each with two service processes and two ranks.
    static constexpr uint16_t kNodes = 2, kServices = 2, kRanks = 2;
    static constexpr uint64_t kRegionBytes = 1 << 20;
    static constexpr uint64_t kStagingBytes = 1 << 16;  // of each member
    // Whether bytes go from one rank to another through that memory only.
    virtual bool staging_only() const { return false; }
    // Whether those in the staging memory of another node's member come here through it only.
    virtual bool from_staging_to_staging_only() const { return staging_only(); }

    virtual Fabric& fabric(ServiceAddress member) = 0;
    virtual NodeMemory memory(NodeId node) = 0;
    // The bytes of a rank's region kUserRegion, as the rank sees them; kRegionBytes of them.
    static constexpr RegionId kUserRegion{1};
    virtual std::byte* bytes(NodeId node, LocalRank rank) = 0;
    // Its name in its present use.
    RegionName name(NodeId node, LocalRank rank) {
        return {rank, kUserRegion, memory(node).region(rank, kUserRegion).generation.load()};
    }
    // The member is gone for good.
    virtual void lose(ServiceAddress member) = 0;
    // The clock that poll() waits by.
    virtual uint64_t now_ns() const {
        timespec t{};
        clock_gettime(CLOCK_MONOTONIC, &t);
        return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
    }
    // Whether members may be used by one thread each; else one thread has them all.
    virtual bool has_threads() const { return true; }
    // Whether what is read from a node comes only while its members have turns.
    virtual bool reads_need_turns() const { return false; }
    // How a member has moved bytes of ranks' memory, where the fabric counts it.
    struct Moved {
        bool mapping_allowed;
        uint64_t bytes_mapped, bytes_otherwise;
    };
    virtual std::optional<Moved> moved(ServiceAddress) { return std::nullopt; }
};

using WorldMaker = std::function<std::unique_ptr<FabricWorld>()>;
struct NamedWorld {
    const char* name;
    WorldMaker make;
};

// The fabrics that a program tries: each program has one of the files that define this.
std::vector<NamedWorld> worlds();

}  // namespace longshore::test
