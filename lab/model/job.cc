#include "model/job.h"

#include <algorithm>

namespace longshore::timed {

namespace {

// Why not all nodes of a job do the same at the same time, as node 0, or "".
std::string mirror_refusal(const Job& job) {
    const Machine& m = job.machine;
    const auto because = [](const std::string& what) { return "--mirrored: " + what; };
    if (m.jitter_entry != 0 || m.jitter_cost != 0)
        return because(
            "all nodes do the same at the same time, so nothing may be left to chance: set "
            "jitter.entry to 0 us and jitter.cost to 0 %");
    if (m.jitter_late != 0)
        return because(
            "all nodes do the same at the same time, so no rank may be late: set jitter.late to 0 %");
    if (job.placement != Placement::kContiguous || job.groups != Groups::kWorld)
        return because("ranks lie one node after the other, and all are in one group");
    if (job.is_staged()) return because("the other nodes are modelled without memory of service processes");
    if (job.sharing != Sharing::kFifo) return because("links are fifo");
    if (job.ranks_per_node % job.services != 0)
        return because("service processes (--services) have equally many ranks (--ranks-per-node)");
    if (job.collective == Collective::kBcast && job.block_bytes <= kEagerBytesMax)
        return because("blocks of a broadcast are larger than " + std::to_string(kEagerBytesMax) + " B");
    return job.block_bytes < 64 ? because("blocks have at least 64 B") : "";
}

// Why service processes do not run where they shall, or "".
std::string place_refusal(const Job& job) {
    const Machine& m = job.machine;
    const std::string asked = std::to_string(job.services) + " service processes are asked for";
    if (job.lands() && !is_shared(job.collective))
        return "staged-hierarchical is of allgather(v) and bcast (--algorithm)";
    if (job.is_on_dpu()) {
        if (job.lands())
            return "staged-hierarchical cannot be done on DPUs, which share no memory with ranks "
                   "(--algorithm, "
                   "--services-on host)";
        if (!m.has_dpu())
            return m.name +
                   " has no DPU: service processes run on cores of its hosts there (--services-on host)";
        if (job.services > m.dpu_cores)
            return "a DPU of " + m.name + " has " + std::to_string(m.dpu_cores) + " cores, and " + asked;
        return "";
    }
    if (job.handover != Handover::kAsBuilt)
        return "--handover is of DPUs: on a host ranks that wait and service processes copy";
    if (job.is_staged())
        return "service processes on hosts are modelled without memory of their own (--memory, --algorithm)";
    if (job.mirrored) return "--mirrored: service processes run on DPUs";
    return "";
}

}  // namespace

// As the product has them, but for tables that a rank has for thousands of operations: here it has some at
// once. Most of such a table is never touched, but what is touched of a thousand ranks then lies so far apart
// that looking up its pages takes a third of the time. How operations are cut and carried stays the same.
NodeLimits Job::node_limits() const {
    NodeLimits limits = node_limits_for(size());
    const uint64_t chunks = (block_bytes + chunk_bytes - 1) / chunk_bytes;
    limits.groups_max = group_count();
    limits.records_max = limits.regions_max = 8 * limits.operations_ahead_max;
    // An operation is cut more coarsely if it has more than an eighth of its rank's claims.
    const uint64_t words = chunks * group_size() * (lands() ? 2 : 1);
    limits.claims_bytes = std::min(limits.claims_bytes, std::max<uint64_t>(4096, 64 * words));
    if (lands()) return limits;
    // One half for arrays of spans, one for small blocks: of four operations.
    const uint64_t half = 4 * std::max(kCopyBytesMax, 4 * sizeof(BlockSpan) * group_size());
    limits.arena_bytes = std::min(limits.arena_bytes, 2 * half);
    return limits;
}

std::string refusal(const Job& job) {
    const Machine& m = job.machine;
    if (job.nodes < 2 || job.nodes > 4096) return "between 2 and 4096 nodes can be simulated";
    if (job.nodes > m.switch_ports)
        return "the switch of " + m.name + " has " + std::to_string(m.switch_ports) + " ports, and " +
               std::to_string(job.nodes) + " nodes are asked for";
    if (job.ranks_per_node < 1 || job.ranks_per_node > kRanksPerNodeMax)
        return "between 1 and " + std::to_string(kRanksPerNodeMax) + " ranks fit on a node";
    if (job.ranks_per_node > m.cores)
        return "a node of " + m.name + " has " + std::to_string(m.cores) + " cores, and " +
               std::to_string(job.ranks_per_node) + " ranks are asked for: each needs one";
    if (job.services < 1 || job.services > 16)
        return "a node has between 1 and 16 service processes (--services), and " +
               std::to_string(job.services) + " are asked for";
    if (job.services > job.ranks_per_node)
        return "a node has not more service processes than ranks: " + std::to_string(job.services) +
               " (--services) and " + std::to_string(job.ranks_per_node) +
               " (--ranks-per-node) are asked for";
    if (const std::string wrong = place_refusal(job); !wrong.empty()) return wrong;
    if (job.reads_max < 1 || job.reads_max > 256) return "between 1 and 256 reads can be under way";
    if (job.block_bytes < 1 || job.block_bytes > uint64_t{1} << 30)
        return "blocks have between 1 B and 1 GiB";
    const uint64_t chunks = (job.block_bytes + job.chunk_bytes - 1) / job.chunk_bytes;
    const NodeLimits limits = node_limits_for(job.size());  // of the product
    if (chunks * job.group_size() * 8 > limits.claims_bytes / 2)
        return "the product carries at most " + std::to_string(limits.claims_bytes / 16) +
               " pieces of blocks for a rank at once, and here there are " +
               std::to_string(chunks * job.group_size());
    if (job.progress == HostProgress::kTests && job.test_every == 0)
        return "between two tests a rank has to compute for some time (--test-every)";
    if (job.iterations < 1) return "at least one iteration has to be counted";
    if (job.sharing == Sharing::kMaxMin && job.ranks() > kMaxMinRanks)
        return "--sharing max-min is a check of small jobs: it takes at most " +
               std::to_string(kMaxMinRanks) + " ranks, and here there are " + std::to_string(job.ranks());
    return job.mirrored ? mirror_refusal(job) : "";
}

// Fitted to what runs were seen to touch: what a service process and a rank have whatever the job, then what
// they keep of each rank of the job, and claim words.
uint64_t memory_needed(const Job& job) {
    const uint64_t ranks = job.ranks(), chunks = (job.block_bytes + job.chunk_bytes - 1) / job.chunk_bytes;
    const uint64_t of_rank = 24 * 1024 + ranks * (48 + 16 * chunks);
    const uint64_t of_service = 1'000'000 + ranks * 600;
    return job.real_ranks() * of_rank + uint64_t{job.real_nodes()} * job.services * of_service +
           32 * 1024 * 1024;
}

// Fitted to what runs were seen to have: for each rank, for each two service processes that say something to
// each other, and for each block that a rank is given, which is read or copied in pieces.
uint64_t events_expected(const Job& job) {
    constexpr uint64_t kSmallBytes = 8192;
    constexpr uint64_t kOfRank = 20, kOfMessage = 13, kOfSmallBlock = 8, kOfBlock = 3, kOfPiece = 10;
    const uint64_t chunks = (job.block_bytes + job.chunk_bytes - 1) / job.chunk_bytes;
    const uint64_t ranks = job.real_ranks(), members = job.group_size();
    const bool is_bcast = job.collective == Collective::kBcast;
    const uint64_t blocks = is_bcast ? job.timed_ranks() : ranks * (members - 1);
    const bool is_staged = job.is_staged() || job.lands();
    const bool is_small = job.block_bytes <= kSmallBytes;
    const uint64_t of_block = is_small ? kOfSmallBlock : kOfBlock + kOfPiece * chunks;
    const uint64_t talkers = uint64_t{job.real_nodes()} * job.services;
    // A node is told of a shared block once, and of others each of its service processes.
    const uint64_t listeners = is_shared(job.collective) ? 1 : job.services;
    const uint64_t messages = is_bcast ? job.nodes : talkers * (job.nodes - 1) * listeners;
    const uint64_t once =
        kOfRank * ranks + kOfMessage * messages + blocks * of_block * (is_staged && !is_small ? 2 : 1);
    return once * (job.warm_up + job.iterations);
}

double seconds_of(const Job& job, uint64_t events, uint64_t flows) {
    constexpr double kOfEvent = 0.5e-6;  // as on the machine of docs/simulation.md
    constexpr double kOfFlow = 12.5e-9;  // whose rate is found anew
    const bool shares = job.sharing == Sharing::kMaxMin;
    return static_cast<double>(events) * (kOfEvent + (shares ? kOfFlow * static_cast<double>(flows) : 0));
}

double seconds_expected(const Job& job) {
    const uint64_t blocks = uint64_t{job.ranks()} * job.group_size();
    const uint64_t reads = uint64_t{job.nodes} * job.services * job.reads_max;
    return seconds_of(job, events_expected(job), std::min(blocks, reads));
}

}  // namespace longshore::timed
