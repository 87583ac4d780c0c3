// A rank's region in the use in which somebody has found it who reads there. A rank that has its buffers back
// withdraws their regions before its program writes there: bytes that were read are the rank's block if the
// region is still in the same use afterwards.
#pragma once

#include "engine/node_memory.h"

namespace longshore {

struct RegionUse {
    const RegionEntry* region = nullptr;  // null: of no region that could be withdrawn
    uint32_t generation = 0;

    // To be asked when the bytes have been read.
    bool is_over() const {
        if (region == nullptr) return false;
        std::atomic_thread_fence(std::memory_order_acquire);
        return region->generation.load(std::memory_order_relaxed) != generation;
    }
};

}  // namespace longshore
