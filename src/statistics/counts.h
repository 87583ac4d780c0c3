// Sums over calls, and what follows from them.
#pragma once

#include "statistics/figures.h"

namespace longshore::statistics {

CallCounts total_of(const Counts& counts);
void add_up(Counts* sum, const Counts& more);
void add_up(OtherCounts* sum, const OtherCounts& more);
uint64_t total_ns(const OtherCounts& others, bool collectives_only);
inline uint64_t hidden_bytes(const CallCounts& c) {
    return c.by_service - c.by_service_waited;
}
// Bytes of blocks that a rank sends to itself, or has already as the root of a broadcast: nobody moved them
// from rank to rank.
inline uint64_t own_bytes(const CallCounts& c) {
    const uint64_t moved = c.by_service + c.by_rank;
    return c.bytes > moved ? c.bytes - moved : 0;
}

}  // namespace longshore::statistics
