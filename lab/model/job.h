// What is simulated: a job on a machine, one collective of it, and how the product or a host's MPI carries
// it.
#pragma once

#include <string>
#include <vector>

#include "host/job_limits.h"
#include "model/machine.h"
#include "model/network.h"

namespace longshore::timed {

// How ranks lie on nodes: one node after the other, or one rank of each node in turn.
enum class Placement : uint8_t { kContiguous, kStrided };

// Who copies a shared block between ranks of a host whose service processes are on a DPU. As built: the
// ranks, while they wait, told by their stand-ins (engine/hand_over.h). Once: likewise, but told by the
// service processes, as in the first paper. Dpu: the DPU, which reads and writes the host's memory over its
// bus for each rank, as it does all else. Either way a block of the allgather family comes over the network
// once.
enum class Handover : uint8_t { kAsBuilt, kOnce, kDpu };

// When the host's MPI carries on with a collective while its rank computes: not at all, whenever something
// has come (a progress thread, which shares the rank's core), or in calls of MPI_Test that the program makes.
enum class HostProgress : uint8_t { kInCalls, kThread, kTests };

// Whether a DPU reaches the memory of hosts (alias), or all bytes pass memory of its service processes
// (staging).
enum class Memory : uint8_t { kAlias, kStaging };

// Who takes part in a collective: all ranks, or the ranks of the same number on all nodes, one such group for
// each number and all of them at once, as in the second exchange of a pencil FFT.
enum class Groups : uint8_t { kWorld, kColumns };

// Where service processes run: on the nodes' DPUs, or on the hosts, on cores that no rank has if there are
// any.
enum class ServicePlace : uint8_t { kDpu, kHost };

struct Job {
    Machine machine;
    uint32_t nodes = 2, ranks_per_node = 1, services = 1;  // service processes of each node
    ServicePlace service_place = ServicePlace::kDpu;
    Placement placement = Placement::kContiguous;
    Groups groups = Groups::kWorld;
    Collective collective = Collective::kAlltoallv;
    uint64_t block_bytes = 65536;
    uint32_t reads_max = 64;
    uint64_t chunk_bytes = 64 * 1024;
    Handover handover = Handover::kAsBuilt;
    Memory memory = Memory::kAlias;
    Algorithm algorithm = Algorithm::kDirect;
    Sharing sharing = Sharing::kFifo;
    // By rank: how long it computes between the start of the collective and the wait for it. Empty: not at
    // all.
    std::vector<Time> compute;
    // By rank: how long after an iteration's begin it enters. Empty: as the machine's jitter has it.
    std::vector<Time> enter;
    HostProgress progress = HostProgress::kInCalls;  // of the host's MPI
    Time test_every = 0;                             // computing between two tests, with HostProgress::kTests
    uint32_t warm_up = 1, iterations = 3;
    uint64_t seed = 1;
    // Node 0 alone is simulated, and all others do what it does at the same time, each as far from its peers
    // as node 0 is (mirror.h). Of a broadcast the root's node and another one, which stands for the rest
    // (receivers.h).
    bool mirrored = false;

    bool is_on_dpu() const { return service_place == ServicePlace::kDpu; }
    // Whether no core of its host is left for a service process, so that it runs on those of ranks.
    bool shares_cores(uint32_t service) const {
        return !is_on_dpu() && ranks_per_node + service >= machine.cores;
    }
    // Whether blocks pass memory of service processes, or of a rank of each node from which the others copy.
    bool is_staged() const { return memory == Memory::kStaging || algorithm == Algorithm::kStaged; }
    bool lands() const { return algorithm == Algorithm::kStagedHierarchical; }
    bool has_receivers() const { return mirrored && collective == Collective::kBcast; }
    uint32_t real_nodes() const { return !mirrored ? nodes : has_receivers() ? 2 : 1; }
    uint32_t real_ranks() const { return real_nodes() * ranks_per_node; }
    // How many nodes one of those that are simulated stands for.
    uint32_t alike(uint32_t node) const {
        if (has_receivers()) return node == 0 ? 1 : nodes - 1;
        return nodes / real_nodes();
    }
    // Ranks that have a time of their own.
    uint32_t timed_ranks() const { return has_receivers() ? ranks() : real_ranks(); }
    uint32_t ranks() const { return nodes * ranks_per_node; }
    Time compute_of(uint32_t rank) const { return compute.empty() ? 0 : compute[rank]; }
    uint32_t node_of(uint32_t rank) const {
        return placement == Placement::kContiguous ? rank / ranks_per_node : rank % nodes;
    }
    uint32_t local_of(uint32_t rank) const {
        return placement == Placement::kContiguous ? rank % ranks_per_node : rank / nodes;
    }
    uint32_t rank_at(uint32_t node, uint32_t local) const {
        return placement == Placement::kContiguous ? node * ranks_per_node + local : local * nodes + node;
    }
    uint32_t group_count() const { return groups == Groups::kWorld ? 1 : ranks_per_node; }
    uint32_t group_size() const { return groups == Groups::kWorld ? ranks() : nodes; }
    uint32_t group_of(uint32_t rank) const { return groups == Groups::kWorld ? 0 : local_of(rank); }
    uint32_t rank_in_group(uint32_t rank) const { return groups == Groups::kWorld ? rank : node_of(rank); }
    uint32_t rank_of_group(uint32_t group, uint32_t index) const {
        return groups == Groups::kWorld ? index : rank_at(index, group);
    }
    // As ranks are shared out among a node's service processes: runs of equal length.
    uint32_t service_of(uint32_t local) const {
        return static_cast<uint32_t>(uint64_t{local} * services / ranks_per_node);
    }
    // With staging memory, where it is used: as much as LONGSHORE_STAGING_BYTES is by default.
    ServiceLimits service_limits() const {
        ServiceLimits limits = service_limits_for(size());
        if (!is_staged()) return limits;
        limits.staging_slots = 64;
        limits.staging_slot_bytes = 256 * 1024;
        limits.staging_only = memory == Memory::kStaging;
        return limits;
    }
    NodeLimits node_limits() const;
    JobSize size() const {
        JobSize j;
        j.nodes = nodes;
        j.local_ranks = ranks_per_node;
        j.ranks = ranks();
        j.services = services;
        j.chunk_bytes = chunk_bytes;
        j.reads_max = reads_max;
        return j;
    }
};

// What is wrong with a job, in words for its user; empty: nothing.
std::string refusal(const Job& job);

// What the first run of a job needs of this machine, in bytes: mostly what engines keep of each other's
// ranks.
uint64_t memory_needed(const Job& job);

// About how many events a run of a job has, so that it can be said before how long that takes.
uint64_t events_expected(const Job& job);
// About how many seconds of a core that takes. With max-min fairness each transfer's begin and end changes
// the rates of all others, so that many ranks would take hours.
double seconds_expected(const Job& job);
constexpr uint32_t kMaxMinRanks = 128;
// ... of so many events, with so many transfers under way at once.
double seconds_of(const Job& job, uint64_t events, uint64_t flows);

// Of one collective call, over all ranks and all counted iterations. Times from a rank's entry until it has
// its result.
struct Times {
    Time mean = 0, least = 0, most = 0;
    std::vector<Time> iterations;  // means over ranks
    std::vector<Time> ranks;       // means over iterations
};

// Ranks that came to a collective when their service process had been told already of what is for them, over
// all counted iterations; for how many of those some other rank of their node had come by then.
struct Lateness {
    uint64_t entered = 0, late = 0, covered = 0;
    uint64_t told = 0, told_late = 0;  // rows that the engine took in, and those that found nobody
    uint64_t handed_on = 0, rescued = 0, parked = 0;  // by the engine's own counters (LateCounters)
};

struct Outcome {
    Times latency;
    Time span = 0;  // from the first counted entry until the last rank was done
    uint64_t events = 0, transfers = 0;
    uint64_t network_bytes = 0;  // that left nodes, in the counted iterations
    // Shares of the time of the counted iterations in which the busiest of a kind was busy.
    double busiest_link = 0, busiest_pcie = 0, busiest_memory = 0, busiest_service = 0;
    // Of all service processes, in the counted iterations. Frames that a peer had no room for when they were
    // to be sent are among the messages.
    uint64_t messages = 0, refused = 0, reads = 0, copies = 0;
    Lateness late;
};

// Called now and then with the part that is done.
class Watcher {
  public:
    virtual void on_progress(double part) = 0;

  protected:
    ~Watcher() = default;
};

// The product's engine on its service processes.
Outcome simulate_offloaded(const Job& job, Watcher* watcher = nullptr);

}  // namespace longshore::timed
