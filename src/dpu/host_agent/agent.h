// The agent: one process of the job's user beside the ranks of a machine whose service processes are on a
// DPU. Maps the ranks' shared memory and opens pieces of it to the network
// (docs/decisions/0013-memory-opened-by-an-agent.md). Ends with the last rank.
#pragma once

namespace longshore {

// Returns the exit status.
int run_agent();

}  // namespace longshore
