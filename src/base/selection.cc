#include "base/selection.h"

#include <algorithm>

#include "base/text.h"

namespace longshore {
namespace {

// What holds without a file, in the same words as a file. Up to blocks of 4 KiB a call costs the MPI less
// than it costs us to hand it over; from 8 KiB to 16 KiB on, by the MPI, it is the other way round. Where
// ranks that wait in the MPI take the cores of others, nothing is small (docs/selection.md has the figures).
constexpr std::string_view kBuiltIn = R"(
# collective  crowded      ranks per node  bytes  algorithm
alltoall    crowded no   ppn 1-2  bytes 0-16K   mpi
alltoall    crowded no   ppn 1-2  bytes 16K-    direct
alltoall    crowded no   ppn 3-8  bytes 0-64K   mpi
alltoall    crowded no   ppn 3-8  bytes 64K-    direct
alltoall    crowded no   ppn 9-   bytes 0-256K  mpi
alltoall    crowded no   ppn 9-   bytes 256K-   direct
alltoall    crowded yes                         direct
alltoallv                                        direct
allgather   crowded no   ppn 1-2  bytes 0-16K   mpi
allgather   crowded no   ppn 1-2  bytes 16K-    direct
allgather   crowded no   ppn 3-8  bytes 0-64K   mpi
allgather   crowded no   ppn 3-8  bytes 64K-    direct
allgather   crowded no   ppn 9-   bytes 0-256K  mpi
allgather   crowded no   ppn 9-   bytes 256K-   direct
allgather   crowded yes                         direct
allgatherv                                       direct
bcast       crowded no            bytes 0-8K    mpi
bcast       crowded no            bytes 8K-     direct
bcast       crowded yes                         direct
gather      crowded no   ppn 1-2  bytes 0-16K   mpi
gather      crowded no   ppn 1-2  bytes 16K-    direct
gather      crowded no   ppn 3-8  bytes 0-64K   mpi
gather      crowded no   ppn 3-8  bytes 64K-    direct
gather      crowded no   ppn 9-   bytes 0-256K  mpi
gather      crowded no   ppn 9-   bytes 256K-   direct
gather      crowded yes                         direct
gatherv                                          direct
scatter     crowded no   ppn 1-2  bytes 0-16K   mpi
scatter     crowded no   ppn 1-2  bytes 16K-    direct
scatter     crowded no   ppn 3-8  bytes 0-64K   mpi
scatter     crowded no   ppn 3-8  bytes 64K-    direct
scatter     crowded no   ppn 9-   bytes 0-256K  mpi
scatter     crowded no   ppn 9-   bytes 256K-   direct
scatter     crowded yes                         direct
scatterv                                         direct
)";

constexpr std::array<const char*, kSelectedCount> kNames = {
    "alltoall", "alltoallv", "allgather", "allgatherv", "bcast", "gather", "gatherv", "scatter", "scatterv"};
constexpr std::array kCarriers = {Carrier::kMpi, Carrier::kDirect, Carrier::kStaged,
                                  Carrier::kStagedHierarchical};

size_t index(Selected collective) {
    return static_cast<size_t>(collective);
}

bool is_to_all(Selected collective) {
    return collective == Selected::kAllgather || collective == Selected::kAllgatherv ||
           collective == Selected::kBcast;
}

struct Word {
    std::string_view text;
    size_t column = 1;
};

// The words of a line, without its comment.
std::vector<Word> words_of(std::string_view line) {
    std::vector<Word> words;
    const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
    for (size_t at = 0; at < line.size() && line[at] != '#';) {
        if (is_space(line[at])) {
            ++at;
            continue;
        }
        const size_t first = at;
        while (at < line.size() && line[at] != '#' && !is_space(line[at])) ++at;
        words.push_back({line.substr(first, at - first), first + 1});
    }
    return words;
}

std::string quoted(std::string_view text) {
    return "'" + shown(text) + "'";
}

// "2", "2-4", "2-": counts, with both ends included.
bool read_counts(std::string_view text, SelectionRange* range) {
    const size_t dash = text.find('-');
    const auto first = read_number(text.substr(0, dash));
    if (!first || *first == 0) return false;
    range->first = range->last = *first;
    if (dash == text.npos) return true;
    range->last = UINT64_MAX;
    if (dash + 1 == text.size()) return true;
    const auto last = read_number(text.substr(dash + 1));
    if (!last || *last < *first) return false;
    range->last = *last;
    return true;
}

// "64K-1M", "64K-": from the first size to below the second.
bool read_bytes(std::string_view text, SelectionRange* range) {
    const size_t dash = text.find('-');
    const auto first = read_size(text.substr(0, dash));
    if (!first || dash == text.npos) return false;
    range->first = *first;
    range->last = UINT64_MAX;
    if (dash + 1 == text.size()) return true;
    const auto end = read_size(text.substr(dash + 1));
    if (!end || *end <= *first) return false;
    range->last = *end - 1;
    return true;
}

bool read_answer(std::string_view text, SelectionRange* range) {
    const bool yes = text == "yes";
    range->first = range->last = yes;
    return yes || text == "no";
}

std::string show_counts(const SelectionRange& range) {
    std::string text = std::to_string(range.first);
    if (range.last == UINT64_MAX) return text + "-";
    return range.last == range.first ? text : text + "-" + std::to_string(range.last);
}

std::string show_bytes(const SelectionRange& range) {
    return show_size(range.first) + "-" + (range.last == UINT64_MAX ? "" : show_size(range.last + 1));
}

// A rule and where it stands.
struct Placed {
    SelectionRule rule;
    size_t line = 0, column = 0;
};

class Parser {
  public:
    explicit Parser(SelectionError* error) : error_(error) {}

    bool parse(std::string_view text, Selection* selection) {
        if (text.size() > kSelectionBytesMax)
            return fail(1, "the text is longer than " + show_size(kSelectionBytesMax));
        for (line_ = 1; !text.empty(); ++line_) {
            const size_t end = text.find('\n');
            if (!parse_line(words_of(text.substr(0, end)))) return false;
            text.remove_prefix(end == text.npos ? text.size() : end + 1);
        }
        for (size_t i = 0; i < kSelectedCount; ++i)
            if (!placed_[i].empty() && !check_complete(static_cast<Selected>(i))) return false;
        Selection whole = *selection;
        for (size_t i = 0; i < kSelectedCount; ++i) {
            if (placed_[i].empty()) continue;
            whole.rules[i].clear();
            for (const Placed& placed : placed_[i]) whole.rules[i].push_back(placed.rule);
        }
        *selection = std::move(whole);
        return true;
    }

  private:
    bool fail(size_t column, std::string message) {
        if (error_ != nullptr) *error_ = {line_, column, std::move(message)};
        return false;
    }

    bool parse_line(const std::vector<Word>& words) {
        if (words.empty()) return true;
        const auto collective = find_selected(words[0].text);
        if (!collective) return fail(words[0].column, unknown_collective(words[0].text));
        SelectionRule rule;
        std::array<bool, kKeys.size()> seen{};
        size_t at = 1;
        for (; at < words.size(); at += 2) {
            const size_t key = key_of(words[at].text);
            if (key == kKeys.size()) break;
            if (seen[key]) return fail(words[at].column, quoted(words[at].text) + " is there twice");
            seen[key] = true;
            if (!parse_range(*collective, key, words, at, &rule)) return false;
        }
        if (at >= words.size())
            return fail(words.back().column + words.back().text.size(),
                        "the algorithm is missing; " + valid(*collective));
        const auto carrier = find_carrier(*collective, words[at].text);
        if (!carrier)
            return fail(words[at].column,
                        quoted(words[at].text) + " is not an algorithm; " + valid(*collective));
        if (at + 1 < words.size())
            return fail(words[at + 1].column,
                        quoted(words[at + 1].text) + " stands behind the algorithm, which ends a rule");
        rule.carrier = *carrier;
        std::vector<Placed>& rules = placed_[index(*collective)];
        if (rules.size() == kSelectionRulesMax)
            return fail(words[0].column, std::string(selected_name(*collective)) + " has more than " +
                                             std::to_string(kSelectionRulesMax) + " rules");
        rules.push_back({rule, line_, words[0].column});
        return true;
    }

    bool parse_range(Selected collective, size_t key, const std::vector<Word>& words, size_t at,
                     SelectionRule* rule) {
        const Word& word = words[at];
        if (key == kBytes && !has_bytes(collective))
            return fail(word.column, std::string(selected_name(collective)) +
                                         ": not all ranks know its sizes, so its rules take no bytes");
        const char* form = key == kBytes     ? "sizes such as 0-64K, 64K-1M or 1M- (below the second)"
                           : key == kCrowded ? "yes or no"
                                             : "numbers such as 1, 2-4 or 5-";
        if (at + 1 == words.size())
            return fail(word.column + word.text.size(), "behind " + quoted(word.text) + " go " + form);
        const Word& range = words[at + 1];
        const bool valid_range = key == kBytes     ? read_bytes(range.text, &rule->bytes)
                                 : key == kCrowded ? read_answer(range.text, &rule->crowded)
                                 : key == kNodes   ? read_counts(range.text, &rule->nodes)
                                                   : read_counts(range.text, &rule->ppn);
        if (valid_range) return true;
        return fail(range.column,
                    quoted(range.text) + " is not valid: behind " + quoted(word.text) + " go " + form);
    }

    // Where the set of rules that apply can change: the first value, the first of each range and the first
    // behind it.
    template <class Range>
    static std::vector<uint64_t> starts(const std::vector<Placed>& rules, Range range) {
        std::vector<uint64_t> list = {1};
        for (const Placed& placed : rules) {
            list.push_back(range(placed.rule).first);
            if (range(placed.rule).last != UINT64_MAX) list.push_back(range(placed.rule).last + 1);
        }
        std::sort(list.begin(), list.end());
        list.erase(std::unique(list.begin(), list.end()), list.end());
        return list;
    }

    bool check_complete(Selected collective) {
        const std::vector<Placed>& all = placed_[index(collective)];
        std::vector<Placed> here;
        for (const uint64_t ppn : starts(all, [](const SelectionRule& r) { return r.ppn; })) {
            here.clear();
            for (const Placed& placed : all)
                if (placed.rule.ppn.contains(ppn)) here.push_back(placed);
            for (const uint64_t nodes : starts(here, [](const SelectionRule& r) { return r.nodes; }))
                for (const bool crowded : {false, true})
                    if (!check_bytes(collective, here, {ppn, nodes, crowded})) return false;
        }
        return true;
    }

    struct Point {
        uint64_t ppn, nodes;
        bool crowded;
    };

    // Whether the rules for a point cover every size there once.
    bool check_bytes(Selected collective, const std::vector<Placed>& rules, const Point& at) {
        std::vector<const Placed*> row;
        for (const Placed& placed : rules)
            if (placed.rule.nodes.contains(at.nodes) && placed.rule.crowded.contains(at.crowded))
                row.push_back(&placed);
        std::sort(row.begin(), row.end(),
                  [](const Placed* a, const Placed* b) { return a->rule.bytes.first < b->rule.bytes.first; });
        uint64_t next = 0;
        const Placed* before = nullptr;
        for (const Placed* placed : row) {
            const SelectionRange& bytes = placed->rule.bytes;
            if (before != nullptr && (next == 0 || bytes.first < next)) return overlap(*before, *placed, at);
            if (bytes.first > next) return hole(collective, at, {next, bytes.first - 1});
            next = bytes.last + 1;  // 0: nothing is left
            before = placed;
        }
        if (before == nullptr || next != 0) return hole(collective, at, {next, UINT64_MAX});
        return true;
    }

    bool overlap(const Placed& a, const Placed& b, const Point& at) {
        const Placed& first = a.line < b.line ? a : b;
        const Placed& second = a.line < b.line ? b : a;
        line_ = second.line;
        return fail(second.column,
                    "overlaps the rule of line " + std::to_string(first.line) + ", at " + place(at) + ", " +
                        show_size(std::max(a.rule.bytes.first, b.rule.bytes.first)) + " bytes");
    }

    bool hole(Selected collective, const Point& at, const SelectionRange& bytes) {
        const Placed& last = placed_[index(collective)].back();
        line_ = last.line;
        std::string message = std::string(selected_name(collective)) + " has no rule for " + place(at);
        if (has_bytes(collective)) message += ", bytes " + show_bytes(bytes);
        return fail(last.column, message);
    }

    static std::string place(const Point& at) {
        return "ppn " + std::to_string(at.ppn) + ", nodes " + std::to_string(at.nodes) +
               (at.crowded ? ", crowded yes" : "");
    }

    static std::string unknown_collective(std::string_view text) {
        std::string message = quoted(text) + " is not a collective; there are";
        for (size_t i = 0; i < kSelectedCount; ++i) message += std::string(i == 0 ? " " : ", ") + kNames[i];
        return message;
    }

    static std::string valid(Selected collective) {
        return std::string(selected_name(collective)) + " takes " + carrier_list(collective);
    }

    static constexpr std::array<std::string_view, 4> kKeys = {"ppn", "nodes", "bytes", "crowded"};
    static constexpr size_t kNodes = 1, kBytes = 2, kCrowded = 3;
    static size_t key_of(std::string_view text) {
        return static_cast<size_t>(std::find(kKeys.begin(), kKeys.end(), text) - kKeys.begin());
    }

    SelectionError* error_;
    size_t line_ = 1;
    std::array<std::vector<Placed>, kSelectedCount> placed_;
};

using Row = std::array<std::string, 6>;

Row row_of(Selected collective, const SelectionRule& rule) {
    const SelectionRule any;
    return {selected_name(collective),
            rule.crowded == any.crowded ? ""
            : rule.crowded.first == 1   ? "crowded yes"
                                        : "crowded no",
            rule.ppn == any.ppn ? "" : "ppn " + show_counts(rule.ppn),
            rule.nodes == any.nodes ? "" : "nodes " + show_counts(rule.nodes),
            rule.bytes == any.bytes ? "" : "bytes " + show_bytes(rule.bytes),
            carrier_name(collective, rule.carrier)};
}

// Columns as wide as their widest entry; one that is empty in all rows is left out.
std::string align(const std::vector<Row>& rows) {
    std::array<size_t, std::tuple_size_v<Row>> widths{};
    for (const Row& row : rows)
        for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    std::string text;
    for (const Row& row : rows) {
        for (size_t i = 0; i + 1 < row.size(); ++i)
            if (widths[i] > 0) text += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
        text += row.back() + "\n";
    }
    return text;
}

}  // namespace

const char* selected_name(Selected collective) {
    return kNames[index(collective)];
}

std::optional<Selected> find_selected(std::string_view name) {
    for (size_t i = 0; i < kSelectedCount; ++i)
        if (name == kNames[i]) return static_cast<Selected>(i);
    return std::nullopt;
}

std::span<const Carrier> carriers_of(Selected collective) {
    return std::span(kCarriers).first(is_to_all(collective) ? 4 : 3);
}

const char* carrier_name(Selected collective, Carrier carrier) {
    switch (carrier) {
        case Carrier::kMpi:
            return "mpi";
        case Carrier::kDirect:
            return "direct";
        case Carrier::kStaged:
            return is_to_all(collective) ? "staged-flat" : "staged";
        case Carrier::kStagedHierarchical:
            return "staged-hierarchical";
    }
    return "";
}

std::optional<Carrier> find_carrier(Selected collective, std::string_view name) {
    for (const Carrier carrier : carriers_of(collective))
        if (name == carrier_name(collective, carrier)) return carrier;
    return std::nullopt;
}

std::string carrier_list(Selected collective) {
    std::string list;
    const auto carriers = carriers_of(collective);
    for (size_t i = 0; i < carriers.size(); ++i) {
        if (i > 0) list += i + 1 < carriers.size() ? ", " : " or ";
        list += carrier_name(collective, carriers[i]);
    }
    return list;
}

bool has_bytes(Selected collective) {
    return collective != Selected::kAlltoallv && collective != Selected::kGatherv &&
           collective != Selected::kScatterv;
}

Selection built_in_selection() {
    Selection selection;
    parse_selection(kBuiltIn, &selection, nullptr);
    return selection;
}

bool parse_selection(std::string_view text, Selection* selection, SelectionError* error) {
    return without_throwing([&] { return Parser(error).parse(text, selection); });
}

std::string format_rules(Selected collective, std::span<const SelectionRule> rules) {
    std::string text;
    without_throwing([&] {
        std::vector<Row> rows;
        for (const SelectionRule& rule : rules) rows.push_back(row_of(collective, rule));
        text = align(rows);
        return true;
    });
    return text;
}

std::string format_selection(const Selection& selection) {
    std::string text;
    without_throwing([&] {
        std::vector<Row> rows;
        for (size_t i = 0; i < kSelectedCount; ++i)
            for (const SelectionRule& rule : selection.rules[i])
                rows.push_back(row_of(static_cast<Selected>(i), rule));
        text = align(rows);
        return true;
    });
    return text;
}

const SelectionRule* find_rule(const Selection& selection, Selected collective, uint64_t ranks_per_node,
                               uint64_t nodes, uint64_t bytes, bool crowded) {
    for (const SelectionRule& rule : selection.rules[index(collective)])
        if (rule.bytes.contains(bytes) && rule.nodes.contains(nodes) && rule.ppn.contains(ranks_per_node) &&
            rule.crowded.contains(crowded))
            return &rule;
    return nullptr;
}

Carrier choose(const Selection& selection, Selected collective, uint64_t ranks_per_node, uint64_t nodes,
               uint64_t bytes, bool crowded) {
    const SelectionRule* rule = find_rule(selection, collective, ranks_per_node, nodes, bytes, crowded);
    return rule != nullptr ? rule->carrier : Carrier::kDirect;
}

}  // namespace longshore
