// The summary of a job, as people read it (LONGSHORE_STATS=-) and as JSON: what was carried, where the time
// went, and in words why not more was gained and what would change it.
#pragma once

#include <string>
#include <vector>

#include "statistics/counts.h"

namespace longshore::statistics {

// Of one rank: its time in waits for offloaded calls, in tests of them, in collectives left to the MPI, in
// the MPI's own waits for whatever requests (MPI_Wait and its relatives, while Longshore had nothing open),
// in tests of such requests, in collectives that Longshore does not carry, and in the MPI's other calls.
struct RankTime {
    uint64_t waiting_ns = 0, testing_ns = 0, mpi_ns = 0, mpi_waits_ns = 0, mpi_tests_ns = 0, uncarried_ns = 0,
             other_ns = 0;
    bool known = true;  // false: of a job that was interrupted, a rank whose figures are elsewhere

    // In which a rank waits for others that are late.
    uint64_t waits() const { return waiting_ns + mpi_ns + mpi_waits_ns + uncarried_ns; }
};
RankTime time_of(const Figures& figures);

// How ranks reached each other's memory, and what they shared of their own. Added up over them.
struct MemoryCounts {
    uint64_t mapped, peer_copied, bounced;
    uint64_t shared_bytes_max, adopted, refused;
    uint64_t kept_bytes_max, given_back;  // of freed blocks: kept for the next ones, given back to the system
    uint64_t by_agents;                   // of hosts with DPUs, for ranks that computed
    uint64_t blocks_by_ranks, blocks_by_agents;  // there, copied from rank to rank
    uint64_t private_max;                        // bytes of shared blocks that forks have made private
    uint64_t malloc_not_shared;                  // ranks whose malloc is not libc's
};

// Of a job that was interrupted: how one rank ended.
struct RankEnd {
    int rank = 0;
    uint64_t after_ns = 0;  // from its MPI_Init until it was gone
    uint16_t inside = 0;    // 1 + the Function that it was in; 0: none that is seen
    uint64_t inside_ns = 0;
    bool finalized = false;
};

// Files that were to be written at the ranks' side, of all ranks together (docs/io.md).
struct WriteBehindCounts {
    bool wanted = false;
    std::string refused;  // why the program wrote all of them itself; empty: it did not
    uint64_t files = 0, bytes = 0;
    uint64_t waiting_bytes_max = 0, bound_bytes = 0;  // of one rank: what waited at a time, and may
    uint64_t waits = 0, waited_ns = 0;                // of ranks, for the disk
    std::vector<std::pair<std::string, uint64_t>>
        passed;  // files that the program wrote itself, by the reason
};

struct Summary {
    int size = 0;  // ranks of the job
    uint32_t nodes = 0;
    bool offload = false;
    bool wanted = true;     // LONGSHORE_OFFLOAD is not off
    uint32_t launched = 0;  // processes that the launcher has started, where they are jobs of one rank each
    SelectionPoint place;
    std::string reach = "none";  // ls_memory_reach
    Counts counts{};             // of all ranks together
    OtherCounts others{};        // likewise
    uint64_t wall_ns = 0;        // from MPI_Init to MPI_Finalize, on rank 0
    std::vector<RankTime> ranks;
    MemoryCounts memory{};
    std::string why_not_shared;  // of the first of the ranks that memory.malloc_not_shared counts
    PackCounts packed{};
    WriteBehindCounts files;
    std::vector<CommRow> comms;  // by communicator, those with most time first
    std::vector<AtOnceCell> at_once;
    std::vector<ls_service_stats> services;
    std::vector<RankEnd> ends;  // not empty: the job was interrupted, and these ranks' figures are known
};

// Of the ranks' time between MPI_Init and MPI_Finalize, what share was spent in the calls of `counts`, in
// waits, and in tests.
double share_in_calls(const Summary& summary);
// Likewise, in all calls of the MPI that are timed.
double share_in_mpi(const Summary& summary);
// The rank that waited least, if it is so far from those that waited most that they seem to have waited for
// it; else -1. An estimate: no clock of one node is compared with another's.
int latest_rank(const Summary& summary);
// How much later than another it came in all calls together, by what it waited less; 0: there is no such
// rank.
uint64_t latest_rank_ns(const Summary& summary);
// One sentence for each thing that kept the job from gaining more, with what to do about it.
std::vector<std::string> advice_on(const Summary& summary);

// Lines for people, each with "longshore: " before it.
std::string summary_text(const Summary& summary);
// Of these the lines on what was carried, and why the rest was not.
std::string calls_text(const Summary& summary);
std::string summary_json(const Summary& summary);
// On files alone; without "longshore: " before it.
std::string files_text(const WriteBehindCounts& files);

}  // namespace longshore::statistics
