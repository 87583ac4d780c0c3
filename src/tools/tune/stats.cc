#include "tools/tune/stats.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace longshore::tools {
namespace {

// Fewer calls show nothing; and of the others, some of each hundred lose their core between start and wait.
constexpr uint64_t kCallsMin = 20;
constexpr double kShareMin = 0.95;

constexpr SelectionRange SelectionRule::*kRanges[] = {
    &SelectionRule::form,    &SelectionRule::nodes, &SelectionRule::ppn,  &SelectionRule::bytes,
    &SelectionRule::crowded, &SelectionRule::spare, &SelectionRule::rate, &SelectionRule::network};
// Those whose values are so ordered that a rule can say any range of them.
constexpr size_t kJoinable = 6;

bool intersect(const SelectionRule& a, const SelectionRule& b, SelectionRule* out) {
    for (const auto range : kRanges) {
        (out->*range).first = std::max((a.*range).first, (b.*range).first);
        (out->*range).last = std::min((a.*range).last, (b.*range).last);
        if ((out->*range).first > (out->*range).last) return false;
    }
    return true;
}

// What is left of `rule` without `hole`, which is inside: cut off along one condition after the other.
void cut_out(SelectionRule rule, const SelectionRule& hole, std::vector<SelectionRule>* out) {
    for (const auto range : kRanges) {
        SelectionRule part = rule;
        if ((rule.*range).first < (hole.*range).first) {
            (part.*range).last = (hole.*range).first - 1;
            out->push_back(part);
        }
        part = rule;
        if ((rule.*range).last > (hole.*range).last) {
            (part.*range).first = (hole.*range).last + 1;
            out->push_back(part);
        }
        rule.*range = hole.*range;
    }
}

// The same table without common points: of each rule what is left of it behind those before it.
std::vector<SelectionRule> apart(const std::vector<SelectionRule>& rules) {
    std::vector<SelectionRule> all;
    for (size_t i = 0; i < rules.size(); ++i) {
        std::vector<SelectionRule> left = {rules[i]};
        for (size_t k = 0; k < i; ++k) {
            std::vector<SelectionRule> rest;
            for (const SelectionRule& part : left) {
                SelectionRule inside;
                if (intersect(part, rules[k], &inside))
                    cut_out(part, inside, &rest);
                else
                    rest.push_back(part);
            }
            left = std::move(rest);
        }
        all.insert(all.end(), left.begin(), left.end());
    }
    return all;
}

// Whether both are one rule, cut along one condition; then `a` becomes that.
bool join(SelectionRule* a, const SelectionRule& b) {
    if (a->carrier != b.carrier) return false;
    for (size_t i = 0; i < kJoinable; ++i) {
        const auto range = kRanges[i];
        SelectionRule other = b;
        other.*range = a->*range;
        if (other != *a) continue;
        SelectionRange& mine = a->*range;
        if (mine.last != UINT64_MAX && mine.last + 1 == (b.*range).first) {
            mine.last = (b.*range).last;
            return true;
        }
        if ((b.*range).last != UINT64_MAX && (b.*range).last + 1 == mine.first) {
            mine.first = (b.*range).first;
            return true;
        }
    }
    return false;
}

void join_all(std::vector<SelectionRule>* rules) {
    for (size_t i = 0; i < rules->size();) {
        size_t k = i + 1;
        while (k < rules->size() && !join(&(*rules)[i], (*rules)[k])) ++k;
        if (k == rules->size()) {
            ++i;
            continue;
        }
        rules->erase(rules->begin() + static_cast<std::ptrdiff_t>(k));
        i = 0;  // what has grown may fit to another
    }
}

SelectionRule nonblocking(const WaitedCalls& calls) {
    SelectionRule rule;
    rule.form = {kFormNonblocking, kFormNonblocking};
    rule.nodes = {calls.nodes, calls.nodes};
    rule.ppn = {calls.ranks_per_node, calls.ranks_per_node};
    if (has_bytes(calls.collective)) rule.bytes = calls.bytes;
    return rule;
}

// "MPI_Alltoallw_init": alltoallv, whose rules hold for it.
std::optional<Selected> persistent_of(std::string name) {
    constexpr std::string_view kBegin = "MPI_", kEnd = "_init";
    if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return std::nullopt;
    name = name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    return find_selected(name == "alltoallw" ? "alltoallv" : name);
}

}  // namespace

bool read_waited(const std::string& text, WaitedStatistics* out, std::string* error) {
    *out = {};
    try {
        const nlohmann::json whole = nlohmann::json::parse(text);
        for (const auto& [name, counts] : whole.at("collectives").items())
            if (const auto collective = persistent_of(name))
                out->persistent[static_cast<size_t>(*collective)] = true;
        for (const auto& cell : whole.at("waited_at_once")) {
            const auto collective = find_selected(cell.at("collective").get<std::string>());
            if (!collective) {
                *error = "it has a collective that this version does not know";
                return false;
            }
            WaitedCalls one;
            one.collective = *collective;
            one.nodes = cell.at("nodes");
            one.ranks_per_node = cell.at("ranks_per_node");
            one.calls = cell.at("calls");
            one.at_once = cell.at("at_once");
            if (has_bytes(*collective))
                one.bytes = {cell.at("bytes_first").get<uint64_t>(), cell.at("bytes_last").get<uint64_t>()};
            if (one.nodes == 0 || one.ranks_per_node == 0 || one.at_once > one.calls ||
                one.bytes.first > one.bytes.last) {
                *error = "its numbers cannot be";
                return false;
            }
            // MPI_Ialltoallv and MPI_Ialltoallw have the same rules.
            const auto same =
                std::find_if(out->calls.begin(), out->calls.end(), [&](const WaitedCalls& other) {
                    return other.collective == one.collective && other.nodes == one.nodes &&
                           other.ranks_per_node == one.ranks_per_node && other.bytes == one.bytes;
                });
            if (same == out->calls.end()) {
                out->calls.push_back(one);
            } else {
                same->calls += one.calls;
                same->at_once += one.at_once;
            }
        }
    } catch (const nlohmann::json::parse_error&) {
        *error = "it is no JSON";
        return false;
    } catch (const nlohmann::json::exception&) {
        *error = "it is not what 'longshore run --stats FILE' of this version writes";
        return false;
    }
    return true;
}

bool are_blocking_in_effect(const WaitedCalls& calls) {
    return calls.calls >= kCallsMin &&
           static_cast<double>(calls.at_once) >= kShareMin * static_cast<double>(calls.calls);
}

std::vector<SelectionRule> as_blocking(const std::vector<SelectionRule>& rules, const WaitedCalls& calls) {
    const SelectionRule such = nonblocking(calls);
    const std::vector<SelectionRule> parts = apart(rules);
    std::vector<SelectionRule> first;
    for (const SelectionRule& rule : parts) {
        SelectionRule inside;
        if (!intersect(rule, such, &inside)) continue;
        inside.form = {kFormBlocking, kFormBlocking};
        for (const SelectionRule& other : parts) {
            SelectionRule part;
            if (other.carrier == rule.carrier || !intersect(other, inside, &part)) continue;
            part.form = such.form;
            part.carrier = other.carrier;
            first.push_back(part);
        }
    }
    if (first.empty()) return rules;
    join_all(&first);
    // A rule that one of the new ones has taken everything from would be an error.
    for (const SelectionRule& rule : rules) {
        const bool never = std::any_of(first.begin(), first.end(),
                                       [&](const SelectionRule& other) { return other.covers(rule); });
        if (!never) first.push_back(rule);
    }
    return first;
}

std::string describe(const WaitedCalls& calls) {
    const auto plural = [](uint64_t count, const char* word) {
        return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
    };
    std::string text = fmt::format("{}, {}, {} per node", selected_name(calls.collective),
                                   plural(calls.nodes, "node"), plural(calls.ranks_per_node, "rank"));
    if (has_bytes(calls.collective))
        text += fmt::format(", {}-{} bytes", show_size(calls.bytes.first),
                            calls.bytes.last == UINT64_MAX ? "" : show_size(calls.bytes.last + 1));
    return text + fmt::format(": {} of {} calls were waited for at once", calls.at_once, calls.calls);
}

std::vector<std::string> apply_waited(const WaitedStatistics& statistics, Selection* selection) {
    std::vector<WaitedCalls> calls = statistics.calls;
    std::stable_sort(calls.begin(), calls.end(),
                     [](const WaitedCalls& a, const WaitedCalls& b) { return a.calls > b.calls; });
    std::vector<std::string> lines;
    for (const WaitedCalls& one : calls) {
        const auto i = static_cast<size_t>(one.collective);
        std::string what;
        if (!are_blocking_in_effect(one)) {
            what = one.calls < kCallsMin ? "too few to tell; they keep their rules"
                                         : "not nearly all; they keep their rules";
        } else if (statistics.persistent[i]) {
            what =
                "but the program has persistent ones, for which the same rules hold; they keep their rules";
        } else {
            std::vector<SelectionRule> rules = as_blocking(selection->rules[i], one);
            if (rules == selection->rules[i]) {
                what = "the rules for blocking calls are the same";
            } else if (rules.size() > kSelectionRulesMax) {
                what = fmt::format("but there would be more than {} rules; they keep theirs",
                                   kSelectionRulesMax);
            } else {
                selection->rules[i] = std::move(rules);
                what = "they get the rules for blocking calls";
            }
        }
        lines.push_back(describe(one) + ": " + what);
    }
    return lines;
}

}  // namespace longshore::tools
