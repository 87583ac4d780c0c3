// longshore status: the service processes of this user on this machine, as /proc shows them.
#include <fmt/chrono.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/launch.h"
#include "tools/tools.h"

namespace longshore::tools {
namespace {

constexpr const char* kProgram = "longshored";

struct Process {
    int pid = 0;
    std::string role;
    std::string command_line;
    time_t started = 0;
};

std::string read_whole(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// The role is named on the command line: "--role supervisor", "--role=supervisor", or as the first plain
// word.
std::string role_of(const std::vector<std::string>& words) {
    for (size_t i = 1; i < words.size(); ++i) {
        if (words[i].starts_with("--role=")) return words[i].substr(7);
        if (words[i] == "--role" && i + 1 < words.size()) return words[i + 1];
    }
    if (words.size() > 1 && !words[1].starts_with('-')) return words[1];
    return "service";
}

time_t boot_time() {
    std::istringstream lines(read_whole("/proc/stat"));
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("btime ")) return std::stoll(line.substr(6));
    }
    return 0;
}

// Field 22 of /proc/PID/stat, counted after the name in brackets, which may hold anything.
time_t start_time(const std::string& folder) {
    const std::string stat = read_whole(folder + "/stat");
    const size_t bracket = stat.rfind(')');
    if (bracket == stat.npos) return 0;
    std::istringstream fields(stat.substr(bracket + 1));
    std::string field;
    for (int number = 3; number <= 22; ++number) fields >> field;
    return fields ? boot_time() + static_cast<time_t>(std::stoull(field) / sysconf(_SC_CLK_TCK)) : 0;
}

std::vector<Process> find_processes() {
    std::vector<Process> found;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
        const std::string folder = entry.path().string();
        const std::string name = entry.path().filename().string();
        if (name.find_first_not_of("0123456789") != name.npos) continue;
        if (read_whole(folder + "/comm") != std::string(kProgram) + "\n") continue;
        struct stat owner {};
        if (stat(folder.c_str(), &owner) != 0 || owner.st_uid != getuid()) continue;
        std::vector<std::string> words;
        std::istringstream line(read_whole(folder + "/cmdline"));
        for (std::string word; std::getline(line, word, '\0');) words.push_back(word);
        if (words.empty()) continue;  // a zombie: it has ended
        found.push_back(
            {std::stoi(name), role_of(words), fmt::format("{}", fmt::join(words, " ")), start_time(folder)});
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
    return found;
}

std::string local_time(time_t moment) {
    return moment != 0 ? fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(moment)) : "unknown";
}

int status(bool json) {
    const std::vector<Process> processes = find_processes();
    if (json) {
        auto list = nlohmann::ordered_json::array();
        for (const Process& one : processes) {
            list.push_back({{"pid", one.pid},
                            {"role", one.role},
                            {"started", local_time(one.started)},
                            {"command", one.command_line}});
        }
        fmt::print("{}\n", list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    } else if (processes.empty()) {
        fmt::print(
            "No service process of yours runs on this machine.\n"
            "That is normal between jobs: 'longshore run' starts them, and they end with their job.\n");
    } else {
        fmt::print("{:>8}  {:<12} {:<20} {}\n", "PID", "ROLE", "STARTED", "COMMAND");
        for (const Process& one : processes) {
            fmt::print("{:>8}  {:<12} {:<20} {}\n", one.pid, one.role, local_time(one.started),
                       one.command_line);
        }
    }
    return kOk;
}

}  // namespace

void add_status(CLI::App& app, int* exit_code) {
    const auto json = std::make_shared<bool>(false);
    CLI::App* command = app.add_subcommand("status", "List your service processes on this machine");
    set_usage(command, "longshore status [--json]");
    command->add_flag("--json", *json, "as a JSON list");
    command->footer(
        "\nExamples:\n  longshore status\n  longshore status --json\n\nExit code: 0, also when none runs.");
    command->callback([=] { *exit_code = status(*json); });
}

}  // namespace longshore::tools
