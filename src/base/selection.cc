#include "base/selection.h"

#include <algorithm>

#include "base/text.h"

namespace longshore {
namespace {

// What holds without a file, in the same words as a file. Up to blocks of 4 KiB a call costs the MPI less
// than it costs us to hand it over; from 8 KiB to 16 KiB on, by the MPI, it is the other way round. Where
// ranks that wait in the MPI take the cores of others, nothing is small. Blocking calls between machines that
// TCP joins, whose service processes share the ranks' cores, have nothing to overlap with, and are the MPI's
// where it was faster (docs/selection.md has the figures).
constexpr std::string_view kBuiltIn = R"(
# collective  conditions                          algorithm
alltoall    form blocking  network tcp  spare no  crowded no  rate unknown               mpi
alltoall    form blocking  network tcp  spare no  crowded no  rate 10G-                  mpi
alltoall    form blocking  network tcp  spare no  crowded no                 bytes 0-64K  mpi
alltoallv   form blocking  network tcp  spare no  crowded no                             mpi
allgather   form blocking  network tcp  spare no  crowded no  rate unknown               mpi
allgather   form blocking  network tcp  spare no  crowded no  rate 10G-                  mpi
allgather   form blocking  network tcp  spare no  crowded no                 bytes 0-64K  mpi
allgatherv  form blocking  network tcp  spare no  crowded no  rate unknown               mpi
allgatherv  form blocking  network tcp  spare no  crowded no  rate 10G-                  mpi
allgatherv  form blocking  network tcp  spare no  crowded no                 bytes 0-64K  mpi
bcast       form blocking  network tcp  spare no  crowded no  rate unknown               mpi
bcast       form blocking  network tcp  spare no  crowded no  rate 10G-                  mpi
bcast       form blocking  network tcp  spare no  crowded no  rate 2.5G-10G  bytes 0-1M  mpi
bcast       form blocking  network tcp  spare no  crowded no                 bytes 0-32K  mpi
gather      form blocking  network tcp  spare no  crowded no  rate unknown               mpi
gather      form blocking  network tcp  spare no  crowded no  rate 10G-                  mpi
gather      form blocking  network tcp  spare no  crowded no                 bytes 0-64K  mpi
gatherv     form blocking  network tcp  spare no  crowded no                             mpi
scatter     form blocking  network tcp  spare no  crowded no  rate unknown               mpi
scatter     form blocking  network tcp  spare no  crowded no  rate 10G-                  mpi
scatter     form blocking  network tcp  spare no  crowded no                 bytes 0-64K  mpi
scatterv    form blocking  network tcp  spare no  crowded no                             mpi
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

// A condition with words for its values, which count from 0.
template <size_t kCount>
bool read_word(std::string_view text, const std::array<std::string_view, kCount>& words,
               SelectionRange* range) {
    const auto found = std::find(words.begin(), words.end(), text);
    range->first = range->last = static_cast<uint64_t>(found - words.begin());
    return found != words.end();
}

constexpr std::array<std::string_view, 2> kYesNo = {"no", "yes"};
constexpr std::array<std::string_view, 2> kFormWords = {"blocking", "nonblocking"};
constexpr std::array<std::string_view, 3> kJoined = {"none", "tcp", "ucx"};

bool read_answer(std::string_view text, SelectionRange* range) {
    return read_word(text, kYesNo, range);
}

bool read_form(std::string_view text, SelectionRange* range) {
    return read_word(text, kFormWords, range);
}

bool read_network(std::string_view text, SelectionRange* range) {
    return read_word(text, kJoined, range);
}

// "0-2.5G", "2.5G-": from the first rate to below the second, of those that are known; or "unknown".
bool read_rates(std::string_view text, SelectionRange* range) {
    range->first = range->last = kRateUnknown;
    if (text == "unknown") return true;
    const size_t dash = text.find('-');
    const auto first = read_rate(text.substr(0, dash));
    if (!first || dash == text.npos) return false;
    range->first = std::max<uint64_t>(*first, 1);
    range->last = UINT64_MAX;
    if (dash + 1 == text.size()) return true;
    const auto end = read_rate(text.substr(dash + 1));
    if (!end || *end <= range->first) return false;
    range->last = *end - 1;
    return true;
}

std::string show_counts(const SelectionRange& range) {
    std::string text = std::to_string(range.first);
    if (range.last == UINT64_MAX) return text + "-";
    return range.last == range.first ? text : text + "-" + std::to_string(range.last);
}

std::string show_bytes(const SelectionRange& range) {
    return show_size(range.first) + "-" + (range.last == UINT64_MAX ? "" : show_size(range.last + 1));
}

std::string show_answer(const SelectionRange& range) {
    return std::string(kYesNo[range.first]);
}

std::string show_form(const SelectionRange& range) {
    return std::string(kFormWords[range.first]);
}

std::string show_network(const SelectionRange& range) {
    return std::string(kJoined[range.first]);
}

std::string show_rates(const SelectionRange& range) {
    if (range.last == kRateUnknown) return "unknown";
    return show_rate(range.first == 1 ? 0 : range.first) + "-" +
           (range.last == UINT64_MAX ? "" : show_rate(range.last + 1));
}

struct Condition {
    std::string_view name;
    SelectionRange SelectionRule::*range;
    uint64_t SelectionPoint::*value;
    bool (*read)(std::string_view text, SelectionRange* range);
    std::string (*show)(const SelectionRange& range);  // of one that does not hold everything
    const char* allowed;

    const SelectionRange& of(const SelectionRule& rule) const { return rule.*range; }
    bool is_said(const SelectionRule& rule) const { return of(rule) != of(SelectionRule{}); }
    std::string text(const SelectionRange& one) const { return std::string(name) + " " + show(one); }
};

// In the order of the columns. Those of few values come first, so that a check for holes has few rules left
// where there are many; bytes, which it does not divide, come last.
constexpr std::array kConditions = {
    Condition{"form", &SelectionRule::form, &SelectionPoint::form, read_form, show_form,
              "blocking or nonblocking"},
    Condition{"network", &SelectionRule::network, &SelectionPoint::network, read_network, show_network,
              "none, tcp or ucx"},
    Condition{"spare", &SelectionRule::spare, &SelectionPoint::spare, read_answer, show_answer, "yes or no"},
    Condition{"crowded", &SelectionRule::crowded, &SelectionPoint::crowded, read_answer, show_answer,
              "yes or no"},
    Condition{"rate", &SelectionRule::rate, &SelectionPoint::rate, read_rates, show_rates,
              "rates such as 0-2.5G, 2.5G-25G or 25G- (below the second), or unknown"},
    Condition{"ppn", &SelectionRule::ppn, &SelectionPoint::ppn, read_counts, show_counts,
              "numbers such as 1, 2-4 or 5-"},
    Condition{"nodes", &SelectionRule::nodes, &SelectionPoint::nodes, read_counts, show_counts,
              "numbers such as 1, 2-4 or 5-"},
    Condition{"bytes", &SelectionRule::bytes, &SelectionPoint::bytes, read_bytes, show_bytes,
              "sizes such as 0-64K, 64K-1M or 1M- (below the second)"},
};
constexpr size_t kPpn = 5, kBytes = kConditions.size() - 1;

// Whether `a` holds wherever `b` does, as far as the conditions from number `next` on say.
bool holds_wherever(const SelectionRule& a, const SelectionRule& b, size_t next) {
    return std::all_of(kConditions.begin() + next, kConditions.end(), [&](const Condition& condition) {
        return condition.of(a).first <= condition.of(b).first && condition.of(a).last >= condition.of(b).last;
    });
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
        std::array<bool, kConditions.size()> seen{};
        size_t at = 1;
        for (; at < words.size(); at += 2) {
            const size_t key = key_of(words[at].text);
            if (key == kConditions.size()) break;
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
        const Condition& condition = kConditions[key];
        if (at + 1 == words.size())
            return fail(word.column + word.text.size(),
                        "behind " + quoted(word.text) + " go " + condition.allowed);
        const Word& range = words[at + 1];
        if (condition.read(range.text, &(rule->*condition.range))) return true;
        return fail(range.column, quoted(range.text) + " is not valid: behind " + quoted(word.text) + " go " +
                                      condition.allowed);
    }

    bool check_complete(Selected collective) {
        const std::vector<Placed>& all = placed_[index(collective)];
        std::vector<const SelectionRule*> rules;
        for (size_t i = 0; i < all.size(); ++i) {
            for (size_t k = 0; k < i; ++k)
                if (all[k].rule.covers(all[i].rule)) return never(all[k], all[i]);
            rules.push_back(&all[i].rule);
        }
        SelectionPoint at;
        return check_holes(collective, 0, rules, &at);
    }

    // Where the set of rules that apply can change: the first value, the first of each range and the first
    // behind it.
    static std::vector<uint64_t> starts(const std::vector<const SelectionRule*>& rules,
                                        const Condition& condition) {
        const SelectionRange whole = condition.of(SelectionRule{});
        std::vector<uint64_t> list = {whole.first};
        for (const SelectionRule* rule : rules) {
            list.push_back(condition.of(*rule).first);
            if (condition.of(*rule).last != whole.last) list.push_back(condition.of(*rule).last + 1);
        }
        std::sort(list.begin(), list.end());
        list.erase(std::unique(list.begin(), list.end()), list.end());
        return list;
    }

    // Whether `rules` cover every point that is as `at` in the conditions before the one of number `next`.
    bool check_holes(Selected collective, size_t next, const std::vector<const SelectionRule*>& rules,
                     SelectionPoint* at) {
        for (const SelectionRule* rule : rules)
            if (holds_wherever(*rule, {}, next)) return true;
        if (next == kBytes) return check_bytes(collective, rules, at);
        const Condition& condition = kConditions[next];
        std::vector<const SelectionRule*> here;
        for (const uint64_t value : starts(rules, condition)) {
            here.clear();
            for (const SelectionRule* rule : rules)
                if (condition.of(*rule).contains(value)) here.push_back(rule);
            at->*condition.value = value;
            if (!check_holes(collective, next + 1, here, at)) return false;
        }
        return true;
    }

    bool check_bytes(Selected collective, std::vector<const SelectionRule*> rules, SelectionPoint* at) {
        std::sort(rules.begin(), rules.end(), [](const SelectionRule* a, const SelectionRule* b) {
            return a->bytes.first < b->bytes.first;
        });
        uint64_t next = 0;
        for (const SelectionRule* rule : rules) {
            if (rule->bytes.first > next) return hole(collective, *at, {next, rule->bytes.first - 1});
            if (rule->bytes.last == UINT64_MAX) return true;
            next = std::max(next, rule->bytes.last + 1);
        }
        return hole(collective, *at, {next, UINT64_MAX});
    }

    bool never(const Placed& first, const Placed& second) {
        line_ = second.line;
        return fail(second.column, "this rule never holds: the one of line " + std::to_string(first.line) +
                                       " comes before it and holds wherever it would");
    }

    bool hole(Selected collective, const SelectionPoint& at, const SelectionRange& bytes) {
        const Placed& last = placed_[index(collective)].back();
        line_ = last.line;
        std::string message =
            std::string(selected_name(collective)) + " has no rule for " + place(collective, at);
        if (has_bytes(collective)) message += ", bytes " + show_bytes(bytes);
        return fail(last.column, message);
    }

    // Ranks per node and nodes, and whatever else some rule of the collective tells apart.
    std::string place(Selected collective, const SelectionPoint& at) const {
        const std::vector<Placed>& rules = placed_[index(collective)];
        std::string text = "ppn " + std::to_string(at.ppn) + ", nodes " + std::to_string(at.nodes);
        for (size_t i = 0; i < kPpn; ++i) {
            const Condition& condition = kConditions[i];
            if (std::none_of(rules.begin(), rules.end(),
                             [&](const Placed& placed) { return condition.is_said(placed.rule); }))
                continue;
            const uint64_t value = at.*condition.value;
            text += ", " + (condition.name == "rate" && value != kRateUnknown
                                ? "rate " + show_rate(value == 1 ? 0 : value)
                                : condition.text({value, value}));
        }
        return text;
    }

    static std::string unknown_collective(std::string_view text) {
        std::string message = quoted(text) + " is not a collective; there are";
        for (size_t i = 0; i < kSelectedCount; ++i) message += std::string(i == 0 ? " " : ", ") + kNames[i];
        return message;
    }

    static std::string valid(Selected collective) {
        return std::string(selected_name(collective)) + " takes " + carrier_list(collective);
    }

    static size_t key_of(std::string_view text) {
        const auto* const found =
            std::find_if(kConditions.begin(), kConditions.end(),
                         [&](const Condition& condition) { return condition.name == text; });
        return static_cast<size_t>(found - kConditions.begin());
    }

    SelectionError* error_;
    size_t line_ = 1;
    std::array<std::vector<Placed>, kSelectedCount> placed_;
};

using Row = std::array<std::string, kConditions.size() + 2>;

Row row_of(Selected collective, const SelectionRule& rule) {
    Row row;
    row.front() = selected_name(collective);
    for (size_t i = 0; i < kConditions.size(); ++i)
        if (kConditions[i].is_said(rule)) row[i + 1] = kConditions[i].text(kConditions[i].of(rule));
    row.back() = carrier_name(collective, rule.carrier);
    return row;
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

bool SelectionRule::contains(const SelectionPoint& point) const {
    return bytes.contains(point.bytes) && nodes.contains(point.nodes) && ppn.contains(point.ppn) &&
           form.contains(point.form) && crowded.contains(point.crowded) && network.contains(point.network) &&
           spare.contains(point.spare) && rate.contains(point.rate);
}

bool SelectionRule::covers(const SelectionRule& other) const {
    return holds_wherever(*this, other, 0);
}

const SelectionRule* find_rule(const Selection& selection, Selected collective, const SelectionPoint& point) {
    for (const SelectionRule& rule : selection.rules[index(collective)])
        if (rule.contains(point)) return &rule;
    return nullptr;
}

Carrier choose(const Selection& selection, Selected collective, const SelectionPoint& point) {
    const SelectionRule* rule = find_rule(selection, collective, point);
    return rule != nullptr ? rule->carrier : Carrier::kDirect;
}

const char* network_name(uint64_t network) {
    return network < kJoined.size() ? kJoined[network].data() : "";
}

std::optional<uint64_t> read_rate(std::string_view text) {
    constexpr uint64_t kMbpsPerG = 1000;
    const bool in_g = text.ends_with('G') || text.ends_with('g');
    if (in_g || text.ends_with('M') || text.ends_with('m')) text.remove_suffix(1);
    const size_t dot = in_g ? text.find('.') : text.npos;
    const auto whole = read_number(text.substr(0, dot));
    if (!whole || !in_g) return whole;
    if (*whole > UINT64_MAX / kMbpsPerG - 1) return std::nullopt;
    std::string thousandths = dot == text.npos ? "0" : std::string(text.substr(dot + 1));
    if (thousandths.empty() || thousandths.size() > 3) return std::nullopt;
    thousandths.resize(3, '0');
    const auto rest = read_number(thousandths);
    if (!rest) return std::nullopt;
    return *whole * kMbpsPerG + *rest;
}

std::string show_rate(uint64_t mbps) {
    if (mbps == 0) return "0";
    if (mbps < 1000 || mbps > UINT64_MAX - 1000) return std::to_string(mbps) + "M";
    std::string thousandths = std::to_string(1000 + mbps % 1000).substr(1);
    while (thousandths.ends_with('0')) thousandths.pop_back();
    return std::to_string(mbps / 1000) + (thousandths.empty() ? "" : "." + thousandths) + "G";
}

}  // namespace longshore
