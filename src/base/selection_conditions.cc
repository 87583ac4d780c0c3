#include "base/selection_conditions.h"

#include <algorithm>

#include "base/text.h"

namespace longshore {
namespace {

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

}  // namespace

constinit const std::array<Condition, kConditionCount> kConditions = {
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

bool holds_wherever(const SelectionRule& a, const SelectionRule& b, size_t next) {
    return std::all_of(kConditions.begin() + next, kConditions.end(), [&](const Condition& condition) {
        return condition.of(a).first <= condition.of(b).first && condition.of(a).last >= condition.of(b).last;
    });
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
