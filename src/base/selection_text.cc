// A table of rules as text, read and written.
#include <algorithm>

#include "base/selection.h"
#include "base/selection_conditions.h"
#include "base/text.h"

namespace longshore {
namespace {

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
        std::vector<Placed>& rules = placed_[static_cast<size_t>(*collective)];
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
        const std::vector<Placed>& all = placed_[static_cast<size_t>(collective)];
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
        const Placed& last = placed_[static_cast<size_t>(collective)].back();
        line_ = last.line;
        std::string message =
            std::string(selected_name(collective)) + " has no rule for " + place(collective, at);
        if (has_bytes(collective)) message += ", bytes " + kConditions[kBytes].show(bytes);
        return fail(last.column, message);
    }

    // Ranks per node and nodes, and whatever else some rule of the collective tells apart.
    std::string place(Selected collective, const SelectionPoint& at) const {
        const std::vector<Placed>& rules = placed_[static_cast<size_t>(collective)];
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
        for (size_t i = 0; i < kSelectedCount; ++i)
            message += std::string(i == 0 ? " " : ", ") + selected_name(static_cast<Selected>(i));
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

}  // namespace longshore
