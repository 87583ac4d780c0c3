#include "mpi/statistics/stats.h"

#include <cstring>
#include <vector>

#include "base/text.h"
#include "mpi/job/write_behind.h"
#include "mpi/requests/at_once.h"
#include "mpi/statistics/gather.h"
#include "statistics/counts.h"
#include "statistics/json.h"
#include "statistics/summary.h"

namespace longshore::mpi {
namespace {

constexpr uint32_t kServicesMax = 64;  // of one node

// The service processes of all nodes, on rank 0. Collective.
std::vector<ls_service_stats> gather_services() {
    std::vector<ls_service_stats> mine;
    if (shim().context && ls_is_node_leader(shim().context)) {
        mine.resize(kServicesMax);
        mine.resize(std::min(kServicesMax, ls_services(shim().context, mine.data(), kServicesMax)));
    }
    return gather_on_root(mine.data(), mine.size());
}

MemoryCounts my_memory() {
    const ls_moved_bytes moved = shim().context ? ls_rank_moved(shim().context) : ls_moved_bytes{};
    const longshore_heap_use use = shim().stub->used();
    return {moved.mapped,
            moved.peer_copied,
            moved.bounced,
            use.live_bytes_max,
            use.adopted_bytes,
            use.refused,
            use.kept_bytes_max,
            use.given_back_bytes,
            moved.by_agent,
            moved.blocks_by_rank,
            moved.blocks_by_agent,
            use.private_bytes_max,
            shim().stub->why_malloc_is_not_shared() != nullptr ? 1u : 0u};
}

// Why blocks of malloc are not shared, of the first rank where they are not. Collective.
std::string first_reason_of_malloc() {
    const char* const mine = shim().stub->why_malloc_is_not_shared();
    const std::vector<char> all = gather_on_root(mine, mine ? strlen(mine) + 1 : 0);
    return all.empty() ? "" : all.data();
}

// Everything, on rank 0. Collective.
Summary gather_summary() {
    const Shim& s = shim();
    if (s.context) ls_rank_bytes(s.context, figures().came);
    Summary summary;
    summary.size = s.size;
    summary.nodes = s.context ? ls_node_count(s.context) : 0;
    summary.offload = s.on;
    summary.wanted = s.settings.offload;
    summary.launched = s.launched;
    summary.place = s.place;
    if (s.context) summary.reach = ls_memory_reach(s.context);
    summary.memory = sum_on_root(my_memory());
    summary.why_not_shared = first_reason_of_malloc();
    summary.files = count_write_behind();
    summary.packed = sum_on_root(packing_of(figures()));
    summary.counts = sum_on_root(counts_of(figures()));
    summary.wall_ns = now_ns() - s.started_ns;
    summary.others = sum_on_root(others_of(figures()));
    const RankTime my_time = time_of(figures());
    summary.ranks = gather_on_root(&my_time, 1);
    const std::vector<CommRow> my_comms = comms_of(figures());
    summary.comms = merged(gather_on_root(my_comms.data(), my_comms.size()));
    summary.services = gather_services();
    summary.at_once = gather_at_once();
    return summary;
}

}  // namespace

bool stats_wanted() {
    return !shim().stats_path.empty();
}

void say_what_was_not_shared() {
    uint64_t mine = shim().stub->used().refused, all = 0;
    PMPI_Reduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, 0, shim().world);
    if (shim().rank != 0 || all == 0) return;
    const uint64_t limit = shim().settings.memory_shared_bytes_max;
    say(LogLevel::kWarn,
        std::to_string(all) + " blocks did not fit into the shared memory of their ranks (" +
            (limit ? "LONGSHORE_MEMORY_SHARED_BYTES_MAX=" + show_size(limit) : "all of the machine's") +
            "): they are ordinary ones, which move more slowly");
}

void write_stats() {
    if (shim().on) say_what_was_not_shared();
    if (!stats_wanted()) return;
    const Summary summary = gather_summary();
    if (shim().rank != 0) return;
    if (shim().stats_path == "-")
        fputs(summary_text(summary).c_str(), stderr);
    else
        write_file(shim().stats_path, summary_json(summary));
}

}  // namespace longshore::mpi
