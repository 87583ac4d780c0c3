// Every setting a user can make: one table that gives the parser, `longshore config` and the manual page.
// Used inside foreign processes too: the C++ standard library only, and no exception leaves these functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/selection.h"

namespace longshore {

enum class LogLevel : uint8_t { kWarn, kInfo, kDebug, kTrace };
enum class NodesPlacement : uint8_t { kContiguous, kStrided };
enum class MemoryMode : uint8_t { kAuto, kDirect, kStaged };
// Which memory of the ranks others of the node may map.
// What carries messages and bytes between machines (fabric/network_settings.h), and how it is closed to
// others.
enum class NetworkCarrier : uint8_t { kAuto, kTcp, kUcx };
enum class NetworkSecurity : uint8_t { kHandshake, kTls };

// TCP ports from `first` to `last`; 0: any that is free.
struct PortRange {
    uint16_t first = 0, last = 0;

    bool operator==(const PortRange&) const = default;
};

// Of the link between nodes, for conditions of the table of rules; 0: as the system says.
struct LinkRate {
    uint64_t mbps = 0;

    bool operator==(const LinkRate&) const = default;
};

enum class MemoryAlias : uint8_t { kOff, kAllocate, kAdopt, kAdoptAtOnce };

// Which cores the service processes run on.
struct CoreChoice {
    enum class Kind : uint8_t { kAuto, kNone, kList };
    Kind kind = Kind::kAuto;
    std::vector<uint32_t> cores;  // kList only: CPU numbers as the kernel counts them, in the user's order.

    bool operator==(const CoreChoice&) const = default;
};

// Which cores task processes run on: as the user spells it, checked.
struct TaskCores {
    std::string text = "auto";

    bool operator==(const TaskCores&) const = default;
};

// What LONGSHORE_BCAST_ALGORITHM and its relatives say; without a value the table of rules decides.
struct ForcedAlgorithms {
    std::array<std::optional<Carrier>, kSelectedCount> of;  // by Selected

    bool operator==(const ForcedAlgorithms&) const = default;
};

// A field is named as its variable, without LONGSHORE_ and in lower case; files are named with _path.
struct Settings {
    bool offload = true;
    bool strict = false;
    std::string stats_path;  // empty: off; "-": one line on stderr
    std::string trace_path;  // empty: off
    LogLevel log = LogLevel::kWarn;

    std::string algorithms_path;  // empty: the built-in table
    ForcedAlgorithms forced_algorithms;

    uint32_t service_count = 0;  // 0: services_by_default()
    uint32_t service_reads_max = 64;
    uint32_t service_spin_us = 1000;
    std::string service_path;  // empty: longshored beside the shim
    CoreChoice service_cores;
    uint32_t service_restarts_max = 16;
    std::string
        dpu;  // which DPU serves which host (base/dpu_map.h); empty: service processes run on the hosts

    uint32_t task_processes = 0;  // of a pool on each node; 0: one for each rank
    TaskCores task_cores;
    std::string task_node;  // where they run; empty: on the node of their ranks
    std::string task_path;  // folders with plug-ins, with colons between them

    std::string write_behind;  // patterns of files that are written behind, with colons between them
    uint64_t write_behind_bytes_max = uint64_t{256} << 20;  // of each rank

    uint32_t nodes_count = 0;  // 0: the real nodes
    NodesPlacement nodes_placement = NodesPlacement::kContiguous;

    bool wait_cooperative = true;
    uint32_t wait_report_s = 30;  // 0: never
    uint32_t limit_s = 5;

    NetworkCarrier network = NetworkCarrier::kAuto;
    NetworkSecurity network_security = NetworkSecurity::kHandshake;
    PortRange network_ports;
    std::string network_interfaces;  // empty: all
    LinkRate link_rate;

    uint64_t eager_bytes = 16 * 1024;
    uint64_t chunk_bytes = 262144;
    uint64_t snapshot_bytes_max = uint64_t{256} << 20;
    MemoryMode memory_mode = MemoryMode::kAuto;
    MemoryAlias memory_alias = MemoryAlias::kAllocate;
    uint64_t memory_shared_bytes_max = 0;  // of a rank; 0: the machine's memory
    uint64_t staging_bytes = uint64_t{16} << 20;
    bool memory_inaccessible = false;

    bool operator==(const Settings&) const = default;
};

// Service processes of a node where none are asked for: one for every two of its ranks, of which each needs a
// spare core, or one; on its DPU, whose cores have nothing else to do, one for every eight.
uint32_t services_by_default(bool on_dpu, uint32_t ranks_of_node, uint32_t spare_cores);

// One row of the table, as shown to users. All pointers are to string literals.
struct SettingInfo {
    const char* name;           // "LONGSHORE_SERVICE_COUNT"
    const char* default_value;  // in the spelling that setting_value() gives
    const char* unit;           // "bytes", "us", "s", "" ...
    const char* allowed;        // completes the sentence "it must be ..."
    const char* meaning;        // one sentence
    bool of_each_process =
        false;  // read by each process from its own environment; others: rank 0's hold for all
};

// One row stands for a family: LONGSHORE_<COLLECTIVE>_ALGORITHM, a variable for each collective. Its value is
// written "alltoall:mpi,bcast:direct".
inline constexpr const char* kForcedAlgorithmsName = "LONGSHORE_<COLLECTIVE>_ALGORITHM";
std::span<const char* const> forced_algorithm_names();  // the variables, by Selected

// `message` is a whole sentence that names the variable and says what is allowed.
struct SettingError {
    std::string name;
    std::string message;
};

std::span<const SettingInfo> setting_table();

// The value of a row in its canonical spelling, which the parser reads back to the same value.
std::string setting_value(const Settings& settings, const SettingInfo& info);

// Reads the LONGSHORE_ variables of `environment` (null-terminated, as environ) over the defaults into
// `settings`. An empty value means the default; a bad one leaves the default and adds an error, as does an
// unknown name. Names that start with LONGSHORE_INTERNAL_ are skipped, and so are those with LONGSHORE_UCX_,
// which UCX reads in service processes. True if there was no error; `errors` may be null.
bool parse_settings(const char* const* environment, Settings* settings, std::vector<SettingError>* errors);

// Sets one value by its full name, over what is there. On an error `settings` is unchanged.
bool set_setting(std::string_view name, std::string_view value, Settings* settings, SettingError* error);

// All settings as lines "NAME=VALUE\n", and back: how rank 0's settings reach every rank.
std::string encode_settings(const Settings& settings);
bool decode_settings(std::string_view text, Settings* settings, std::vector<SettingError>* errors);

// The table's name nearest to `name`, or "" if none is near enough to be what was meant.
const char* suggest_setting(std::string_view name);

// Steps from one word to the other; a swap of two neighbours is one step, as people mistype. A word of more
// than 64 letters is infinitely far from everything (SIZE_MAX).
size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace longshore
