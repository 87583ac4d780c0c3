// Strong types for the field's ids: no bare integer that names something crosses a header.
#pragma once

#include <compare>
#include <cstdint>

namespace longshore {

template <class Tag, class Rep>
struct Id {
    Rep value{};
    constexpr Id() = default;
    constexpr explicit Id(Rep v) : value(v) {}
    constexpr auto operator<=>(const Id&) const = default;
};

using Rank = Id<struct RankTag, uint32_t>;            // in its group
using LocalRank = Id<struct LocalRankTag, uint16_t>;  // slot on its node
using NodeId = Id<struct NodeTag, uint16_t>;          // in the job
using ServiceId = Id<struct ServiceTag, uint16_t>;    // service process of its node
using GroupId = Id<struct GroupTag, uint64_t>;        // in the job, never reused; 0 is none
using GroupSlot = Id<struct GroupSlotTag, uint32_t>;  // index into a node's group table
using RegionId = Id<struct RegionTag, uint32_t>;      // index into its rank's region table
using RecordId = Id<struct RecordTag, uint32_t>;      // index into its rank's record table

// One collective call on one group. Sequence numbers start at 1 and are equal on all ranks.
struct OperationId {
    GroupId group;
    uint64_t sequence = 0;
    constexpr auto operator<=>(const OperationId&) const = default;
};

// A block of an operation, by who gives it and who takes it: a rank of the group, or a node (kToNode).
struct BlockName {
    OperationId operation;
    Rank source;
    uint32_t destination = 0;
    constexpr bool operator==(const BlockName&) const = default;
};

struct ServiceAddress {
    NodeId node;
    ServiceId service;
    constexpr auto operator<=>(const ServiceAddress&) const = default;
};

// A span of a rank's registered memory, never an address.
struct MemoryRef {
    LocalRank rank;
    RegionId region;
    uint64_t offset = 0;
};

// As `rank` of a MemoryRef: the staging memory of the service process itself (region 0).
inline constexpr LocalRank kStaging{0xffff};

}  // namespace longshore
