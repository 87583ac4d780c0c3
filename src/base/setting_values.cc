#include "base/setting_values.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace longshore {
namespace {

constexpr size_t kTextBytesMax = 4095;  // PATH_MAX without its final zero
constexpr size_t kCoresMax = 1024;
constexpr uint64_t kCoreMax = 65535;

constexpr std::array<std::string_view, 4> kLogLevels = {"warn", "info", "debug", "trace"};
constexpr std::array<std::string_view, 2> kPlacements = {"contiguous", "strided"};
constexpr std::array<std::string_view, 3> kMemoryModes = {"auto", "direct", "staging"};
constexpr std::array<std::string_view, 4> kMemoryAliases = {"off", "allocate", "adopt", "adopt-at-once"};

constexpr std::array<std::string_view, 3> kNetworks = {"auto", "tcp", "ucx"};
constexpr std::array<std::string_view, 2> kSecurities = {"handshake", "tls"};

bool within(uint64_t number, const SettingRule& rule) {
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

bool read_value(std::string_view text, const SettingRule& rule, bool* flag) {
    if (text == "on" || text == "1") {
        *flag = true;
    } else if (text == "off" || text == "0") {
        *flag = false;
    } else {
        return false;
    }
    return true;
}

bool read_value(std::string_view text, const SettingRule& rule, uint32_t* count) {
    const std::optional<uint64_t> number = read_number(text);
    if (!number || !within(*number, rule)) return false;
    *count = static_cast<uint32_t>(*number);
    return true;
}

bool read_value(std::string_view text, const SettingRule& rule, uint64_t* bytes) {
    const std::optional<uint64_t> size = read_size(text);
    if (!size || !within(*size, rule)) return false;
    if (rule.power_of_two && (*size & (*size - 1)) != 0) return false;
    *bytes = *size;
    return true;
}

bool read_value(std::string_view text, const SettingRule& rule, std::string* value) {
    // A line break would end the value early when the settings are sent to the other ranks.
    if (text.size() > kTextBytesMax || text.find_first_of("\n\r") != text.npos) return false;
    *value = text;
    return true;
}

bool read_value(std::string_view text, const SettingRule& rule, LogLevel* level) {
    return read_choice(text, kLogLevels, level);
}

bool read_value(std::string_view text, const SettingRule& rule, NodesPlacement* placement) {
    return read_choice(text, kPlacements, placement);
}

bool read_value(std::string_view text, const SettingRule& rule, MemoryMode* mode) {
    return read_choice(text, kMemoryModes, mode);
}

bool read_value(std::string_view text, const SettingRule& rule, MemoryAlias* alias) {
    return read_choice(text, kMemoryAliases, alias);
}

bool read_value(std::string_view text, const SettingRule& rule, NetworkCarrier* carrier) {
    return read_choice(text, kNetworks, carrier);
}

bool read_value(std::string_view text, const SettingRule& rule, NetworkSecurity* security) {
    return read_choice(text, kSecurities, security);
}

bool read_value(std::string_view text, const SettingRule& rule, PortRange* ports) {
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

bool read_value(std::string_view text, const SettingRule& rule, LinkRate* rate) {
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

bool read_value(std::string_view text, const SettingRule& rule, CoreChoice* choice) {
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

bool read_value(std::string_view text, const SettingRule& rule, TaskCores* cores) {
    CoreChoice list;
    if (text != "ranks" && text != "other-socket" && !read_value(text, rule, &list)) return false;
    cores->text = text;
    return true;
}

// "alltoall:mpi,bcast:direct"
bool read_value(std::string_view text, const SettingRule& rule, ForcedAlgorithms* forced) {
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

std::string show_value(const SettingInfo& info, const TaskCores& cores) {
    return cores.text;
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

}  // namespace

bool read_setting(std::string_view text, const SettingRule& rule, Settings* settings) {
    return std::visit([&](auto field) { return read_value(text, rule, &(settings->*field)); }, rule.field);
}

std::string show_setting(const Settings& settings, const SettingRule& rule, const SettingInfo& info) {
    return std::visit([&](auto field) { return show_value(info, settings.*field); }, rule.field);
}

}  // namespace longshore
