#include "mpi/statistics/log.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/text.h"
#include "mpi/job/group.h"
#include "mpi/requests/operation.h"
#include "mpi/statistics/gather.h"
#include "mpi/statistics/stats.h"
#include "statistics/json.h"
#include "statistics/summary.h"

namespace longshore::mpi {
namespace {

constexpr uint32_t kServicesShown = 64;

std::string counted(uint64_t count, const char* what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string name_of(MPI_Comm comm) {
    if (comm == MPI_COMM_NULL) return "a communicator that is gone";
    char name[MPI_MAX_OBJECT_NAME + 1] = "", shown_name[kCommNameBytes] = "";
    int length = 0, size = 0;
    PMPI_Comm_get_name(comm, name, &length);
    PMPI_Comm_size(comm, &size);
    set_comm_name(shown_name, name);
    return std::string(shown_name[0] ? shown_name : "a communicator without a name") + " of " +
           counted(static_cast<uint64_t>(size), "rank");
}

void say_of_rank(LogLevel level, const std::string& line) {
    say(level, "rank " + std::to_string(shim().rank) + ": " + line);
}

// Settings that are not as they are by default, in a line.
std::string changed_settings() {
    std::string list;
    for (const SettingInfo& info : setting_table()) {
        const std::string value = setting_value(shim().settings, info);
        if (value != info.default_value)
            list += (list.empty() ? "" : " ") + std::string(info.name) + "=" + value;
    }
    return list;
}

void say_services() {
    std::vector<ls_service_stats> services(kServicesShown);
    const uint32_t count =
        std::min(kServicesShown, ls_services(shim().context, services.data(), kServicesShown));
    for (uint32_t i = 0; i < count; ++i) {
        const ls_service_stats& s = services[i];
        std::string line;
        append(&line, "service process %u of node %u ", s.service, s.node);
        if (s.core != UINT32_MAX)
            append(&line, "runs on core %u, which no rank needs", s.core);
        else
            line += "has no core of its own: it leaves blocks to ranks that wait";
        say(LogLevel::kInfo, line);
    }
}

// Why nothing is carried.
const char* why_off() {
    const Shim& s = shim();
    if (s.size == 1) return "the job has one rank";
    return s.settings.offload ? "a line above says why" : "LONGSHORE_OFFLOAD=off";
}

}  // namespace

void log_begin() {
    const Shim& s = shim();
    if (s.rank != 0 || !logs(LogLevel::kInfo)) return;
    if (!s.on) return say(LogLevel::kInfo, std::string("offload is off: ") + why_off());
    std::string line;
    line = "offload is on: " + counted(static_cast<uint64_t>(s.size), "rank") + " on " +
           counted(ls_node_count(s.context), "node") + ", joined by " +
           (s.place.network == kNetworkNone ? "shared memory" : network_name(s.place.network)) +
           "; blocks go " + ls_memory_reach(s.context);
    say(LogLevel::kInfo, line);
    say_services();
    line.clear();
    append(&line, "rules: %s; they see spare cores: %s, crowded: %s, rate: %s",
           s.settings.algorithms_path.empty() ? "built in" : s.settings.algorithms_path.c_str(),
           s.place.spare != 0 ? "yes" : "no", s.place.crowded != 0 ? "yes" : "no",
           s.place.rate == kRateUnknown ? "unknown" : show_rate(s.place.rate).c_str());
    say(LogLevel::kInfo, line);
    const std::string changed = changed_settings();
    say(LogLevel::kInfo, "settings that are not the defaults: " + (changed.empty() ? "none" : changed));
}

void log_end() {
    // Where the summary is written to stderr, it says the same.
    if (!logs(LogLevel::kInfo) || shim().stats_path == "-") return;
    Summary summary;
    if (shim().context) ls_rank_bytes(shim().context, figures().came);
    summary.counts = sum_on_root(counts_of(figures()));
    summary.size = shim().size;
    summary.offload = shim().on;
    summary.place = shim().place;
    if (shim().rank == 0) fputs(calls_text(summary).c_str(), stderr);
}

void log_group(const GroupRecord& record) {
    if (!logs(LogLevel::kDebug)) return;
    std::string line = name_of(record.comm);
    if (record.group)
        line += " on " + counted(record.nodes, "node") + ": is offloaded";
    else
        append(&line, ": left to the MPI: %s", reason_name(record.reason));
    say_of_rank(LogLevel::kDebug, line);
}

void log_posted(Operation* operation) {
    if (!logs(LogLevel::kDebug)) return;
    operation->logged_ns = now_ns();
    std::string line;
    append(&line, "%s on %s: %llu bytes, %s", call_name(operation->call),
           name_of(operation->group->comm).c_str(), static_cast<unsigned long long>(operation->bytes),
           algorithm_name(operation->call, operation->arguments.algorithm));
    say_of_rank(LogLevel::kDebug, line);
}

void log_complete(const Operation& operation) {
    if (!logs(LogLevel::kTrace)) return;
    std::string line;
    append(&line, "%s on %s: complete after %.6f s", call_name(operation.call),
           name_of(operation.group->comm).c_str(),
           static_cast<double>(now_ns() - operation.logged_ns) * 1e-9);
    say_of_rank(LogLevel::kTrace, line);
}

void log_left(Call call, MPI_Comm comm, Reason reason) {
    if (!logs(LogLevel::kDebug)) return;
    const bool is_known = reason != Reason::kArguments;
    say_of_rank(LogLevel::kDebug, std::string(call_name(call)) + (is_known ? " on " + name_of(comm) : "") +
                                      ": left to the MPI: " + reason_name(reason));
}

}  // namespace longshore::mpi
