// Who moves what: which hosts each worker serves, and the list of transfers that follows from it. Pure.
//
// Ranks 0 .. hosts-1 are hosts, the others workers; rank 0 is the root. A host's region holds the block that
// it gives, then slots for what it gets (slot s for the block of host s); a worker's region holds slots only.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace longshore::dpu_bench {

enum class Pattern { kBcast, kGather, kAllgatherLeader, kAllgatherMulti };
enum class Assignment { kCyclic, kBlock };

inline constexpr Pattern kPatterns[] = {Pattern::kBcast, Pattern::kGather, Pattern::kAllgatherLeader,
                                        Pattern::kAllgatherMulti};
inline constexpr Assignment kAssignments[] = {Assignment::kCyclic, Assignment::kBlock};

const char* to_string(Pattern pattern);
const char* to_string(Assignment assignment);

struct Shape {
    int hosts = 0, workers = 0;
    int ranks() const { return hosts + workers; }
    bool is_worker(int rank) const { return rank >= hosts; }
    int worker_rank(int worker) const { return hosts + worker; }
};

// Why this shape is not measured, or "". As many workers as hosts are let through with `allow_equal` only.
std::string refusal(const Shape& shape, bool allow_equal);

// The multi-root allgather knows the cyclic assignment only.
bool has_assignment(Pattern pattern, Assignment assignment);

// The hosts that a worker serves, ascending. Patterns with a root leave the root out, which needs no service.
std::vector<int> hosts_of(Pattern pattern, Assignment assignment, const Shape& shape, int worker);

struct Transfer {
    enum class Kind { kRead, kWrite };
    Kind kind;
    int peer;  // a rank
    std::size_t remote_offset, local_offset, bytes;
};

// Transfers that may be in flight together. All are done before the next phase starts.
struct Phase {
    std::vector<Transfer> transfers;
    bool workers_meet_first = false;  // no worker begins it before all have come this far
};
using Work = std::vector<Phase>;

// The staged pattern, for a worker; and the same pattern among hosts alone, for a host.
Work worker_work(Pattern pattern, Assignment assignment, const Shape& shape, int worker, std::size_t bytes);
Work host_work(Pattern pattern, const Shape& shape, int host, std::size_t bytes);

// A region's slots, and which of a host's slots hold a block afterwards.
std::size_t region_bytes(Pattern pattern, const Shape& shape, int rank, std::size_t bytes);
std::size_t slot_offset(const Shape& shape, int rank, int slot, std::size_t bytes);
std::vector<int> filled_slots(Pattern pattern, const Shape& shape, int rank);

// Emulated nodes: hosts in blocks; workers too, but one per node as long as there are no more workers than
// nodes.
int node_of(const Shape& shape, int nodes, int rank);
// The share of the workers' bytes that goes from one node to another.
double share_between_nodes(Pattern pattern, Assignment assignment, const Shape& shape, int nodes);

}  // namespace longshore::dpu_bench
