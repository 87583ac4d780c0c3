#include "base/settings.h"

#include <algorithm>
#include <array>

#include "base/setting_values.h"
#include "base/text.h"

namespace longshore {
namespace {

constexpr std::string_view kPrefix = "LONGSHORE_";
constexpr std::string_view kInternalPrefix = "LONGSHORE_INTERNAL_";
constexpr std::string_view kUcxPrefix = "LONGSHORE_UCX_";  // UCX reads them, in service processes
constexpr size_t kNameBytesMax =
    64;  // a longer name is never a misspelt setting: no suggestion is looked for
constexpr uint64_t kKiB = 1024;

// clang-format off
constexpr std::array kTable = {
    SettingInfo{"LONGSHORE_OFFLOAD", "on", "", "on or off",
        "Offload collectives; off leaves every call to the MPI at the cost of one branch.", true},
    SettingInfo{"LONGSHORE_STRICT", "0", "", "0 or 1",
        "1 makes a bad setting fatal; 0 reports it once and uses the default."},
    SettingInfo{"LONGSHORE_STATS", "", "", "a file name, - for a table on stderr, or empty for none",
        "Where to write one summary of the job (JSON); %j, %h and %p in it are the job, rank 0's host and its process."},
    SettingInfo{"LONGSHORE_TRACE", "", "", "a file name, or empty for none",
        "Where to write a timeline of the job (Chrome trace format, opens in Perfetto); %j, %h and %p as above."},
    SettingInfo{"LONGSHORE_LOG", "warn", "", "warn, info, debug or trace",
        "How much to say on stderr: info what was decided and why, debug each call, trace its end."},
    SettingInfo{"LONGSHORE_ALGORITHMS_FILE", "", "", "a file name, or empty for the built-in table",
        "Which algorithm carries which call, as 'longshore tune' writes it."},
    SettingInfo{kForcedAlgorithmsName, "", "",
        "mpi, direct, staged (ALLGATHER, ALLGATHERV, BCAST: staged-flat, staged-hierarchical), or empty",
        "Force one algorithm: a variable each for ALLTOALL, ALLTOALLV, ALLGATHER, ALLGATHERV, BCAST, GATHER, "
        "GATHERV, SCATTER and SCATTERV."},
    SettingInfo{"LONGSHORE_SERVICE_COUNT", "0", "per node", "a number from 0 to 16; 0 is as many as suit the job",
        "Service processes of a node; 0: one, one for two ranks where these are bound and leave cores, on DPUs one for eight."},
    SettingInfo{"LONGSHORE_SERVICE_READS_MAX", "64", "", "a number from 1 to 256",
        "Reads that one service process keeps in flight, at most; how many bytes follows the link and its own waits for a core."},
    SettingInfo{"LONGSHORE_SERVICE_SPIN_US", "1000", "us", "a number from 0 to 1000000",
        "How long an idle service process on a spare core polls before it sleeps."},
    SettingInfo{"LONGSHORE_SERVICE_PATH", "", "", "a file name, or empty for longshored beside the shim",
        "The program to start as service process."},
    SettingInfo{"LONGSHORE_SERVICE_CORES", "auto", "", "auto, none, or a list of CPUs such as 2,3 or 8-11",
        "Where service processes run: on spare cores, not bound, or on the CPUs listed."},
    SettingInfo{"LONGSHORE_SERVICE_RESTARTS_MAX", "16", "per node", "a number from 0 to 1000",
        "How often a lost service process is started again before offload is switched off."},
    SettingInfo{"LONGSHORE_DPU", "", "", "HOST[:PORT] of the host's DPU (%h: the host's name), host=HOST[:PORT],..., @FILE, or empty",
        "Where service processes run on DPUs: which serves which host; @FILE has lines of a host and its DPU."},
    SettingInfo{"LONGSHORE_TASK_PROCESSES", "0", "per pool and node", "a number from 0 to 256; 0 is one for each rank",
        "Task processes that a plug-in runs in, for programs that submit tasks."},
    SettingInfo{"LONGSHORE_TASK_CORES", "auto", "", "auto, none, ranks, other-socket, or a list of CPUs such as 2,3 or 8-11",
        "Where task processes run: on spare cores, not bound, on the ranks' own cores, on a socket without ranks, or on the CPUs listed."},
    SettingInfo{"LONGSHORE_TASK_NODE", "", "", "next, the number of a node of the job, the name of its host, dpu, or empty for the own node",
        "On which node the task processes of every node's pools run, over TCP; next: each on the node after its own; dpu: on LONGSHORE_DPU."},
    SettingInfo{"LONGSHORE_TASK_PATH", "", "", "folders with colons between them, or empty",
        "Where plug-ins are looked for first, then beside the program.", true},
    SettingInfo{"LONGSHORE_WRITE_BEHIND", "", "", "patterns of absolute paths with colons between them, strict among them, or empty for none",
        "Which files a process of the node writes while the ranks go on; strict: close waits for it ('run --write-behind')."},
    SettingInfo{"LONGSHORE_WRITE_BEHIND_BYTES_MAX", "256M", "bytes per rank", "a size from 1M to 1024G",
        "What may wait to be written, in memory; then a write waits."},
    SettingInfo{"LONGSHORE_NODES_COUNT", "0", "nodes", "a number from 0 to 1024; 0 takes the real nodes",
        "Treat the ranks of one machine as if they ran on this many nodes (for tests)."},
    SettingInfo{"LONGSHORE_NODES_PLACEMENT", "contiguous", "", "contiguous or strided",
        "How ranks are dealt to emulated nodes: in blocks, or one after another."},
    SettingInfo{"LONGSHORE_WAIT_COOPERATIVE", "on", "", "on or off",
        "Let a rank that waits move blocks of its own operations."},
    SettingInfo{"LONGSHORE_WAIT_REPORT_S", "30", "s", "a number from 0 to 86400; 0 is never",
        "After how long a wait says on stderr which ranks are missing."},
    SettingInfo{"LONGSHORE_LIMIT_S", "5", "s", "a number from 1 to 3600",
        "How long what must answer (attaching, transfers, service processes) may take; starting, six times. Suspended time does not count."},
    SettingInfo{"LONGSHORE_NETWORK", "auto", "", "auto, tcp or ucx",
        "What carries data between machines; auto: UCX where all nodes have RDMA devices, else TCP."},
    SettingInfo{"LONGSHORE_NETWORK_SECURITY", "handshake", "", "handshake or tls",
        "TCP: who connects proves to be of the job; tls: and everything is encrypted."},
    SettingInfo{"LONGSHORE_NETWORK_PORTS", "any", "", "any, a port, or ports such as 20000-20999",
        "TCP: where service processes are reached, one port for all of a node and job."},
    SettingInfo{"LONGSHORE_NETWORK_INTERFACES", "", "", "names such as eth0,ib0, or empty for all",
        "TCP: the network interfaces to use."},
    SettingInfo{"LONGSHORE_LINK_RATE", "auto", "", "auto, or a rate such as 100M or 2.5G (bits/s)",
        "How fast nodes reach each other, for conditions of the table of rules; auto: as the interfaces say."},
    SettingInfo{"LONGSHORE_EAGER_BYTES", "16K", "bytes", "a size from 0 to 64K",
        "Blocks up to this size go through the node's shared memory, and those up to 1K inside the notification."},
    SettingInfo{"LONGSHORE_CHUNK_BYTES", "256K", "bytes", "a power of two from 4K to 1M",
        "Larger blocks move in chunks of this size."},
    SettingInfo{"LONGSHORE_SNAPSHOT_BYTES_MAX", "256M", "bytes", "a size from 0 to 1024G",
        "A larger MPI_Alltoall in place is left to MPI, because its outgoing blocks must be copied first."},
    SettingInfo{"LONGSHORE_MEMORY_MODE", "auto", "", "auto, direct or staging",
        "How blocks move: from rank to rank, or through staging memory; auto: the former where that is possible."},
    SettingInfo{"LONGSHORE_MEMORY_ALIAS", "allocate", "", "off, allocate, adopt or adopt-at-once",
        "What ranks share, to move by plain copies: large blocks of malloc; adopt: static data that moves often, too.", true},
    SettingInfo{"LONGSHORE_MEMORY_SHARED_BYTES_MAX", "0", "bytes per rank", "a size from 0 to 8192G; 0 is the machine's memory",
        "The most of it; further blocks are ordinary ones.", true},
    SettingInfo{"LONGSHORE_STAGING_BYTES", "16M", "bytes per service process", "a size from 64K to 128G",
        "Staging memory, for the staged algorithms and the memory mode; larger blocks go in pieces."},
    SettingInfo{"LONGSHORE_MEMORY_INACCESSIBLE", "0", "", "0 or 1",
        "Test mode: memory of the application can be reached through the fabric only."},
};

constexpr std::array<SettingRule, kTable.size()> kRules = {
    SettingRule{&Settings::offload},
    SettingRule{&Settings::strict},
    SettingRule{&Settings::stats_path},
    SettingRule{&Settings::trace_path},
    SettingRule{&Settings::log},
    SettingRule{&Settings::algorithms_path},
    SettingRule{&Settings::forced_algorithms},
    SettingRule{&Settings::service_count, 0, 16},
    SettingRule{&Settings::service_reads_max, 1, 256},
    SettingRule{&Settings::service_spin_us, 0, 1000000},
    SettingRule{&Settings::service_path},
    SettingRule{&Settings::service_cores},
    SettingRule{&Settings::service_restarts_max, 0, 1000},
    SettingRule{&Settings::dpu},
    SettingRule{&Settings::task_processes, 0, 256},
    SettingRule{&Settings::task_cores},
    SettingRule{&Settings::task_node},
    SettingRule{&Settings::task_path},
    SettingRule{&Settings::write_behind},
    SettingRule{&Settings::write_behind_bytes_max, kKiB * kKiB, 1024 * kKiB * kKiB * kKiB},
    SettingRule{&Settings::nodes_count, 0, 1024},
    SettingRule{&Settings::nodes_placement},
    SettingRule{&Settings::wait_cooperative},
    SettingRule{&Settings::wait_report_s, 0, 86400},
    SettingRule{&Settings::limit_s, 1, 3600},
    SettingRule{&Settings::network},
    SettingRule{&Settings::network_security},
    SettingRule{&Settings::network_ports},
    SettingRule{&Settings::network_interfaces},
    SettingRule{&Settings::link_rate},
    SettingRule{&Settings::eager_bytes, 0, 64 * kKiB},
    SettingRule{&Settings::chunk_bytes, 4 * kKiB, kKiB * kKiB, true},
    SettingRule{&Settings::snapshot_bytes_max, 0, 1024 * kKiB * kKiB * kKiB},
    SettingRule{&Settings::memory_mode},
    SettingRule{&Settings::memory_alias},
    SettingRule{&Settings::memory_shared_bytes_max, 0, 8192 * kKiB * kKiB * kKiB},
    SettingRule{&Settings::staging_bytes, 64 * kKiB, 128 * kKiB * kKiB * kKiB},
    SettingRule{&Settings::memory_inaccessible},
};
// clang-format on
static_assert(kTable.size() <= 38, "the settings stay few");

// The members of the family kForcedAlgorithmsName, by Selected.
constexpr std::array<const char*, kSelectedCount> kForcedNames = {
#define LONGSHORE_COLLECTIVE(NAME, Name, name, arguments, is_shared, bytes_known) \
    "LONGSHORE_" #NAME "_ALGORITHM",
#include "base/collectives.inc"
};

size_t row_of(std::string_view name) {
    const auto* row =
        std::find_if(kTable.begin(), kTable.end(), [&](const auto& info) { return name == info.name; });
    return static_cast<size_t>(row - kTable.begin());
}

// Every variable that a user can set.
std::array<const char*, kTable.size() - 1 + kSelectedCount> user_names() {
    std::array<const char*, kTable.size() - 1 + kSelectedCount> names{};
    size_t count = 0;
    for (const SettingInfo& info : kTable)
        if (std::string_view(info.name) != kForcedAlgorithmsName) names[count++] = info.name;
    for (const char* name : kForcedNames) names[count++] = name;
    return names;
}

SettingError unknown_name(std::string_view name) {
    std::string message = shown(name) + " is not a setting";
    const char* nearest = suggest_setting(name);
    message += *nearest != 0 ? std::string("; did you mean ") + nearest + "?"
                             : std::string("; 'longshore config' lists them all");
    return {std::string(name.substr(0, kNameBytesMax)), std::move(message)};
}

SettingError bad_value(const char* name, std::string_view value, std::string_view allowed) {
    return {name,
            std::string(name) + "=" + shown(value) + " is not valid: it must be " + std::string(allowed)};
}

size_t forced_of(std::string_view name) {
    return static_cast<size_t>(std::find(kForcedNames.begin(), kForcedNames.end(), name) -
                               kForcedNames.begin());
}

bool set_forced(size_t i, std::string_view value, Settings* settings, SettingError* error) {
    const auto collective = static_cast<Selected>(i);
    const std::optional<Carrier> carrier = find_carrier(collective, value);
    const bool valid = carrier || value.empty();
    if (valid) settings->forced_algorithms.of[i] = carrier;
    if (!valid && error != nullptr) *error = bad_value(kForcedNames[i], value, carrier_list(collective));
    return valid;
}

}  // namespace

uint32_t services_by_default(bool on_dpu, uint32_t ranks_of_node, uint32_t spare_cores) {
    constexpr uint32_t kRanksEach = 2, kRanksEachOnDpu = 8, kServicesMax = 16;
    const uint32_t each = on_dpu ? kRanksEachOnDpu : kRanksEach, wanted = (ranks_of_node + each - 1) / each;
    return std::clamp(on_dpu ? wanted : std::min(wanted, spare_cores), 1u, kServicesMax);
}

std::span<const SettingInfo> setting_table() {
    return kTable;
}

std::span<const char* const> forced_algorithm_names() {
    return kForcedNames;
}

std::string setting_value(const Settings& settings, const SettingInfo& info) {
    std::string text;
    without_throwing([&] {
        const size_t row = row_of(info.name);
        if (row == kTable.size()) return false;
        text = show_setting(settings, kRules[row], info);
        return true;
    });
    return text;
}

bool set_setting(std::string_view name, std::string_view value, Settings* settings, SettingError* error) {
    return without_throwing([&] {
        if (const size_t i = forced_of(name); i < kSelectedCount)
            return set_forced(i, value, settings, error);
        const size_t row = row_of(name);
        if (row == kTable.size()) {
            if (error != nullptr) *error = unknown_name(name);
            return false;
        }
        const std::string_view text = value.empty() ? kTable[row].default_value : value;
        const bool valid = read_setting(text, kRules[row], settings);
        if (!valid && error != nullptr) *error = bad_value(kTable[row].name, value, kTable[row].allowed);
        return valid;
    });
}

bool parse_settings(const char* const* environment, Settings* settings, std::vector<SettingError>* errors) {
    return without_throwing([&] {
        *settings = Settings{};
        std::array<bool, kTable.size() + kSelectedCount> seen{};
        bool valid = true;
        for (; environment != nullptr && *environment != nullptr; ++environment) {
            const std::string_view entry(*environment);
            if (!entry.starts_with(kPrefix) || entry.starts_with(kInternalPrefix) ||
                entry.starts_with(kUcxPrefix))
                continue;
            const size_t equals = entry.find('=');
            if (equals == entry.npos) continue;  // not a variable, and getenv would not see it either
            const std::string_view name = entry.substr(0, equals);
            const size_t row = row_of(name), known = row < kTable.size() ? row : row + forced_of(name);
            if (known < seen.size()) {
                if (seen[known]) continue;  // the first one counts, as with getenv
                seen[known] = true;
            }
            SettingError error;
            if (set_setting(name, entry.substr(equals + 1), settings, &error)) continue;
            valid = false;
            if (errors != nullptr) errors->push_back(std::move(error));
        }
        return valid;
    });
}

std::string encode_settings(const Settings& settings) {
    std::string text;
    without_throwing([&] {
        for (const SettingInfo& info : kTable) {
            text.append(info.name).append("=").append(setting_value(settings, info)).append("\n");
        }
        return true;
    });
    return text;
}

bool decode_settings(std::string_view text, Settings* settings, std::vector<SettingError>* errors) {
    return without_throwing([&] {
        *settings = Settings{};
        bool valid = true;
        while (!text.empty()) {
            const size_t end = text.find('\n');
            const std::string_view line = text.substr(0, end);
            const size_t equals = line.find('=');
            SettingError error;
            if (end == text.npos || equals == line.npos) {
                error = {"", "settings text: '" + shown(line) + "' is not a line NAME=VALUE"};
            }
            if (!error.message.empty() ||
                !set_setting(line.substr(0, equals), line.substr(equals + 1), settings, &error)) {
                valid = false;
                if (errors != nullptr) errors->push_back(std::move(error));
            }
            text.remove_prefix(end == text.npos ? text.size() : end + 1);
        }
        return valid;
    });
}

const char* suggest_setting(std::string_view name) {
    // The prefix is left out, so that it does not make everything look alike; so is the case of letters.
    std::array<char, kNameBytesMax> upper{};
    if (name.size() > upper.size()) return "";
    std::transform(name.begin(), name.end(), upper.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    std::string_view wanted(upper.data(), name.size());
    if (wanted.starts_with(kPrefix)) wanted.remove_prefix(kPrefix.size());
    const char* nearest = "";
    size_t nearest_steps = wanted.size() / 3 + 1;
    const auto names = user_names();
    for (const char* name_of_row : names) {
        const size_t steps = edit_distance(wanted, std::string_view(name_of_row).substr(kPrefix.size()));
        if (steps < nearest_steps) {
            nearest = name_of_row;
            nearest_steps = steps;
        }
    }
    if (*nearest != 0 || wanted.size() < 4) return nearest;
    // A name cut short: LONGSHORE_EAGER, LONGSHORE_READS_MAX.
    const auto* whole = std::find_if(names.begin(), names.end(), [&](const char* one) {
        return std::string_view(one).find(wanted, kPrefix.size()) != std::string_view::npos;
    });
    return whole == names.end() ? "" : *whole;
}

// "Optimal string alignment": every pair of letters is swapped at most once.
size_t edit_distance(std::string_view a, std::string_view b) {
    if (a.size() > kNameBytesMax || b.size() > kNameBytesMax) return SIZE_MAX;
    std::array<std::array<uint8_t, kNameBytesMax + 1>, kNameBytesMax + 1> steps{};
    for (size_t i = 0; i <= a.size(); ++i) steps[i][0] = static_cast<uint8_t>(i);
    for (size_t j = 0; j <= b.size(); ++j) steps[0][j] = static_cast<uint8_t>(j);
    for (size_t i = 1; i <= a.size(); ++i) {
        for (size_t j = 1; j <= b.size(); ++j) {
            const int differs = a[i - 1] != b[j - 1];
            int best = std::min({steps[i - 1][j] + 1, steps[i][j - 1] + 1, steps[i - 1][j - 1] + differs});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                best = std::min(best, steps[i - 2][j - 2] + 1);
            }
            steps[i][j] = static_cast<uint8_t>(best);
        }
    }
    return steps[a.size()][b.size()];
}

}  // namespace longshore
