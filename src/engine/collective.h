// What the engine knows of each collective: one row of a closed table, made in collectives/NAME.cc. Sizes and
// places are in the record of the operation; here is only who gives, who takes, and how the blocks lie.
#pragma once

#include <cstdint>

#include "base/types.h"

namespace longshore {

constexpr uint32_t kCollectives = 9;
enum class Collective : uint8_t {
    kAlltoall,
    kAlltoallv,
    kAllgather,
    kAllgatherv,
    kBcast,
    kGather,
    kGatherv,
    kScatter,
    kScatterv,
};

// Ranks of a group, as seen from the root.
enum class Who : uint8_t { kAll, kRoot, kOthers };
constexpr bool is_among(Who who, Rank rank, Rank root) {
    return who == Who::kAll || (who == Who::kRoot) == (rank == root);
}

// What a buffer holds.
enum class Blocks : uint8_t {
    kOne,      // one block, whoever is at its other end
    kPerRank,  // a block for each rank, by its number
};

struct CollectiveRules {
    const char* name;
    Who givers, takers;  // each giver gives one block to each taker, to itself too if it is both
    Blocks given, taken;
    bool by_vector;  // where there is a block per rank, each has a size and a place of its own
    bool is_shared;  // a giver gives the same block to all ranks, so a copy of it will do as a source

    bool gives(Rank rank, Rank root) const { return is_among(givers, rank, root); }
    bool takes(Rank rank, Rank root) const { return is_among(takers, rank, root); }
};

// By Collective.
extern const CollectiveRules* const kCollectiveRules[kCollectives];
// Of any value, as it may come from another process: who relies on it checks it against kCollectives.
inline const CollectiveRules& rules_of(Collective collective) {
    const auto index = static_cast<uint8_t>(collective);
    return *kCollectiveRules[index < kCollectives ? index : 0];
}
inline bool is_shared(Collective collective) {
    return rules_of(collective).is_shared;
}

}  // namespace longshore
