#include "mpi/statistics/stats.h"

#include <sys/stat.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/text.h"
#include "mpi/calls/select.h"
#include "mpi/requests/at_once.h"
#include "mpi/statistics/call_counts.h"
#include "mpi/statistics/gather.h"
#include "mpi/statistics/json.h"
#include "mpi/statistics/packing.h"
#include "mpi/statistics/service_report.h"
#include "mpi/statistics/summary_text.h"

namespace longshore::mpi {
namespace {

// Of the file, docs/statistics.md. It grows with each change that a reader must know of.
constexpr int kStatsVersion = 2;

void append_algorithms(std::string* out, Call call, const CallCounts& c) {
    const char* separator = "";
    const auto add_one = [&](const char* name, uint64_t count) {
        if (count == 0) return;
        append(out, "%s\"%s\": %" PRIu64, separator, name, count);
        separator = ", ";
    };
    add_one("mpi", c.host);
    for (int i = 0; i < kAlgorithmCount; ++i)
        add_one(algorithm_name(call, static_cast<ls_algorithm>(i)), c.algorithms[i]);
}

void append_call(std::string* out, Call call, const CallCounts& c) {
    append(out,
           "    \"%s\": {\"calls\": %" PRIu64 ", \"offloaded\": %" PRIu64 ", \"host\": %" PRIu64
           ", \"bytes\": %" PRIu64 ", \"bytes_host\": %" PRIu64 ", \"bytes_by_service\": %" PRIu64
           ", \"bytes_by_rank\": %" PRIu64 ", \"bytes_landed\": %" PRIu64,
           call_name(call), c.calls, c.offloaded, c.host, c.bytes, c.bytes_host, c.by_service, c.by_rank,
           c.landed);
    const auto seconds = [&](CallTime kind) {
        return static_cast<double>(c.time_ns[static_cast<int>(kind)]) * 1e-9;
    };
    append(out,
           ", \"bytes_hidden\": %" PRIu64 ", \"bytes_own\": %" PRIu64
           ", \"posting_s\": %.6f, \"between_s\": %.6f, \"waiting_s\": %.6f, \"mpi_s\": %.6f, \"reasons\": {",
           hidden_bytes(c), own_bytes(c), seconds(CallTime::kPosting), seconds(CallTime::kBetween),
           seconds(CallTime::kWaiting), seconds(CallTime::kMpi));
    const char* separator = "";
    for (int r = 0; r < kReasonCount; ++r) {
        if (c.reasons[r] == 0) continue;
        append(out, "%s\"%s\": %" PRIu64, separator, reason_name(static_cast<Reason>(r)), c.reasons[r]);
        separator = ", ";
    }
    *out += "}, \"algorithms\": {";
    append_algorithms(out, call, c);
    *out += "}}";
}

// How ranks reached each other's memory, and what they shared of their own. Added up over them.
struct MemoryCounts {
    uint64_t mapped, peer_copied, bounced;
    uint64_t shared_bytes_max, adopted, refused;
    uint64_t kept_bytes_max, given_back;  // of freed blocks: kept for the next ones, given back to the system

    static MemoryCounts mine() {
        const ls_moved_bytes moved = shim().context ? ls_rank_moved(shim().context) : ls_moved_bytes{};
        const longshore_heap_use use = shim().stub->used();
        return {moved.mapped,      moved.peer_copied, moved.bounced,      use.live_bytes_max,
                use.adopted_bytes, use.refused,       use.kept_bytes_max, use.given_back_bytes};
    }
};

void append_memory(std::string* out, const MemoryCounts& m) {
    append(out,
           "  \"memory\": {\"reach\": \"%s\", \"mapped_by_ranks\": %" PRIu64
           ", \"peer_copied_by_ranks\": %" PRIu64 ", \"bounced_by_ranks\": %" PRIu64
           ", \"shared_bytes_max\": %" PRIu64 ", \"adopted_bytes\": %" PRIu64 ", \"shared_refused\": %" PRIu64
           ", \"kept_bytes_max\": %" PRIu64 ", \"given_back_bytes\": %" PRIu64 "},\n",
           shim().context ? ls_memory_reach(shim().context) : "none", m.mapped, m.peer_copied, m.bounced,
           m.shared_bytes_max, m.adopted, m.refused, m.kept_bytes_max, m.given_back);
}

// What the table of rules asked of the job.
void append_conditions(std::string* out) {
    const SelectionPoint& place = shim().place;
    const auto word = [](uint64_t answer) { return answer != 0 ? "yes" : "no"; };
    append(out,
           "  \"conditions\": {\"network\": \"%s\", \"spare\": \"%s\", \"crowded\": \"%s\", \"rate\": "
           "\"%s\"},\n",
           network_name(place.network), word(place.spare), word(place.crowded),
           place.rate == kRateUnknown ? "unknown" : show_rate(place.rate).c_str());
}

// A string of JSON; what it holds are sentences of our own, without control characters.
std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + "\"";
}

// Where the time went, and in words what to do about it.
void append_time(std::string* out, const Summary& summary) {
    append(out, "  \"wall_s\": %.6f,\n  \"share_in_collectives\": %.6f,\n  \"rank_times\": [",
           static_cast<double>(summary.wall_ns) * 1e-9, share_in_calls(summary));
    const char* separator = "";
    for (const RankTime& r : summary.ranks) {
        append(out, "%s{\"waiting_s\": %.6f, \"mpi_s\": %.6f, \"mpi_waits_s\": %.6f}", separator,
               static_cast<double>(r.waiting_ns) * 1e-9, static_cast<double>(r.mpi_ns) * 1e-9,
               static_cast<double>(r.mpi_waits_ns) * 1e-9);
        separator = ", ";
    }
    append(out, "],\n  \"latest_rank\": %d,\n  \"advice\": [", latest_rank(summary));
    separator = "";
    for (const std::string& line : advice_on(summary)) {
        *out += separator + quoted(line);
        separator = ", ";
    }
    *out += "],\n";
}

std::string summary_json(const Summary& summary, const MemoryCounts& memory, const PackCounts& packed,
                         const std::vector<AtOnceCell>& at_once,
                         const std::vector<ls_service_stats>& services) {
    const Counts& counts = summary.counts;
    const CallCounts total = total_of(counts);
    const LateCounts by_collective = late_of(services);
    const ls_late_counts late = by_collective.total();
    uint64_t staged = 0, relayed = 0;
    for (const ls_service_stats& s : services) {
        staged += s.bytes_staged;
        relayed += s.bytes_relayed;
    }
    std::string out = "{\n";
    append(&out, "  \"version\": %d,\n  \"ranks\": %d,\n  \"nodes\": %u,\n  \"offload\": %s,\n",
           kStatsVersion, shim().size, shim().context ? ls_node_count(shim().context) : 0,
           shim().on ? "true" : "false");
    append_conditions(&out);
    append_time(&out, summary);
    out += "  \"collectives\": {\n";
    const char* separator = "";
    for (int i = 0; i < kCallCount; ++i) {
        if (counts.call[i].calls == 0) continue;
        out += separator;
        append_call(&out, Call::at(i), counts.call[i]);
        separator = ",\n";
    }
    out += *separator ? "\n  },\n" : "  },\n";
    append_at_once(&out, at_once);
    append(&out,
           "  \"late_arrivals\": %" PRIu64 ",\n  \"handed_on\": %" PRIu64 ",\n  \"parked\": %" PRIu64
           ",\n  \"read_by_service\": %" PRIu64 ",\n  \"read_by_rank\": %" PRIu64 ",\n",
           late.late, late.handed_on, late.parked, total.by_service, total.by_rank);
    append(&out,
           "  \"landed\": %" PRIu64 ",\n  \"written_by_service\": %" PRIu64 ",\n  \"staged\": %" PRIu64
           ",\n  \"relayed\": %" PRIu64 ",\n",
           total.landed, total.by_service + total.landed, staged, relayed);
    append_memory(&out, memory);
    append_packing(&out, packed);
    out += "  ";
    append_late(&out, by_collective);
    out += ",\n  \"services\": [";
    separator = "\n";
    for (const ls_service_stats& s : services) {
        out += separator;
        append_service(&out, s);
        separator = ",\n";
    }
    out += services.empty() ? "]\n}\n" : "\n  ]\n}\n";
    return out;
}

void print_line(const Counts& counts) {
    const CallCounts total = total_of(counts);
    std::string line;
    append(&line, "longshore: %" PRIu64 " of %" PRIu64 " collective calls offloaded, %.1f MB",
           total.offloaded, total.calls, static_cast<double>(total.bytes) * 1e-6);
    append(&line, " (moved by service processes %.1f, by waiting ranks %.1f)",
           static_cast<double>(total.by_service) * 1e-6, static_cast<double>(total.by_rank) * 1e-6);
    const char* separator = "; left to MPI: ";
    for (int r = 0; r < kReasonCount; ++r) {
        if (total.reasons[r] == 0) continue;
        append(&line, "%s%" PRIu64 " %s", separator, total.reasons[r], reason_name(static_cast<Reason>(r)));
        separator = ", ";
    }
    fprintf(stderr, "%s\n", line.c_str());
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
    MemoryCounts my_memory = MemoryCounts::mine(), memory{};
    PMPI_Reduce(&my_memory, &memory, sizeof memory / sizeof(uint64_t), MPI_UINT64_T, MPI_SUM, 0,
                shim().world);
    PackCounts my_packed = my_packing(), packed{};
    PMPI_Reduce(&my_packed, &packed, sizeof packed / sizeof(uint64_t), MPI_UINT64_T, MPI_SUM, 0,
                shim().world);
    Counts mine = my_counts();
    Summary summary{};
    PMPI_Reduce(&mine, &summary.counts, sizeof mine / sizeof(uint64_t), MPI_UINT64_T, MPI_SUM, 0,
                shim().world);
    summary.wall_ns = now_ns() - shim().started_ns;
    const CallCounts my_total = total_of(mine);
    const RankTime my_time = {my_total.time_ns[static_cast<int>(CallTime::kWaiting)],
                              my_total.time_ns[static_cast<int>(CallTime::kMpi)], mpi_waits_ns()};
    summary.ranks = gather_on_root(&my_time, 1);
    std::vector<ls_service_stats> services = gather_services();
    const std::vector<AtOnceCell> at_once = gather_at_once();
    if (shim().rank != 0) return;
    if (shim().stats_path == "-") {
        print_line(summary.counts);
        print_summary(summary);
        print_packing(packed);
        print_at_once(at_once);
    } else {
        write_file(shim().stats_path, summary_json(summary, memory, packed, at_once, services));
    }
}

void write_file(const std::string& path, const std::string& text) {
    struct stat status {};
    const bool exists = stat(path.c_str(), &status) == 0;
    // Devices and pipes are written into: nothing may take their place.
    const bool is_file = !exists || S_ISREG(status.st_mode);
    // What is there is not lost: it may be the result of hours.
    const std::string old = path + ".old";
    if (exists && is_file && status.st_size > 0 && rename(path.c_str(), old.c_str()) == 0)
        fprintf(stderr, "longshore: %s was there already: that file is now %s\n", path.c_str(), old.c_str());
    const std::string partial = is_file ? path + ".partial" : path;
    FILE* file = fopen(partial.c_str(), "w");
    bool ok = file && fwrite(text.data(), 1, text.size(), file) == text.size();
    if (file) ok = fclose(file) == 0 && ok;
    if (is_file) ok = ok && rename(partial.c_str(), path.c_str()) == 0;
    if (!ok) fprintf(stderr, "longshore: cannot write %s: %s\n", path.c_str(), strerror(errno));
}

}  // namespace longshore::mpi
