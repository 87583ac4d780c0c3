#include "dpu/card/gate_config.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/file.h"
#include "base/text.h"

namespace longshore {
namespace {

constexpr size_t kConfigBytesMax = 64 * 1024;
constexpr size_t kAllowedMax = 1024;
constexpr size_t kTaskFoldersMax = 64;
constexpr std::string_view kSpace = " \t\r";

struct NumberRow {
    const char* name;
    uint32_t GateConfig::*field;
    uint32_t max;
};
constexpr NumberRow kNumbers[] = {
    {"jobs_max", &GateConfig::jobs_max, 65536},
    {"jobs_per_address_max", &GateConfig::jobs_per_address_max, 65536},
    {"ranks_max", &GateConfig::ranks_max, 65536},
    {"ranks_per_job_max", &GateConfig::ranks_per_job_max, 65536},
    {"ranks_per_address_max", &GateConfig::ranks_per_address_max, 65536},
    {"task_processes_per_job_max", &GateConfig::task_processes_per_job_max, 65536},
    {"limit_s", &GateConfig::limit_s, 3600},
};

std::string_view trimmed(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

bool set_allow(std::string_view list, GateConfig* config, std::string* error) {
    std::vector<IpNetwork> allow;
    for (bool more = !list.empty(); more;) {
        const size_t comma = list.find(',');
        const std::string_view item = trimmed(list.substr(0, comma));
        const std::optional<IpNetwork> network = read_ip_network(item);
        if (!network || allow.size() == kAllowedMax) {
            *error = "allow: \"" + shown(item) + "\" is not a network such as 10.1.0.0/16 or fd00:1::/32" +
                     (network ? ", or there are too many" : "");
            return false;
        }
        allow.push_back(*network);
        more = comma != list.npos;
        if (more) list.remove_prefix(comma + 1);
    }
    config->allow = std::move(allow);
    return true;
}

// Whether they are there and whose is looked at whenever a plug-in is to be loaded.
bool set_task_folders(std::string_view list, GateConfig* config, std::string* error) {
    std::vector<std::string> folders;
    for (bool more = !list.empty(); more;) {
        const size_t comma = list.find(',');
        const std::string_view item = trimmed(list.substr(0, comma));
        if (!item.starts_with('/') || item.size() > 1024 || folders.size() == kTaskFoldersMax) {
            *error = "task_folders: \"" + shown(item) +
                     "\" is not the whole path of a folder, which begins with /" +
                     (folders.size() == kTaskFoldersMax ? ", or there are too many" : "");
            return false;
        }
        folders.emplace_back(item);
        more = comma != list.npos;
        if (more) list.remove_prefix(comma + 1);
    }
    config->task_folders = std::move(folders);
    return true;
}

bool set_number(const NumberRow& row, std::string_view value, GateConfig* config, std::string* error) {
    const std::optional<uint64_t> number = read_number(value);
    if (number && *number >= 1 && *number <= row.max) {
        config->*row.field = static_cast<uint32_t>(*number);
        return true;
    }
    *error = std::string(row.name) + " = " + shown(value) + ": it must be a number from 1 to " +
             std::to_string(row.max);
    return false;
}

bool set_job_users(std::string_view value, GateConfig* config, std::string* error) {
    const std::optional<UserRange> users = value.empty() ? UserRange{} : read_user_range(value);
    if (!users) {
        *error = "job_users = " + shown(value) +
                 ": it must be numbers of users that nobody else has, such as 70000-70999, and not root's";
        return false;
    }
    config->job_users = *users;
    return true;
}

bool set_address(std::string_view value, GateConfig* config, std::string* error) {
    if (value.empty() || value.size() > 253 || value.find_first_of(" \t\n\r") != value.npos) {
        *error = "address = " + shown(value) + ": it must be a name or an address of this machine, or *";
        return false;
    }
    config->address = value;
    return true;
}

bool set_port(std::string_view value, GateConfig* config, std::string* error) {
    const std::optional<uint64_t> number = read_number(value);
    if (!number || *number > 65535) {
        *error = "port = " + shown(value) + ": it must be a number from 0 to 65535";
        return false;
    }
    config->port = static_cast<uint16_t>(*number);
    return true;
}

bool parse_line(std::string_view line, std::set<std::string>* seen, GateConfig* config, std::string* error) {
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) return true;
    const size_t equals = line.find('=');
    if (equals == line.npos) {
        *error = "\"" + shown(line) + "\" is not name = value";
        return false;
    }
    const std::string_view name = trimmed(line.substr(0, equals));
    if (!set_gate_value(name, trimmed(line.substr(equals + 1)), config, error)) return false;
    if (seen->insert(std::string(name)).second) return true;
    *error = std::string(name) + " is there twice";
    return false;
}

}  // namespace

bool set_gate_value(std::string_view name, std::string_view value, GateConfig* config, std::string* error) {
    if (name == "address") return set_address(value, config, error);
    if (name == "port") return set_port(value, config, error);
    if (name == "allow") return set_allow(value, config, error);
    if (name == "job_users") return set_job_users(value, config, error);
    if (name == "task_folders") return set_task_folders(value, config, error);
    const auto* row = std::find_if(std::begin(kNumbers), std::end(kNumbers),
                                   [&](const auto& one) { return name == one.name; });
    if (row != std::end(kNumbers)) return set_number(*row, value, config, error);
    *error = "there is no setting \"" + shown(name) + "\"";
    return false;
}

bool parse_gate_config(std::string_view text, GateConfig* config, std::string* error) {
    GateConfig read = *config;
    std::set<std::string> seen;
    for (size_t number = 1; !text.empty(); ++number) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        if (parse_line(line, &seen, &read, error)) continue;
        *error = "line " + std::to_string(number) + ": " + *error;
        return false;
    }
    *config = std::move(read);
    return true;
}

bool load_gate_config(const std::string& path, GateConfig* config, std::string* error) {
    std::string text;
    if (!read_file(path, kConfigBytesMax, &text, error)) return false;
    if (text.size() > kConfigBytesMax) {
        *error = path + ": is longer than 64 KiB";
        return false;
    }
    if (parse_gate_config(text, config, error)) return true;
    *error = path + ": " + *error;
    return false;
}

bool is_complete(const GateConfig& config, std::string* error) {
    const std::optional<IpAddress> address = read_ip_address(config.address);
    if (!config.allow.empty() || (address && address->is_loopback())) return true;
    *error =
        "allow is not set: name the hosts that this DPU serves (allow = 10.1.0.7/32), or everybody (allow = "
        "0.0.0.0/0, ::/0); only a service whose address is one of loopback can do without";
    return false;
}

std::string show(const GateConfig& config) {
    std::string text =
        "address = " + config.address + "\nport = " + std::to_string(config.port) + "\nallow =";
    for (size_t i = 0; i < config.allow.size(); ++i) text += (i == 0 ? " " : ", ") + show(config.allow[i]);
    text += config.job_users.is_set() ? "\njob_users = " + show(config.job_users) + "\n" : "\njob_users =\n";
    text += "task_folders =";
    for (size_t i = 0; i < config.task_folders.size(); ++i)
        text += (i == 0 ? " " : ", ") + config.task_folders[i];
    text += "\n";
    for (const NumberRow& row : kNumbers)
        text += std::string(row.name) + " = " + std::to_string(config.*row.field) + "\n";
    return text;
}

}  // namespace longshore
