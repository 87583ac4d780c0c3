#include "base/settings.h"

#include <algorithm>
#include <array>
#include <variant>

#include "base/text.h"

namespace longshore {
namespace {

constexpr std::string_view kPrefix = "LONGSHORE_";
constexpr std::string_view kInternalPrefix = "LONGSHORE_INTERNAL_";
constexpr std::string_view kUcxPrefix = "LONGSHORE_UCX_";  // UCX reads them, in service processes
constexpr size_t kNameBytesMax =
    64;  // a longer name is never a misspelt setting: no suggestion is looked for
constexpr size_t kTextBytesMax = 4095;  // PATH_MAX without its final zero
constexpr size_t kCoresMax = 1024;
constexpr uint64_t kCoreMax = 65535;
constexpr uint64_t kKiB = 1024;

using Field = std::variant<bool Settings::*, uint32_t Settings::*, uint64_t Settings::*,
                           std::string Settings::*, LogLevel Settings::*, NodesPlacement Settings::*,
                           CoreChoice Settings::*, ForcedAlgorithms Settings::*, MemoryMode Settings::*,
                           MemoryAlias Settings::*, NetworkCarrier Settings::*, NetworkSecurity Settings::*,
                           PortRange Settings::*, LinkRate Settings::*>;

struct Rule {
    Field field;
    uint64_t min = 0;
    uint64_t max = 0;
    bool power_of_two = false;
};

// clang-format off
constexpr std::array kTable = {
    SettingInfo{"LONGSHORE_OFFLOAD", "on", "", "on or off",
        "Offload collectives; off leaves every call to the MPI at the cost of one branch."},
    SettingInfo{"LONGSHORE_STRICT", "0", "", "0 or 1",
        "1 makes a bad setting fatal; 0 reports it once and uses the default."},
    SettingInfo{"LONGSHORE_STATS", "", "", "a file name, - for one line on stderr, or empty for none",
        "Where to write one summary of the job (JSON)."},
    SettingInfo{"LONGSHORE_TRACE", "", "", "a file name, or empty for none",
        "Where to write a timeline of the job (Chrome trace format, opens in Perfetto)."},
    SettingInfo{"LONGSHORE_LOG", "warn", "", "warn, info, debug or trace",
        "How much to say on stderr."},
    SettingInfo{"LONGSHORE_ALGORITHMS_FILE", "", "", "a file name, or empty for the built-in table",
        "Which algorithm carries which call, as 'longshore tune' writes it."},
    SettingInfo{kForcedAlgorithmsName, "", "",
        "mpi, direct, staged (ALLGATHER, ALLGATHERV, BCAST: staged-flat, staged-hierarchical), or empty",
        "Force one algorithm: a variable each for ALLTOALL, ALLTOALLV, ALLGATHER, ALLGATHERV, BCAST, GATHER, "
        "GATHERV, SCATTER and SCATTERV."},
    SettingInfo{"LONGSHORE_SERVICE_COUNT", "1", "per node", "a number from 1 to 16",
        "Service processes on each node. Its ranks are shared out among them in the order of their cores."},
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
    SettingInfo{"LONGSHORE_NODES_COUNT", "0", "nodes", "a number from 0 to 1024; 0 takes the real nodes",
        "Treat the ranks of one machine as if they ran on this many nodes (for tests)."},
    SettingInfo{"LONGSHORE_NODES_PLACEMENT", "contiguous", "", "contiguous or strided",
        "How ranks are dealt to emulated nodes: in blocks, or one after another."},
    SettingInfo{"LONGSHORE_WAIT_COOPERATIVE", "on", "", "on or off",
        "Let a rank that waits move blocks of its own operations."},
    SettingInfo{"LONGSHORE_WAIT_REPORT_S", "30", "s", "a number from 0 to 86400; 0 is never",
        "After how long a wait says on stderr which ranks are missing."},
    SettingInfo{"LONGSHORE_LIMIT_S", "5", "s", "a number from 1 to 3600",
        "How long what must answer (attaching, transfers, service processes) may take."},
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
        "What ranks share, to move by plain copies: large blocks of malloc; adopt: static data that moves often, too."},
    SettingInfo{"LONGSHORE_MEMORY_SHARED_BYTES_MAX", "0", "bytes per rank", "a size from 0 to 8192G; 0 is the machine's memory",
        "The most of it; further blocks are ordinary ones."},
    SettingInfo{"LONGSHORE_STAGING_BYTES", "16M", "bytes per service process", "a size from 64K to 128G",
        "Staging memory, for the staged algorithms and the memory mode; larger blocks go in pieces."},
    SettingInfo{"LONGSHORE_MEMORY_INACCESSIBLE", "0", "", "0 or 1",
        "Test mode: memory of the application can be reached through the fabric only."},
};

constexpr std::array<Rule, kTable.size()> kRules = {
    Rule{&Settings::offload},
    Rule{&Settings::strict},
    Rule{&Settings::stats_path},
    Rule{&Settings::trace_path},
    Rule{&Settings::log},
    Rule{&Settings::algorithms_path},
    Rule{&Settings::forced_algorithms},
    Rule{&Settings::service_count, 1, 16},
    Rule{&Settings::service_reads_max, 1, 256},
    Rule{&Settings::service_spin_us, 0, 1000000},
    Rule{&Settings::service_path},
    Rule{&Settings::service_cores},
    Rule{&Settings::service_restarts_max, 0, 1000},
    Rule{&Settings::dpu},
    Rule{&Settings::nodes_count, 0, 1024},
    Rule{&Settings::nodes_placement},
    Rule{&Settings::wait_cooperative},
    Rule{&Settings::wait_report_s, 0, 86400},
    Rule{&Settings::limit_s, 1, 3600},
    Rule{&Settings::network},
    Rule{&Settings::network_security},
    Rule{&Settings::network_ports},
    Rule{&Settings::network_interfaces},
    Rule{&Settings::link_rate},
    Rule{&Settings::eager_bytes, 0, 64 * kKiB},
    Rule{&Settings::chunk_bytes, 4 * kKiB, kKiB * kKiB, true},
    Rule{&Settings::snapshot_bytes_max, 0, 1024 * kKiB * kKiB * kKiB},
    Rule{&Settings::memory_mode},
    Rule{&Settings::memory_alias},
    Rule{&Settings::memory_shared_bytes_max, 0, 8192 * kKiB * kKiB * kKiB},
    Rule{&Settings::staging_bytes, 64 * kKiB, 128 * kKiB * kKiB * kKiB},
    Rule{&Settings::memory_inaccessible},
};
// clang-format on
static_assert(kTable.size() <= 32, "the settings stay few");

constexpr std::array<std::string_view, 4> kLogLevels = {"warn", "info", "debug", "trace"};
constexpr std::array<std::string_view, 2> kPlacements = {"contiguous", "strided"};
constexpr std::array<std::string_view, 3> kMemoryModes = {"auto", "direct", "staging"};
constexpr std::array<std::string_view, 4> kMemoryAliases = {"off", "allocate", "adopt", "adopt-at-once"};

constexpr std::array<std::string_view, 3> kNetworks = {"auto", "tcp", "ucx"};
constexpr std::array<std::string_view, 2> kSecurities = {"handshake", "tls"};

// The members of the family kForcedAlgorithmsName, by Selected.
constexpr std::array<const char*, kSelectedCount> kForcedNames = {
    "LONGSHORE_ALLTOALL_ALGORITHM",   "LONGSHORE_ALLTOALLV_ALGORITHM", "LONGSHORE_ALLGATHER_ALGORITHM",
    "LONGSHORE_ALLGATHERV_ALGORITHM", "LONGSHORE_BCAST_ALGORITHM",     "LONGSHORE_GATHER_ALGORITHM",
    "LONGSHORE_GATHERV_ALGORITHM",    "LONGSHORE_SCATTER_ALGORITHM",   "LONGSHORE_SCATTERV_ALGORITHM"};

size_t row_of(std::string_view name) {
    const auto* row =
        std::find_if(kTable.begin(), kTable.end(), [&](const auto& info) { return name == info.name; });
    return static_cast<size_t>(row - kTable.begin());
}

bool within(uint64_t number, const Rule& rule) {
    return number >= rule.min && number <= rule.max;
}

template <typename Choice, size_t kCount>
bool read_choice(std::string_view text, const std::array<std::string_view, kCount>& names, Choice* choice) {
    for (size_t i = 0; i < kCount; ++i) {
        if (text == names[i]) {
            *choice = static_cast<Choice>(i);
            return true;
        }
    }
    return false;
}

bool read_value(std::string_view text, const Rule& rule, bool* flag) {
    if (text == "on" || text == "1") {
        *flag = true;
    } else if (text == "off" || text == "0") {
        *flag = false;
    } else {
        return false;
    }
    return true;
}

bool read_value(std::string_view text, const Rule& rule, uint32_t* count) {
    const std::optional<uint64_t> number = read_number(text);
    if (!number || !within(*number, rule)) return false;
    *count = static_cast<uint32_t>(*number);
    return true;
}

bool read_value(std::string_view text, const Rule& rule, uint64_t* bytes) {
    const std::optional<uint64_t> size = read_size(text);
    if (!size || !within(*size, rule)) return false;
    if (rule.power_of_two && (*size & (*size - 1)) != 0) return false;
    *bytes = *size;
    return true;
}

bool read_value(std::string_view text, const Rule& rule, std::string* value) {
    // A line break would end the value early when the settings are sent to the other ranks.
    if (text.size() > kTextBytesMax || text.find_first_of("\n\r") != text.npos) return false;
    *value = text;
    return true;
}

bool read_value(std::string_view text, const Rule& rule, LogLevel* level) {
    return read_choice(text, kLogLevels, level);
}

bool read_value(std::string_view text, const Rule& rule, NodesPlacement* placement) {
    return read_choice(text, kPlacements, placement);
}

bool read_value(std::string_view text, const Rule& rule, MemoryMode* mode) {
    return read_choice(text, kMemoryModes, mode);
}

bool read_value(std::string_view text, const Rule& rule, MemoryAlias* alias) {
    return read_choice(text, kMemoryAliases, alias);
}

bool read_value(std::string_view text, const Rule& rule, NetworkCarrier* carrier) {
    return read_choice(text, kNetworks, carrier);
}

bool read_value(std::string_view text, const Rule& rule, NetworkSecurity* security) {
    return read_choice(text, kSecurities, security);
}

bool read_value(std::string_view text, const Rule& rule, PortRange* ports) {
    if (text == "any") {
        *ports = {};
        return true;
    }
    const size_t dash = text.find('-');
    const std::optional<uint64_t> first = read_number(text.substr(0, dash));
    const std::optional<uint64_t> last = dash == text.npos ? first : read_number(text.substr(dash + 1));
    if (!first || !last || *first == 0 || *first > *last || *last > UINT16_MAX) return false;
    *ports = {static_cast<uint16_t>(*first), static_cast<uint16_t>(*last)};
    return true;
}

bool read_value(std::string_view text, const Rule& rule, LinkRate* rate) {
    const std::optional<uint64_t> mbps = text == "auto" ? 0 : read_rate(text);
    if (!mbps || (*mbps == 0 && text != "auto")) return false;
    rate->mbps = *mbps;
    return true;
}

bool read_cores(std::string_view range, std::vector<uint32_t>* cores) {
    const size_t dash = range.find('-');
    const std::optional<uint64_t> first = read_number(range.substr(0, dash));
    const std::optional<uint64_t> last = dash == range.npos ? first : read_number(range.substr(dash + 1));
    if (!first || !last || *first > *last || *last > kCoreMax) return false;
    for (uint64_t core = *first; core <= *last; ++core) {
        if (cores->size() == kCoresMax) return false;
        if (std::find(cores->begin(), cores->end(), core) != cores->end()) return false;
        cores->push_back(static_cast<uint32_t>(core));
    }
    return true;
}

bool read_value(std::string_view text, const Rule& rule, CoreChoice* choice) {
    CoreChoice read;
    if (text == "none") {
        read.kind = CoreChoice::Kind::kNone;
    } else if (text != "auto") {
        read.kind = CoreChoice::Kind::kList;
        for (bool more = true; more;) {
            const size_t comma = text.find(',');
            if (!read_cores(text.substr(0, comma), &read.cores)) return false;
            more = comma != text.npos;
            if (more) text.remove_prefix(comma + 1);
        }
    }
    *choice = std::move(read);
    return true;
}

// "alltoall:mpi,bcast:direct"
bool read_value(std::string_view text, const Rule& rule, ForcedAlgorithms* forced) {
    ForcedAlgorithms read;
    while (!text.empty()) {
        const size_t comma = text.find(',');
        const std::string_view item = text.substr(0, comma);
        const size_t colon = item.find(':');
        const std::optional<Selected> collective = find_selected(item.substr(0, colon));
        if (!collective || colon == item.npos || comma + 1 == text.size()) return false;
        const std::optional<Carrier> carrier = find_carrier(*collective, item.substr(colon + 1));
        std::optional<Carrier>& place = read.of[static_cast<size_t>(*collective)];
        if (!carrier || place) return false;
        place = carrier;
        text.remove_prefix(comma == text.npos ? text.size() : comma + 1);
    }
    *forced = read;
    return true;
}

std::string show_value(const SettingInfo& info, bool flag) {
    // The table spells some flags on/off and some 0/1, as its default shows.
    const bool words = info.default_value[0] == 'o';
    return flag ? (words ? "on" : "1") : (words ? "off" : "0");
}

std::string show_value(const SettingInfo& info, uint32_t count) {
    return std::to_string(count);
}

std::string show_value(const SettingInfo& info, uint64_t bytes) {
    return show_size(bytes);
}

std::string show_value(const SettingInfo& info, const std::string& text) {
    return text;
}

std::string show_value(const SettingInfo& info, LogLevel level) {
    return std::string(kLogLevels[static_cast<size_t>(level)]);
}

std::string show_value(const SettingInfo& info, NodesPlacement placement) {
    return std::string(kPlacements[static_cast<size_t>(placement)]);
}

std::string show_value(const SettingInfo& info, MemoryMode mode) {
    return std::string(kMemoryModes[static_cast<size_t>(mode)]);
}

std::string show_value(const SettingInfo& info, MemoryAlias alias) {
    return std::string(kMemoryAliases[static_cast<size_t>(alias)]);
}

std::string show_value(const SettingInfo& info, NetworkCarrier carrier) {
    return std::string(kNetworks[static_cast<size_t>(carrier)]);
}

std::string show_value(const SettingInfo& info, NetworkSecurity security) {
    return std::string(kSecurities[static_cast<size_t>(security)]);
}

std::string show_value(const SettingInfo& info, PortRange ports) {
    if (ports.first == 0) return "any";
    const std::string first = std::to_string(ports.first);
    return ports.last == ports.first ? first : first + "-" + std::to_string(ports.last);
}

std::string show_value(const SettingInfo& info, LinkRate rate) {
    return rate.mbps == 0 ? "auto" : show_rate(rate.mbps);
}

std::string show_value(const SettingInfo& info, const CoreChoice& choice) {
    if (choice.kind == CoreChoice::Kind::kAuto) return "auto";
    if (choice.kind == CoreChoice::Kind::kNone) return "none";
    std::string text;
    for (const uint32_t core : choice.cores) {
        if (!text.empty()) text += ',';
        text += std::to_string(core);
    }
    return text;
}

std::string show_value(const SettingInfo& info, const ForcedAlgorithms& forced) {
    std::string text;
    for (size_t i = 0; i < kSelectedCount; ++i) {
        if (!forced.of[i]) continue;
        const auto collective = static_cast<Selected>(i);
        if (!text.empty()) text += ',';
        text.append(selected_name(collective)).append(":").append(carrier_name(collective, *forced.of[i]));
    }
    return text;
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
        text = std::visit([&](auto field) { return show_value(info, settings.*field); }, kRules[row].field);
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
        const Rule& rule = kRules[row];
        const std::string_view text = value.empty() ? kTable[row].default_value : value;
        const bool valid =
            std::visit([&](auto field) { return read_value(text, rule, &(settings->*field)); }, rule.field);
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
