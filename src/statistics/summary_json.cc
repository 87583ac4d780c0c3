#include <cinttypes>

#include "statistics/json.h"
#include "statistics/service_report.h"
#include "statistics/summary.h"

namespace longshore::statistics {
namespace {

// Of the file, docs/statistics.md. It grows with each change that a reader must know of.
constexpr int kStatsVersion = 5;

double in_s(uint64_t ns) {
    return static_cast<double>(ns) * 1e-9;
}

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
           ", \"posting_s\": %.6f, \"between_s\": %.6f, \"waiting_s\": %.6f, "
           "\"testing_s\": %.6f, \"mpi_s\": %.6f, \"reasons\": {",
           hidden_bytes(c), own_bytes(c), seconds(CallTime::kPosting), seconds(CallTime::kBetween),
           seconds(CallTime::kWaiting), seconds(CallTime::kTesting), seconds(CallTime::kMpi));
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

void append_memory(std::string* out, const char* reach, const MemoryCounts& m) {
    append(
        out,
        "  \"memory\": {\"reach\": \"%s\", \"mapped_by_ranks\": %" PRIu64
        ", \"peer_copied_by_ranks\": %" PRIu64 ", \"bounced_by_ranks\": %" PRIu64
        ", \"shared_bytes_max\": %" PRIu64 ", \"adopted_bytes\": %" PRIu64 ", \"shared_refused\": %" PRIu64
        ", \"kept_bytes_max\": %" PRIu64 ", \"given_back_bytes\": %" PRIu64 ", \"copied_by_agents\": %" PRIu64
        ", \"blocks_copied_by_ranks\": %" PRIu64 ", \"blocks_copied_by_agents\": %" PRIu64
        ", \"private_bytes_max\": %" PRIu64 ", \"malloc_not_shared\": %" PRIu64 "},\n",
        reach, m.mapped, m.peer_copied, m.bounced, m.shared_bytes_max, m.adopted, m.refused, m.kept_bytes_max,
        m.given_back, m.by_agents, m.blocks_by_ranks, m.blocks_by_agents, m.private_max, m.malloc_not_shared);
}

// What the table of rules asked of the job.
void append_conditions(std::string* out, const SelectionPoint& place) {
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
    append(out, "  \"wall_s\": %.6f,\n  \"share_in_collectives\": %.6f,\n  \"share_in_mpi\": %.6f,\n",
           in_s(summary.wall_ns), share_in_calls(summary), share_in_mpi(summary));
    *out += "  \"rank_times\": [";
    const char* separator = "";
    for (const RankTime& r : summary.ranks) {
        if (!r.known) {
            append(out, "%snull", separator);
            separator = ", ";
            continue;
        }
        append(out, "%s{\"waiting_s\": %.6f, \"testing_s\": %.6f, \"mpi_s\": %.6f, ", separator,
               in_s(r.waiting_ns), in_s(r.testing_ns), in_s(r.mpi_ns));
        append(out, "\"mpi_waits_s\": %.6f, \"mpi_tests_s\": %.6f, ", in_s(r.mpi_waits_ns),
               in_s(r.mpi_tests_ns));
        append(out, "\"uncarried_s\": %.6f, \"other_s\": %.6f}", in_s(r.uncarried_ns), in_s(r.other_ns));
        separator = ", ";
    }
    append(out, "],\n  \"latest_rank\": %d,\n  \"latest_rank_s\": %.6f,\n  \"advice\": [",
           latest_rank(summary), in_s(latest_rank_ns(summary)));
    separator = "";
    for (const std::string& line : advice_on(summary)) {
        *out += separator + quoted(line);
        separator = ", ";
    }
    *out += "],\n";
}

// How far the file reaches: what became of a job that ended without MPI_Finalize.
void append_ends(std::string* out, const Summary& summary) {
    append(out, "  \"complete\": %s,\n", summary.ends.empty() ? "true" : "false");
    if (summary.ends.empty()) return;
    *out += "  \"ended\": [";
    const char* separator = "";
    for (const RankEnd& end : summary.ends) {
        append(out, "%s{\"rank\": %d, \"after_s\": %.6f, \"finalized\": %s", separator, end.rank,
               static_cast<double>(end.after_ns) * 1e-9, end.finalized ? "true" : "false");
        if (end.inside != 0)
            append(out, ", \"inside\": \"%s\", \"inside_s\": %.6f",
                   function_name(static_cast<uint16_t>(end.inside - 1)),
                   static_cast<double>(end.inside_ns) * 1e-9);
        *out += "}";
        separator = ", ";
    }
    *out += "],\n  \"missing_ranks\": [";
    separator = "";
    for (int rank = 0; rank < summary.size; ++rank) {
        const bool known = static_cast<size_t>(rank) < summary.ranks.size() &&
                           summary.ranks[static_cast<size_t>(rank)].known;
        if (known) continue;
        append(out, "%s%d", separator, rank);
        separator = ", ";
    }
    *out += "],\n";
}

void append_packing(std::string* out, const PackCounts& p) {
    append(out,
           "  \"packing\": {\"packed_bytes\": %" PRIu64 ", \"packed_s\": %.6f, \"unpacked_bytes\": %" PRIu64
           ", \"unpacked_s\": %.6f, \"device_bytes\": %" PRIu64 ", \"staging_bytes_max\": %" PRIu64 "},\n",
           p.packed_bytes, static_cast<double>(p.packed_ns) * 1e-9, p.unpacked_bytes,
           static_cast<double>(p.unpacked_ns) * 1e-9, p.device_bytes, p.staging_bytes_max);
}

// Only of jobs that are to write behind.
void append_files(std::string* out, const WriteBehindCounts& f) {
    if (!f.wanted) return;
    append(out,
           "  \"write_behind\": {\"files\": %" PRIu64 ", \"bytes\": %" PRIu64
           ", \"waiting_bytes_max\": %" PRIu64 ", \"bound_bytes\": %" PRIu64 ", \"waits\": %" PRIu64
           ", \"waited_s\": %.6f, \"refused\": %s, "
           "\"passed\": {",
           f.files, f.bytes, f.waiting_bytes_max, f.bound_bytes, f.waits, in_s(f.waited_ns),
           quoted(f.refused).c_str());
    const char* separator = "";
    for (const auto& [reason, count] : f.passed) {
        append(out, "%s%s: %" PRIu64, separator, quoted(reason).c_str(), count);
        separator = ", ";
    }
    *out += "}},\n";
}

void append_at_once(std::string* out, const std::vector<AtOnceCell>& cells) {
    *out += "  \"waited_at_once\": [";
    const char* separator = "\n";
    for (const AtOnceCell& cell : cells) {
        const Call call = Call::at(static_cast<int>(cell.call));
        append(out,
               "%s    {\"call\": \"%s\", \"collective\": \"%s\", \"nodes\": %u, \"ranks_per_node\": %u, ",
               separator, call_name(call), selected_name(selected_of(call)), cell.nodes, cell.ranks_per_node);
        if (has_bytes(selected_of(call)))
            append(out, "\"bytes_first\": %" PRIu64 ", \"bytes_last\": %" PRIu64 ", ",
                   cell.size_class == 0 ? 0 : uint64_t{1} << cell.size_class,
                   (uint64_t{2} << cell.size_class) - 1);
        append(out, "\"calls\": %" PRIu64 ", \"at_once\": %" PRIu64 "}", cell.calls, cell.at_once);
        separator = ",\n";
    }
    *out += cells.empty() ? "],\n" : "\n  ],\n";
}

// Of one call on communicators of one name.
void append_comm_call(std::string* out, Call call, const CommCounts& c) {
    const auto seconds = [&](CallTime kind) { return in_s(c.time_ns[static_cast<int>(kind)]); };
    append(out,
           "\"%s\": {\"calls\": %" PRIu64 ", \"offloaded\": %" PRIu64 ", \"bytes\": %" PRIu64
           ", \"bytes_host\": %" PRIu64
           ", \"posting_s\": %.6f, \"between_s\": %.6f, \"waiting_s\": %.6f, \"testing_s\": %.6f, "
           "\"mpi_s\": %.6f}",
           call_name(call), c.calls, c.offloaded, c.bytes, c.bytes_host, seconds(CallTime::kPosting),
           seconds(CallTime::kBetween), seconds(CallTime::kWaiting), seconds(CallTime::kTesting),
           seconds(CallTime::kMpi));
}

void append_comms(std::string* out, const std::vector<CommRow>& comms) {
    *out += "  \"communicators\": [";
    const char* separator = "\n";
    for (const CommRow& row : comms) {
        append(out, "%s    {\"name\": %s, \"ranks\": %u, \"collectives\": {", separator,
               quoted(row.name).c_str(), row.ranks);
        separator = "";
        for (int i = 0; i < kCallCount; ++i) {
            if (row.call[i].calls == 0) continue;
            *out += separator;
            append_comm_call(out, Call::at(i), row.call[i]);
            separator = ",\n      ";
        }
        *out += "}}";
        separator = ",\n";
    }
    *out += comms.empty() ? "],\n" : "\n  ],\n";
}

void append_others(std::string* out, const OtherCounts& others) {
    *out += "  \"other_calls\": {";
    const char* separator = "\n";
    for (int i = 0; i < kOtherCount; ++i) {
        if (others.calls[i] == 0) continue;
        const auto other = static_cast<Other>(i);
        append(out, "%s    \"%s\": {\"calls\": %" PRIu64 ", \"s\": %.6f, \"collective\": %s}", separator,
               function_name(function_of(other)), others.calls[i], in_s(others.time_ns[i]),
               is_collective(other) ? "true" : "false");
        separator = ",\n";
    }
    *out += *separator == ',' ? "\n  },\n" : "},\n";
}

}  // namespace

std::string summary_json(const Summary& summary) {
    const Counts& counts = summary.counts;
    const CallCounts total = total_of(counts);
    const LateCounts by_collective = late_of(summary.services);
    const ls_late_counts late = by_collective.total();
    uint64_t staged = 0, relayed = 0;
    for (const ls_service_stats& s : summary.services) {
        staged += s.bytes_staged;
        relayed += s.bytes_relayed;
    }
    std::string out = "{\n";
    append(&out, "  \"version\": %d,\n  \"ranks\": %d,\n  \"nodes\": %u,\n  \"offload\": %s,\n",
           kStatsVersion, summary.size, summary.nodes, summary.offload ? "true" : "false");
    append_ends(&out, summary);
    append_conditions(&out, summary.place);
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
    append_comms(&out, summary.comms);
    append_others(&out, summary.others);
    append_at_once(&out, summary.at_once);
    append(&out,
           "  \"late_arrivals\": %" PRIu64 ",\n  \"handed_on\": %" PRIu64 ",\n  \"parked\": %" PRIu64
           ",\n  \"read_by_service\": %" PRIu64 ",\n  \"read_by_rank\": %" PRIu64 ",\n",
           late.late, late.handed_on, late.parked, total.by_service, total.by_rank);
    append(&out,
           "  \"landed\": %" PRIu64 ",\n  \"written_by_service\": %" PRIu64 ",\n  \"staged\": %" PRIu64
           ",\n  \"relayed\": %" PRIu64 ",\n",
           total.landed, total.by_service + total.landed, staged, relayed);
    append_memory(&out, summary.reach.c_str(), summary.memory);
    append_packing(&out, summary.packed);
    append_files(&out, summary.files);
    out += "  ";
    append_late(&out, by_collective);
    out += ",\n  \"services\": [";
    separator = "\n";
    for (const ls_service_stats& s : summary.services) {
        out += separator;
        append_service(&out, s);
        separator = ",\n";
    }
    out += summary.services.empty() ? "]\n}\n" : "\n  ]\n}\n";
    return out;
}

}  // namespace longshore::statistics
