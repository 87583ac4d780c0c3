#include "mpi/statistics/stats.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/text.h"
#include "mpi/calls/select.h"
#include "mpi/requests/at_once.h"
#include "mpi/statistics/gather.h"
#include "mpi/statistics/json.h"

namespace longshore::mpi {
namespace {

constexpr uint32_t kServicesMax = 64;  // of one node
const char* const kReasonNames[kReasonCount] = {
    "none",     "offload off", "one rank", "intercommunicator", "communicator not seen",
    "no group", "argument",    "small",    "large in place",    "selected"};
constexpr int kAlgorithmCount = 3;

// All uint64_t, so that it adds up over ranks in one reduction.
struct CallCounts {
    uint64_t calls, offloaded, host, bytes, bytes_host, by_service, by_rank, landed;
    uint64_t reasons[kReasonCount];        // of `host`; calls and host are summed up at the end
    uint64_t algorithms[kAlgorithmCount];  // of those offloaded, by ls_algorithm
};
struct Counts {
    CallCounts call[kCallCount];
};
constexpr int kWords = sizeof(Counts) / sizeof(uint64_t);

// Threads may count at once.
std::atomic<uint64_t> words[kWords];

std::atomic<uint64_t>& word(Call call, size_t offset_bytes) {
    return words[(static_cast<size_t>(call.index()) * sizeof(CallCounts) + offset_bytes) / sizeof(uint64_t)];
}

void add(Call call, size_t offset_bytes, uint64_t value) {
    std::atomic<uint64_t>& w = word(call, offset_bytes);
    // Most programs have one thread that calls MPI: a locked addition would be a large part of what a call
    // that the MPI serves costs.
    if (shim().multiple)
        w.fetch_add(value, std::memory_order_relaxed);
    else
        w.store(w.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

// Bytes that came, taken out for blocking calls (index Call); the rest belongs to the other calls of the
// collective.
ls_collective_bytes blocking_bytes[kFamilyCount];
ls_collective_bytes before[kFamilyCount];

bool was_offloaded(Call call) {
    return word(call, offsetof(CallCounts, offloaded)).load(std::memory_order_relaxed) != 0;
}

// If no other call of the collective was ever offloaded, everything is this one's and nobody need look in
// between.
bool has_others(Call call) {
    for (int i = 0; i < kCallCount; ++i) {
        const Call other = Call::at(i);
        if (i != call.index() && other.collective() == call.collective() && was_offloaded(other)) return true;
    }
    return false;
}

// The part of `whole` that is proportional to `part` of `sum`.
uint64_t share(uint64_t whole, uint64_t part, uint64_t sum) {
    if (sum == 0) return 0;
    return static_cast<uint64_t>(static_cast<__uint128_t>(whole) * part / sum);
}

void give(CallCounts* to, const ls_collective_bytes& bytes, ls_collective_bytes* left) {
    to->by_service = std::min(bytes.by_service, left->by_service);
    to->by_rank = std::min(bytes.by_rank, left->by_rank);
    to->landed = std::min(bytes.landed, left->landed);
    left->by_service -= to->by_service;
    left->by_rank -= to->by_rank;
    left->landed -= to->landed;
}

// What blocking calls did not take goes to the other calls, which may be open at once: by the bytes that they
// ask for.
void share_out_rest(Counts* counts, int collective, ls_collective_bytes rest) {
    uint64_t asked = 0;
    for (int i = kFamilyCount; i < kCallCount; ++i)
        if (Call::at(i).collective() == collective) asked += counts->call[i].bytes;
    for (int i = kFamilyCount; i < kCallCount; ++i) {
        CallCounts& own = counts->call[i];
        if (Call::at(i).collective() != collective || own.offloaded == 0) continue;
        const ls_collective_bytes its = {share(rest.by_service, own.bytes, asked),
                                         share(rest.by_rank, own.bytes, asked),
                                         share(rest.landed, own.bytes, asked)};
        asked -= own.bytes;
        give(&own, its, &rest);
    }
}

void share_out(Counts* counts) {
    if (!shim().context) return;
    ls_collective_bytes came[kCollectiveCount] = {};
    ls_rank_bytes(shim().context, came);
    for (int i = 0; i < kFamilyCount; ++i) {
        const Call call = Call::at(i);
        if (!was_offloaded(call)) continue;
        ls_collective_bytes* left = &came[call.collective()];
        give(&counts->call[i], has_others(call) ? blocking_bytes[i] : *left, left);
    }
    for (int i = 0; i < kCollectiveCount; ++i) share_out_rest(counts, i, came[i]);
}

// The service processes of all nodes, on rank 0.
std::vector<ls_service_stats> gather_services() {
    std::vector<ls_service_stats> mine;
    if (shim().context && ls_is_node_leader(shim().context)) {
        mine.resize(kServicesMax);
        mine.resize(std::min(kServicesMax, ls_services(shim().context, mine.data(), kServicesMax)));
    }
    return gather_on_root(mine.data(), mine.size());
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
           ", \"bytes_by_rank\": %" PRIu64 ", \"bytes_landed\": %" PRIu64 ", \"reasons\": {",
           call_name(call), c.calls, c.offloaded, c.host, c.bytes, c.bytes_host, c.by_service, c.by_rank,
           c.landed);
    const char* separator = "";
    for (int r = 0; r < kReasonCount; ++r) {
        if (c.reasons[r] == 0) continue;
        append(out, "%s\"%s\": %" PRIu64, separator, kReasonNames[r], c.reasons[r]);
        separator = ", ";
    }
    *out += "}, \"algorithms\": {";
    append_algorithms(out, call, c);
    *out += "}}";
}

// parked_longest_ns: the longest of all.
void add_late(ls_late_counts* sum, const ls_late_counts& more) {
    sum->received += more.received;
    sum->late += more.late;
    sum->handed_on += more.handed_on;
    sum->rescued += more.rescued;
    sum->parked += more.parked;
    sum->parked_ns += more.parked_ns;
    sum->parked_longest_ns = std::max(sum->parked_longest_ns, more.parked_longest_ns);
}

ls_late_counts late_total(const ls_late_counts (&late)[kCollectiveCount]) {
    ls_late_counts total{};
    for (const ls_late_counts& one : late) add_late(&total, one);
    return total;
}

// A service process knows collectives, not calls: all of a collective's count under the blocking one's name.
void append_late(std::string* out, const ls_late_counts (&late)[kCollectiveCount]) {
    *out += "\"late\": {";
    const char* separator = "";
    for (int i = 0; i < kCollectiveCount; ++i) {
        const ls_late_counts& one = late[i];
        if ((one.received | one.late | one.handed_on | one.rescued | one.parked | one.parked_ns) == 0)
            continue;
        append(out,
               "%s\"%s\": {\"received\": %" PRIu64 ", \"late\": %" PRIu64 ", \"handed_on\": %" PRIu64
               ", \"rescued\": %" PRIu64 ", \"parked\": %" PRIu64 ", \"parked_ns\": %" PRIu64
               ", \"parked_longest_ns\": %" PRIu64 "}",
               separator, call_name(Call::at(i)), one.received, one.late, one.handed_on, one.rescued,
               one.parked, one.parked_ns, one.parked_longest_ns);
        separator = ", ";
    }
    *out += "}";
}

void append_service(std::string* out, const ls_service_stats& s) {
    const ls_late_counts late = late_total(s.late);
    append(out, "    {\"node\": %u, \"service\": %u, \"incarnation\": %u, ", s.node, s.service,
           s.incarnation);
    if (s.core != UINT32_MAX) append(out, "\"core\": %u, ", s.core);
    const auto seconds = [](uint64_t ns) { return static_cast<double>(ns) * 1e-9; };
    append(out,
           "\"busy_s\": %.6f, \"copy_s\": %.6f, \"network_s\": %.6f, \"idle_s\": %.6f, \"cpu_s\": %.6f, "
           "\"sleeps\": %" PRIu64 ", ",
           seconds(s.busy_ns), seconds(s.copy_ns), seconds(s.network_ns), seconds(s.idle_ns),
           seconds(s.cpu_ns), s.sleeps);
    append(out,
           "\"copies\": %" PRIu64 ", \"reads\": %" PRIu64 ", \"taken\": %" PRIu64
           ", \"late_arrivals\": %" PRIu64 ", \"handed_on\": %" PRIu64 ", \"rescued\": %" PRIu64
           ", \"parked\": %" PRIu64 ", ",
           s.copies, s.reads, s.taken, late.late, late.handed_on, late.rescued, late.parked);
    append(out,
           "\"messages_sent\": %" PRIu64 ", \"messages_refused\": %" PRIu64 ", \"stale_messages\": %" PRIu64
           ", \"notifications_resent\": %" PRIu64 ", ",
           s.messages_sent, s.messages_refused, s.stale_messages, s.notifications_resent);
    append(out,
           "\"bytes_mapped\": %" PRIu64 ", \"bytes_peer_copied\": %" PRIu64 ", \"bytes_bounced\": %" PRIu64
           ", \"bytes_between_nodes\": %" PRIu64 ", \"bytes_staged\": %" PRIu64
           ", \"bytes_relayed\": %" PRIu64 ", ",
           s.bytes_mapped, s.bytes_peer_copied, s.bytes_bounced, s.bytes_between_nodes, s.bytes_staged,
           s.bytes_relayed);
    append_late(out, s.late);
    *out += "}";
}

CallCounts total_of(const Counts& counts) {
    CallCounts total{};
    for (const CallCounts& c : counts.call) {
        total.calls += c.calls;
        total.offloaded += c.offloaded;
        total.host += c.host;
        total.bytes += c.bytes;
        total.bytes_host += c.bytes_host;
        total.by_service += c.by_service;
        total.by_rank += c.by_rank;
        total.landed += c.landed;
        for (int r = 0; r < kReasonCount; ++r) total.reasons[r] += c.reasons[r];
    }
    return total;
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

// What ranks packed and unpacked themselves, because it has holes or lies in device memory: bytes as packed,
// and the time in the calls that post and complete. staging_bytes_max: packed at once. Added up over the
// ranks.
struct PackCounts {
    uint64_t packed_bytes, packed_ns, unpacked_bytes, unpacked_ns, device_bytes, staging_bytes_max;
};
struct {
    std::atomic<uint64_t> packed_bytes, packed_ns, unpacked_bytes, unpacked_ns, device_bytes,
        staging_bytes_max;
    std::atomic<int64_t> staging_bytes;
} packing;

PackCounts my_packing() {
    return {packing.packed_bytes, packing.packed_ns,    packing.unpacked_bytes,
            packing.unpacked_ns,  packing.device_bytes, packing.staging_bytes_max};
}

void append_packing(std::string* out, const PackCounts& p) {
    append(out,
           "  \"packing\": {\"packed_bytes\": %" PRIu64 ", \"packed_s\": %.6f, \"unpacked_bytes\": %" PRIu64
           ", \"unpacked_s\": %.6f, \"device_bytes\": %" PRIu64 ", \"staging_bytes_max\": %" PRIu64 "},\n",
           p.packed_bytes, static_cast<double>(p.packed_ns) * 1e-9, p.unpacked_bytes,
           static_cast<double>(p.unpacked_ns) * 1e-9, p.device_bytes, p.staging_bytes_max);
}

void print_packing(const PackCounts& p) {
    if ((p.packed_bytes | p.unpacked_bytes) == 0) return;
    fprintf(
        stderr,
        "longshore: ranks packed %.1f MB in %.3f s and unpacked %.1f MB in %.3f s (%.1f MB of it in device "
        "memory)\n",
        static_cast<double>(p.packed_bytes) * 1e-6, static_cast<double>(p.packed_ns) * 1e-9,
        static_cast<double>(p.unpacked_bytes) * 1e-6, static_cast<double>(p.unpacked_ns) * 1e-9,
        static_cast<double>(p.device_bytes) * 1e-6);
}

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

std::string summary_json(const Counts& counts, const MemoryCounts& memory, const PackCounts& packed,
                         const std::vector<AtOnceCell>& at_once,
                         const std::vector<ls_service_stats>& services) {
    const CallCounts total = total_of(counts);
    ls_late_counts by_collective[kCollectiveCount] = {};
    uint64_t staged = 0, relayed = 0;
    for (const ls_service_stats& s : services) {
        for (int i = 0; i < kCollectiveCount; ++i) add_late(&by_collective[i], s.late[i]);
        staged += s.bytes_staged;
        relayed += s.bytes_relayed;
    }
    const ls_late_counts late = late_total(by_collective);
    std::string out = "{\n";
    append(&out, "  \"ranks\": %d,\n  \"nodes\": %u,\n  \"offload\": %s,\n", shim().size,
           shim().context ? ls_node_count(shim().context) : 0, shim().on ? "true" : "false");
    append_conditions(&out);
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
        append(&line, "%s%" PRIu64 " %s", separator, total.reasons[r], kReasonNames[r]);
        separator = ", ";
    }
    fprintf(stderr, "%s\n", line.c_str());
}

}  // namespace

void count_offloaded(Call call, uint64_t bytes, ls_algorithm algorithm) {
    add(call, offsetof(CallCounts, offloaded), 1);
    add(call, offsetof(CallCounts, bytes), bytes);
    add(call, offsetof(CallCounts, algorithms) + sizeof(uint64_t) * static_cast<size_t>(algorithm), 1);
}

bool stats_wanted() {
    return !shim().stats_path.empty();
}

void count_host(Call call, Reason reason, uint64_t bytes) {
    if (bytes != 0) add(call, offsetof(CallCounts, bytes_host), bytes);
    add(call, offsetof(CallCounts, reasons) + sizeof(uint64_t) * static_cast<size_t>(reason), 1);
}

void count_packed(uint64_t bytes, uint64_t device_bytes, uint64_t ns) {
    packing.packed_bytes += bytes;
    packing.packed_ns += ns;
    packing.device_bytes += device_bytes;
}

void count_unpacked(uint64_t bytes, uint64_t device_bytes, uint64_t ns) {
    packing.unpacked_bytes += bytes;
    packing.unpacked_ns += ns;
    packing.device_bytes += device_bytes;
}

void count_staging(int64_t bytes) {
    const int64_t now = packing.staging_bytes.fetch_add(bytes) + bytes;
    uint64_t most = packing.staging_bytes_max;
    while (now > 0 && static_cast<uint64_t>(now) > most &&
           !packing.staging_bytes_max.compare_exchange_weak(most, static_cast<uint64_t>(now))) {
    }
}

void note_blocking_begin(Call call) {
    if (!stats_wanted() || !has_others(call)) return;
    ls_collective_bytes now[kCollectiveCount];
    ContextLock lock;
    ls_rank_bytes(shim().context, now);
    before[call.index()] = now[call.collective()];
}

void note_blocking_end(Call call) {
    if (!stats_wanted()) return;
    ls_collective_bytes all[kCollectiveCount];
    ContextLock lock;
    ls_rank_bytes(shim().context, all);
    const ls_collective_bytes& now = all[call.collective()];
    ls_collective_bytes& own = blocking_bytes[call.index()];
    if (!has_others(call)) {
        own = now;
        return;
    }
    const ls_collective_bytes& then = before[call.index()];
    own.by_service += now.by_service - then.by_service;
    own.by_rank += now.by_rank - then.by_rank;
    own.landed += now.landed - then.landed;
}

longshore_counters counters() {
    longshore_counters out{};
    for (int i = 0; i < kCallCount; ++i) {
        out.offloaded += word(Call::at(i), offsetof(CallCounts, offloaded)).load();
        for (size_t reason = 0; reason < kReasonCount; ++reason)
            out.host += word(Call::at(i), offsetof(CallCounts, reasons) + sizeof(uint64_t) * reason).load();
    }
    ls_collective_bytes came[kCollectiveCount] = {};
    ContextLock lock;
    ls_rank_bytes(shim().context, came);
    for (const ls_collective_bytes& bytes : came) {
        out.bytes_by_service += bytes.by_service;
        out.bytes_by_rank += bytes.by_rank;
    }
    return out;
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
    Counts mine{}, sum{};
    std::array<uint64_t, kWords> copy{};
    for (int i = 0; i < kWords; ++i) copy[static_cast<size_t>(i)] = words[i].load();
    memcpy(&mine, copy.data(), sizeof mine);
    for (CallCounts& c : mine.call) {
        for (const uint64_t count : c.reasons) c.host += count;
        c.calls = c.offloaded + c.host;
    }
    share_out(&mine);
    PMPI_Reduce(&mine, &sum, kWords, MPI_UINT64_T, MPI_SUM, 0, shim().world);
    std::vector<ls_service_stats> services = gather_services();
    const std::vector<AtOnceCell> at_once = gather_at_once();
    if (shim().rank != 0) return;
    if (shim().stats_path == "-") {
        print_line(sum);
        print_packing(packed);
        print_at_once(at_once);
    } else {
        write_file(shim().stats_path, summary_json(sum, memory, packed, at_once, services));
    }
}

void write_file(const std::string& path, const std::string& text) {
    const std::string partial = path + ".partial";
    FILE* file = fopen(partial.c_str(), "w");
    bool ok = file && fwrite(text.data(), 1, text.size(), file) == text.size();
    if (file) ok = fclose(file) == 0 && ok;
    ok = ok && rename(partial.c_str(), path.c_str()) == 0;
    if (!ok) fprintf(stderr, "longshore: cannot write %s: %s\n", path.c_str(), strerror(errno));
}

}  // namespace longshore::mpi
