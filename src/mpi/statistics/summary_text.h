// The summary of a job as people read it (LONGSHORE_STATS=-): what was carried, where the time went, and in words
// why not more was gained and what would change it.
#pragma once

#include <string>
#include <vector>

#include "mpi/statistics/call_counts.h"

namespace longshore::mpi {

// Of one rank: its time in waits for offloaded calls, in collectives left to the MPI, and in the MPI's own waits
// for whatever requests (MPI_Wait and its relatives, while Longshore had nothing open).
struct RankTime {
    uint64_t waiting_ns, mpi_ns, mpi_waits_ns;

    uint64_t all() const { return waiting_ns + mpi_ns + mpi_waits_ns; }
};

struct Summary {
    Counts counts;                // of all ranks together
    uint64_t wall_ns = 0;         // from MPI_Init to MPI_Finalize, on rank 0
    std::vector<RankTime> ranks;  // by rank
};

// Of the ranks' time between MPI_Init and MPI_Finalize, what share was spent in the calls of `counts` and in
// waits.
double share_in_calls(const Summary& summary);
// The rank that waited least, if it is so far from those that waited most that they seem to have waited for it;
// else -1. An estimate: no clock of one node is compared with another's.
int latest_rank(const Summary& summary);
// One sentence for each thing that kept the job from gaining more, with what to do about it.
std::vector<std::string> advice_on(const Summary& summary);
void print_summary(const Summary& summary);

}  // namespace longshore::mpi
