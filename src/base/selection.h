// Which algorithm carries a collective: a table of rules (a collective and conditions -> algorithm), its
// text, and the look-up. Pure. Used inside foreign processes too, as settings.h. docs/selection.md describes
// the text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longshore {

// The collectives that have rules of their own, blocking and nonblocking alike.
enum class Selected : uint8_t {
#define LONGSHORE_COLLECTIVE(NAME, Name, name, arguments, is_shared, bytes_known) k##Name,
#include "base/collectives.inc"
};
#define LONGSHORE_COLLECTIVE(NAME, Name, name, arguments, is_shared, bytes_known) +1
inline constexpr size_t kSelectedCount =
#include "base/collectives.inc"
    ;

// Who carries a call: the MPI itself, or Longshore in one of its ways.
enum class Carrier : uint8_t { kMpi, kDirect, kStaged, kStagedHierarchical };

const char* selected_name(Selected collective);  // "alltoall"
// Whether a rank gives the same block to all: the collective then has two staged ways.
bool is_to_all(Selected collective);
std::optional<Selected> find_selected(std::string_view name);

// A carrier's name depends on the collective: allgather(v) and bcast have two staged ones.
const char* carrier_name(Selected collective, Carrier carrier);
std::optional<Carrier> find_carrier(Selected collective, std::string_view name);
std::span<const Carrier> carriers_of(Selected collective);
std::string carrier_list(Selected collective);  // "mpi, direct or staged"

// Whether rules may name sizes: only where all ranks know the same one.
bool has_bytes(Selected collective);

// Both ends included.
struct SelectionRange {
    uint64_t first = 0, last = UINT64_MAX;

    bool contains(uint64_t value) const { return value >= first && value <= last; }
    bool operator==(const SelectionRange&) const = default;
};

// Values of conditions that are words in the text.
inline constexpr uint64_t kFormBlocking = 0, kFormNonblocking = 1;
inline constexpr size_t kSelectionForms = 2;
inline constexpr uint64_t kNetworkNone = 0, kNetworkTcp = 1, kNetworkUcx = 2;
inline constexpr uint64_t kRateUnknown = 0;

// A call, as the conditions of rules see it.
struct SelectionPoint {
    uint64_t ppn = 1;  // the largest number of the group's ranks on one node
    uint64_t nodes = 1;
    uint64_t bytes = 0;
    uint64_t crowded = 0;  // 1: ranks that wait in the MPI take the cores of others
    uint64_t form = kFormBlocking;
    uint64_t network = kNetworkNone;  // what joins the service processes of the job
    uint64_t spare = 0;               // 1: each service process of the job has a core that no rank needs
    uint64_t rate = kRateUnknown;     // of the slowest node's link, in Mb/s
};

// A range for each of them.
struct SelectionRule {
    SelectionRange ppn{1, UINT64_MAX};
    SelectionRange nodes{1, UINT64_MAX};
    SelectionRange bytes;
    SelectionRange crowded{0, 1};
    SelectionRange form{kFormBlocking, kFormNonblocking};
    SelectionRange network{kNetworkNone, kNetworkUcx};
    SelectionRange spare{0, 1};
    SelectionRange rate;
    Carrier carrier = Carrier::kDirect;

    bool contains(const SelectionPoint& point) const;
    // Whether it holds for every call for which `other` does.
    bool covers(const SelectionRule& other) const;
    bool operator==(const SelectionRule&) const = default;
};

// The rules of each collective, by Selected. Of those that hold for a call the first counts; for every call
// one does.
struct Selection {
    std::array<std::vector<SelectionRule>, kSelectedCount> rules;

    bool operator==(const Selection&) const = default;
};

// Where a text is wrong, both counted from 1, the column in bytes; `message` is without them.
struct SelectionError {
    size_t line = 0, column = 0;
    std::string message;
};

inline constexpr size_t kSelectionRulesMax = 64;  // of one collective
// Of a text; whatever was read fits in when it is written again, which is how rank 0 sends it.
inline constexpr size_t kSelectionBytesMax = 192 * 1024;

Selection built_in_selection();

// Reads a table's text. A collective with no rule in it keeps those of `selection`, which is unchanged on an
// error.
bool parse_selection(std::string_view text, Selection* selection, SelectionError* error);

// The text of a whole table, in columns; parse_selection reads it back. "" if there is no memory.
std::string format_selection(const Selection& selection);
// The rules of one collective only.
std::string format_rules(Selected collective, std::span<const SelectionRule> rules);

// The rule for a call; null only if the table is not complete. The rule lives as long as the table.
const SelectionRule* find_rule(const Selection& selection, Selected collective, const SelectionPoint& point);

// A rule, and the bytes around those of the call for which it is the first that holds as well: fewer than the
// rule names where one before it holds for some of them.
struct RuleWithin {
    const SelectionRule* rule = nullptr;
    SelectionRange bytes;
};
RuleWithin find_rule_within(const Selection& selection, Selected collective, const SelectionPoint& point);
Carrier choose(const Selection& selection, Selected collective, const SelectionPoint& point);

// As the text has it: "tcp".
const char* network_name(uint64_t network);

// A rate of a network in Mb/s: "100", "100M", "2.5G"; units of 10^6 and 10^9.
std::optional<uint64_t> read_rate(std::string_view text);
std::string show_rate(uint64_t mbps);

// Reads the table in a file (not pure) over `selection`, which is unchanged on an error. `error` is a
// sentence that names the file and the place in it.
bool load_selection(const std::string& path, Selection* selection, std::string* error);

}  // namespace longshore
