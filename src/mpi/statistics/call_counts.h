// How often each call was made, by whom it was carried, and which bytes came for it: counted on this rank,
// added up over all.
#pragma once

#include "mpi/statistics/stats.h"

namespace longshore::mpi {

inline constexpr int kAlgorithmCount = 3;

// All uint64_t, so that it adds up over ranks in one reduction.
struct CallCounts {
    uint64_t calls, offloaded, host, bytes, bytes_host, by_service, by_rank, landed;
    uint64_t reasons[kReasonCount];        // of `host`; calls and host are summed up at the end
    uint64_t algorithms[kAlgorithmCount];  // of those offloaded, by ls_algorithm
};
struct Counts {
    CallCounts call[kCallCount];
};
// This rank's so far, with `host`, `calls` and the bytes that came filled in.
Counts my_counts();
CallCounts total_of(const Counts& counts);
const char* reason_name(Reason reason);

}  // namespace longshore::mpi
