#include "statistics/service_report.h"

#include <algorithm>
#include <cinttypes>

#include "statistics/call.h"
#include "statistics/json.h"

namespace longshore::statistics {
namespace {

// parked_longest_ns: the longest of all.
void add_late(ls_late_counts* sum, const ls_late_counts& more) {
    sum->received += more.received;
    sum->late += more.late;
    sum->handed_on += more.handed_on;
    sum->rescued += more.rescued;
    sum->parked += more.parked;
    sum->readers += more.readers;
    sum->parked_ns += more.parked_ns;
    sum->parked_longest_ns = std::max(sum->parked_longest_ns, more.parked_longest_ns);
}

}  // namespace

ls_late_counts LateCounts::total() const {
    ls_late_counts total{};
    for (const ls_late_counts& one : of) add_late(&total, one);
    return total;
}

LateCounts late_of(const std::vector<ls_service_stats>& services) {
    LateCounts late{};
    for (const ls_service_stats& s : services) {
        for (int i = 0; i < kCollectiveCount; ++i) add_late(&late.of[i], s.late[i]);
    }
    return late;
}

// A service process knows collectives, not calls: all of a collective's count under the blocking one's name.
void append_late(std::string* out, const LateCounts& late) {
    *out += "\"late\": {";
    const char* separator = "";
    for (int i = 0; i < kCollectiveCount; ++i) {
        const ls_late_counts& one = late.of[i];
        if ((one.received | one.late | one.handed_on | one.rescued | one.parked | one.parked_ns |
             one.readers) == 0)
            continue;
        append(out,
               "%s\"%s\": {\"received\": %" PRIu64 ", \"late\": %" PRIu64 ", \"handed_on\": %" PRIu64
               ", \"rescued\": %" PRIu64 ", \"parked\": %" PRIu64 ", \"parked_ns\": %" PRIu64
               ", \"parked_longest_ns\": %" PRIu64 ", \"readers\": %" PRIu64 "}",
               separator, call_name(Call::at(i)), one.received, one.late, one.handed_on, one.rescued,
               one.parked, one.parked_ns, one.parked_longest_ns, one.readers);
        separator = ", ";
    }
    *out += "}";
}

void append_service(std::string* out, const ls_service_stats& s) {
    const LateCounts by_collective = late_of({s});
    const ls_late_counts late = by_collective.total();
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
           ", \"bytes_relayed\": %" PRIu64 ", \"bytes_to_host\": %" PRIu64 ", ",
           s.bytes_mapped, s.bytes_peer_copied, s.bytes_bounced, s.bytes_between_nodes, s.bytes_staged,
           s.bytes_relayed, s.bytes_to_host);
    append_late(out, by_collective);
    *out += "}";
}

}  // namespace longshore::statistics
