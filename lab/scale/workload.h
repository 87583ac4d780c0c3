// The members of the group and the sizes of all blocks, by arithmetic: the real nodes' ranks and the modelled
// service processes know the same, and nothing is kept for a modelled rank.
#pragma once

#include <vector>

#include "engine/rank_engine.h"
#include "scale/shape.h"

namespace longshore::scale {

constexpr RegionId kBuffers{1};  // the region that both buffers of a rank lie in
constexpr uint32_t kBuffersGeneration = 1;
constexpr GroupId kGroup{1};

class Workload {
  public:
    explicit Workload(const Shape& shape);

    uint32_t node_of(uint32_t rank) const { return rank / shape_.ranks; }
    uint32_t local_of(uint32_t rank) const { return rank % shape_.ranks; }
    uint32_t service_of(uint32_t local) const { return local / ranks_per_service(); }
    uint32_t ranks_per_service() const { return shape_.ranks / shape_.services; }
    std::vector<Member> members() const;

    const CollectiveRules& rules() const { return rules_of(shape_.collective); }
    // Blocks are of several sizes.
    bool varies() const { return rules().by_vector && !shape_.equal; }
    bool is_rooted() const { return rules().givers == Who::kRoot; }
    // The root is a rank of node 0, another one each time.
    Rank root(uint64_t sequence) const { return Rank{static_cast<uint32_t>(sequence % shape_.ranks)}; }
    bool gives(uint32_t rank, uint64_t sequence) const { return rules().gives(Rank{rank}, root(sequence)); }
    // Whether what a rank sends lies in its arena, and goes with the frames.
    bool is_small() const { return is_small_; }
    // Of the block that `source` gives `destination`; where in the source's region it lies.
    uint64_t bytes(uint32_t source, uint32_t destination) const;
    uint64_t send_offset(uint32_t source, uint32_t destination) const;

    // An operation of one rank, without its arena. The arrays stay as long as the workload and are of the
    // rank last asked for with the same `keep`.
    OperationArguments arguments(uint32_t rank, uint64_t sequence, uint32_t keep);
    uint64_t send_bytes(uint32_t rank) const;

  private:
    uint64_t recv_offset(uint32_t source, uint32_t destination) const;
    Shape shape_;
    bool is_small_ = false;
    std::vector<std::vector<BlockSpan>> send_, recv_;
};

}  // namespace longshore::scale
