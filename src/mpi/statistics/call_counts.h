// How often each call was made, by whom it was carried, and which bytes came for it: counted on this rank,
// added up over all.
#pragma once

#include "mpi/statistics/stats.h"

namespace longshore::mpi {

inline constexpr int kAlgorithmCount = 3;

// All uint64_t, so that it adds up over ranks in one reduction.
struct CallCounts {
    uint64_t calls, offloaded, host, bytes, bytes_host, by_service, by_rank, landed;
    uint64_t by_service_waited;  // of by_service: moved while this rank waited in MPI; the rest was hidden
    uint64_t time_ns[kCallTimeCount];      // by CallTime
    uint64_t reasons[kReasonCount];        // of `host`; calls and host are summed up at the end
    uint64_t algorithms[kAlgorithmCount];  // of those offloaded, by ls_algorithm
};
struct Counts {
    CallCounts call[kCallCount];
};
// This rank's so far, with `host`, `calls` and the bytes that came filled in.
Counts my_counts();
CallCounts total_of(const Counts& counts);
inline uint64_t hidden_bytes(const CallCounts& c) {
    return c.by_service - c.by_service_waited;
}
// Bytes of blocks that a rank sends to itself, or has already as the root of a broadcast: nobody moved them
// from rank to rank.
inline uint64_t own_bytes(const CallCounts& c) {
    const uint64_t moved = c.by_service + c.by_rank;
    return c.bytes > moved ? c.bytes - moved : 0;
}
const char* reason_name(Reason reason);

}  // namespace longshore::mpi
