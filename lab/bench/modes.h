// The other modes of the benchmark. Collective; each prints on rank 0 and returns the exit status.
#pragma once

#include "bench/report.h"
#include "bench/session.h"

namespace longshore::bench {

// Cost of calls that are not offloaded: MPI_ against PMPI_, in ns.
int run_overhead(const Session& session, JsonLines& json);

// What one core copies by memcpy and by process_vm_readv and its kin, in GB/s.
int run_copy_rates(const Session& session, int nodes, JsonLines& json);

// Buffers that no collective has been given before, beside those that are used again and again.
int run_first_use(Session& session, JsonLines& json);

// Where the time of Longshore's operations goes.
int run_breakdown(Session& session, int nodes, JsonLines& json);

// One rank enters late: time from its entry to everyone's completion, against the time for moving its own
// blocks.
int run_late(Session& session, bool has_one_clock, JsonLines& json);

// Ranks late by chance, an allgather and an alltoall: time beyond waiting for the last rank's entry.
int run_imbalance(Session& session, bool has_one_clock, JsonLines& json);

}  // namespace longshore::bench
