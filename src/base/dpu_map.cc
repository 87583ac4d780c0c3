#include "base/dpu_map.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/file.h"
#include "base/text.h"

namespace longshore {
namespace {

constexpr size_t kMapBytesMax = 1 << 20;
constexpr size_t kDpuHostBytesMax = 253;  // of a name in the domain name system
constexpr uint64_t kPortMax = 65535;
constexpr std::string_view kBlanks = " \t\r";
constexpr std::string_view kNameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";

bool is_host_name(std::string_view text) {
    return !text.empty() && text.size() <= kDpuHostBytesMax && text[0] != '-' && text[0] != '.' &&
           text.find_first_not_of(kNameLetters) == text.npos;
}

// fe80::1%tmfifo_net0: an address, and the device behind which it lies.
bool is_ipv6(std::string_view text) {
    const size_t zone = text.find('%');
    const std::string_view address = text.substr(0, zone);
    if (zone != text.npos && !is_host_name(text.substr(zone + 1))) return false;
    return address.find(':') != address.npos && address.size() <= kDpuHostBytesMax &&
           address.find_first_not_of("0123456789abcdefABCDEF:.") == address.npos;
}

bool read_port(std::string_view text, uint16_t* out) {
    const std::optional<uint64_t> port = read_number(text);
    if (port && *port <= kPortMax) *out = static_cast<uint16_t>(*port);
    return port && *port >= 1 && *port <= kPortMax;
}

// Outside of brackets, where % begins the device of an address.
std::string with_host(std::string_view text, std::string_view host) {
    std::string out;
    bool bracket = false;
    for (size_t i = 0; i < text.size(); ++i) {
        bracket = text[i] == '[' || (bracket && text[i] != ']');
        if (!bracket && text.substr(i, 2) == "%h") {
            out += short_host_name(host);
            ++i;
        } else {
            out += text[i];
        }
    }
    return out;
}

// The rows of a list or a file, one after another.
class DpuRows {
  public:
    explicit DpuRows(const std::string& host) : host_(host) {}

    bool add(std::string_view name, std::string_view address, std::string* error) {
        if (!is_host_name(name)) {
            *error = "\"" + shown(name) + "\" is not the name of a host";
        } else if (!is_dpu_address(address)) {
            *error = "\"" + shown(address) + "\" is not a DPU's HOST[:PORT]";
        } else if (!names_.insert(std::string(name)).second) {
            *error = "the host " + shown(name) + " is there twice";
        } else {
            // The whole name says more than the short one.
            if (name == host_) whole_ = address;
            if (name == short_host_name(host_)) short_ = address;
            return true;
        }
        return false;
    }
    bool find(std::string* address, std::string* error) const {
        *address = whole_.empty() ? short_ : whole_;
        if (address->empty()) *error = "it names no DPU for the host " + shown(host_);
        return !address->empty();
    }

  private:
    const std::string& host_;
    std::set<std::string> names_;
    std::string whole_, short_;
};

bool find_in_list(std::string_view list, DpuRows* rows, std::string* error) {
    for (bool more = true; more;) {
        const size_t comma = list.find(',');
        const std::string_view item = list.substr(0, comma);
        const size_t equals = item.find('=');
        if (equals == item.npos) {
            *error = "\"" + shown(item) + "\" is not host=HOST[:PORT]";
            return false;
        }
        if (!rows->add(item.substr(0, equals), item.substr(equals + 1), error)) return false;
        more = comma != list.npos;
        if (more) list.remove_prefix(comma + 1);
    }
    return true;
}

bool read_map(const std::string& path, std::string* text, std::string* error) {
    if (!read_file(path, kMapBytesMax, text, error)) return false;
    if (text->size() <= kMapBytesMax) return true;
    *error = path + ": is longer than " + show_size(kMapBytesMax) + " bytes";
    return false;
}

std::string_view next_word(std::string_view* line) {
    line->remove_prefix(std::min(line->find_first_not_of(kBlanks), line->size()));
    const std::string_view word = line->substr(0, line->find_first_of(kBlanks));
    line->remove_prefix(word.size());
    return word;
}

bool find_in_file(const std::string& path, DpuRows* rows, std::string* error) {
    std::string text;
    if (!read_map(path, &text, error)) return false;
    size_t number = 0;
    for (std::string_view rest = text; !rest.empty();) {
        std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(line.size() + 1, rest.size()));
        line = line.substr(0, line.find('#'));
        ++number;
        const std::string_view host = next_word(&line), address = next_word(&line);
        if (host.empty()) continue;
        std::string wrong;
        if (address.empty() || !next_word(&line).empty()) {
            wrong = "a line is a host and the HOST[:PORT] of its DPU";
        } else if (rows->add(host, address, &wrong)) {
            continue;
        }
        *error = path + ":" + std::to_string(number) + ": " + wrong;
        return false;
    }
    return true;
}

}  // namespace

std::string_view short_host_name(std::string_view host) {
    return host.substr(0, host.find('.'));
}

bool split_dpu_address(std::string_view text, DpuAddress* out) {
    const bool bracket = text.starts_with('[');
    const size_t end = bracket ? text.find(']') : std::min(text.find(':'), text.size());
    if (end == text.npos) return false;
    out->host = text.substr(bracket, end - bracket);
    out->port = 0;
    const std::string_view rest = text.substr(end + bracket);
    return (bracket ? is_ipv6(out->host) : is_host_name(out->host)) &&
           (rest.empty() || (rest[0] == ':' && read_port(rest.substr(1), &out->port)));
}

bool is_dpu_address(std::string_view text) {
    DpuAddress parts;
    return split_dpu_address(text, &parts);
}

bool find_dpu(const std::string& setting, const std::string& host, std::string* address, std::string* error) {
    return without_throwing([&] {
        *error = "out of memory";  // what is left if even the true reason has no room
        address->clear();
        bool found = false;
        std::string reason;
        if (setting.starts_with('@') || setting.find_first_of("=,") != setting.npos) {
            DpuRows rows(host);
            found = (setting.starts_with('@') ? find_in_file(setting.substr(1), &rows, &reason)
                                              : find_in_list(setting, &rows, &reason)) &&
                    rows.find(address, &reason);
        } else {
            const std::string text = with_host(setting, host);
            found = is_dpu_address(text);
            if (found) *address = text;
            if (!found) reason = "\"" + shown(text) + "\" is not a DPU's HOST[:PORT]";
        }
        *error = found ? "" : "LONGSHORE_DPU: " + reason;
        return found;
    });
}

}  // namespace longshore
