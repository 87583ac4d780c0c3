// How much of everything a job's nodes and service processes have, from the shape of the job alone: what the
// first rank of a node tells its supervisor, and what longshore-scale measures with.
#pragma once

#include <algorithm>

#include "engine/service_engine.h"

namespace longshore {

// What a rank sends is copied into its arena if each block is small enough to go with a frame, and all of it
// is not more than this.
constexpr uint64_t kCopyBytesMax = 64 * 1024;

struct JobSize {
    uint32_t nodes = 1;
    uint32_t local_ranks = 1;  // of this node
    uint32_t ranks = 1;        // of the job
    uint32_t services = 1;     // of each node
    uint64_t chunk_bytes = 64 * 1024;
    uint32_t reads_max = 64;
    uint64_t eager_bytes = kEagerBytesMax;
};

inline NodeLimits node_limits_for(const JobSize& job) {
    NodeLimits limits;
    limits.ranks_max = job.local_ranks;
    limits.services_max = job.services;
    limits.chunk_bytes = static_cast<uint32_t>(job.chunk_bytes);
    return limits;
}

// Without staging memory, which depends on settings.
inline ServiceLimits service_limits_for(const JobSize& job) {
    ServiceLimits limits;
    limits.nodes_max = job.nodes;
    limits.services_per_node_max = job.services;
    limits.group_size_max = std::max(64u, job.ranks);
    limits.reads_max = job.reads_max;
    if (job.nodes > 1) {
        limits.reads_queued_max = 8192;
        limits.rows_max = std::max(4096u, 2 * job.ranks);
    }
    limits.eager_bytes = static_cast<uint32_t>(std::min<uint64_t>(job.eager_bytes, kEagerBytesMax));
    return limits;
}

}  // namespace longshore
