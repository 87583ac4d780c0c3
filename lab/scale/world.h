// A job of real nodes and modelled ones. All service processes have turns of one action each, in rounds; what
// is sent in one round arrives in the next.
#pragma once

#include "scale/model.h"
#include "scale/real_node.h"

namespace longshore::scale {

// What one service process of a real node did in one operation.
struct ServiceResult {
    MessageCounts sent, received;
    uint64_t reads = 0, copies = 0, calls = 0;
    double next_ns = 0, on_frame_ns = 0, finish_ns = 0;
    double engine_ns() const { return next_ns + on_frame_ns + finish_ns; }
};

struct OperationResult {
    std::vector<ServiceResult> services;  // of the first node, then of the second, ...
    uint64_t rounds = 0;
    double post_ns = 0;  // for each rank of a real node
    uint64_t node_bytes_of_a_rank =
        0;  // touched by the post of the rank that touched most; of the first alone
    uint64_t rows_dropped = 0;
};

class World {
  public:
    explicit World(const Shape& shape);
    // The next operation, until all real ranks are done and nothing is under way.
    OperationResult run();

    const RealNode& node(uint32_t n) const { return *nodes_[n]; }
    const Shape& shape() const { return shape_; }

  private:
    void enter(uint64_t round);
    bool all_entered() const { return entered_ == shape_.ranks; }
    bool step(uint64_t round);
    const Shape shape_;
    Workload workload_;
    Model model_;
    std::vector<std::unique_ptr<RealNode>> nodes_;
    FrameQueue now_, later_;
    uint64_t sequence_ = 0;
    uint32_t entered_ = 0;  // ranks of each node
    uint64_t touched_ = 0;
};

}  // namespace longshore::scale
