// longshore status: the jobs and service processes of this user on this machine, as the jobs' own memory and
// /proc show them.
#include <fmt/chrono.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "tools/run/launch.h"
#include "tools/status/job_view.h"
#include "tools/terminal.h"
#include "tools/tools.h"

namespace longshore::tools {
namespace {

constexpr const char* kService = "longshored";

struct Process {
    int pid = 0;
    std::string role;
    std::string command_line;
    time_t started = 0;
};

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
    std::istringstream lines(read_proc("/proc/stat"));
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("btime ")) return std::stoll(line.substr(6));
    }
    return 0;
}

// Field 22 of /proc/PID/stat, counted after the name in brackets, which may hold anything.
time_t start_time(const std::string& folder) {
    const std::string stat = read_proc(folder + "/stat");
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
        if (read_proc(folder + "/comm") != std::string(kService) + "\n") continue;
        struct stat owner {};
        if (stat(folder.c_str(), &owner) != 0 || owner.st_uid != getuid()) continue;
        std::vector<std::string> words;
        std::istringstream line(read_proc(folder + "/cmdline"));
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

// "running", "sleeping", "stopped", "ended"; "gone" if there is no such process.
std::string state_of(uint32_t pid) {
    const std::string stat = pid == 0 ? "" : read_proc(fmt::format("/proc/{}/stat", pid));
    const size_t bracket = stat.rfind(')');
    if (bracket == stat.npos || bracket + 2 >= stat.size()) return "gone";
    switch (stat[bracket + 2]) {
        case 'R':
            return "running";
        case 'T':
        case 't':
            return "stopped";
        case 'Z':
        case 'X':
            return "ended";
        default:
            return "sleeping";
    }
}

double seconds(uint64_t ns) {
    return static_cast<double>(ns) * 1e-9;
}

// "R.N": the Nth group that was made with rank R of the job as its rank 0.
std::string group_name(uint64_t id) {
    return fmt::format("{}.{}", id >> 40, id & ((uint64_t{1} << 40) - 1));
}

// The command line of the job's first process.
std::string program_of(const JobState& job, size_t characters_max) {
    for (const NodeState& node : job.nodes) {
        for (const RankView& rank : node.ranks) {
            std::string words = rank.pid == 0 ? "" : read_proc(fmt::format("/proc/{}/cmdline", rank.pid));
            std::replace(words.begin(), words.end(), '\0', ' ');
            std::erase_if(words, [](unsigned char c) { return c < ' '; });
            while (words.ends_with(' ')) words.pop_back();
            if (words.size() > characters_max) words = words.substr(0, characters_max - 3) + "...";
            if (!words.empty()) return words;
        }
    }
    return "unknown program";
}

std::string rank_name(const Worker& worker) {
    return worker.rank ? fmt::format("rank {}", *worker.rank)
                       : fmt::format("rank {} of node {}", worker.index, worker.node);
}

// "rank 3 (pid 17, node 0)", "SP 0 of node 0 (pid 18, stopped)".
std::string worker_text(const Worker& worker) {
    const std::string state = state_of(worker.pid);
    return worker.is_service
               ? fmt::format("SP {} of node {} (pid {}, {})", worker.index, worker.node, worker.pid, state)
               : fmt::format("{} (pid {}, node {}, {})", rank_name(worker), worker.pid, worker.node, state);
}

std::string list_text(const std::vector<Worker>& workers) {
    constexpr size_t kNamedMax = 4;
    std::string text;
    for (size_t i = 0; i < std::min(workers.size(), kNamedMax); ++i)
        text += (i == 0 ? "" : ", ") + worker_text(workers[i]);
    if (workers.size() > kNamedMax) text += fmt::format(" and {} more", workers.size() - kNamedMax);
    return text;
}

std::string waits_text(const OperationState& op) {
    if (!op.missing.empty())
        return fmt::format("{} {} not entered: {}", op.missing.size(),
                           op.missing.size() == 1 ? "rank has" : "ranks have", list_text(op.missing));
    if (!op.holders.empty()) return "all have entered; claims are held by " + list_text(op.holders);
    return "all have entered";
}

void print_files(const JobState& job) {
    bool is_first = true;
    for (const NodeState& node : job.nodes) {
        for (const FilesView& one : node.files) {
            if (std::exchange(is_first, false))
                fmt::print("\n  {:>4} {:>7} {:>6} {:>8} {:>8} {:>8} {:>8} {:>9} {:>7}\n", "NODE", "PID",
                           "FILES", "BEHIND", "WAITING", "AT MOST", "FOR", "WAITS", "BY RANK");
            fmt::print("  {:>4} {:>7} {:>6} {:>8} {:>8} {:>8} {:>8} {:>7.2f} s {:>7}{}\n", node.node, one.pid,
                       one.files, bytes_text(one.bytes), bytes_text(one.waiting_bytes),
                       bytes_text(one.bound_bytes),
                       one.since_ns != 0 ? fmt::format("{:.1f} s", seconds(one.since_ns)) : "-", one.waited_s,
                       one.passed, one.is_lost ? "  its writer is lost" : "");
        }
    }
}

void print_job(const JobState& job, const std::vector<Process>& processes) {
    time_t started = 0;
    for (const NodeState& node : job.nodes) {
        for (const Process& one : processes) {
            if (one.pid == node.supervisor && (started == 0 || one.started < started)) started = one.started;
        }
    }
    const size_t columns = terminal_columns(stdout);
    fmt::print("JOB  {}\n     {} rank{} on {} node{}, since {}\n\n",
               program_of(job, columns > 45 ? columns - 5 : 100), job.size, job.size == 1 ? "" : "s",
               job.node_count, job.node_count == 1 ? "" : "s", local_time(started));
    fmt::print("  {:>4} {:>2} {:>7}  {:<8} {:>4} {:>6} {:>6} {:>8} {:>8} {:>8} {:>6}\n", "NODE", "SP", "PID",
               "STATE", "CORE", "STARTS", "BUSY", "CPU", "MOVED", "BETWEEN", "TAKEN");
    for (const NodeState& node : job.nodes) {
        for (const ServiceView& sp : node.services) {
            const double busy = seconds(sp.busy_ns), all = busy + seconds(sp.idle_ns);
            fmt::print("  {:>4} {:>2} {:>7}  {:<8} {:>4} {:>6} {:>4.0f} % {:>6.1f} s {:>8} {:>8} {:>6}\n",
                       node.node, sp.service, sp.pid, state_of(sp.pid),
                       sp.core < 0 ? "-" : std::to_string(sp.core), sp.incarnation,
                       all > 0 ? 100 * busy / all : 0, seconds(sp.cpu_ns), bytes_text(sp.bytes_moved),
                       bytes_text(sp.bytes_between_nodes), sp.taken);
        }
    }
    fmt::print("\n  {:>4} {:>4} {:>7}  {:<8} {:>4} {:>6} {:>10} {:>10}\n", "NODE", "RANK", "PID", "STATE",
               "SP", "OPEN", "FROM SP", "FROM RANKS");
    for (const NodeState& node : job.nodes) {
        for (const RankView& rank : node.ranks) {
            fmt::print("  {:>4} {:>4} {:>7}  {:<8} {:>4} {:>6} {:>10} {:>10}\n", node.node,
                       rank.rank ? std::to_string(*rank.rank) : "?", rank.pid, state_of(rank.pid),
                       rank.service, rank.open, bytes_text(rank.bytes_by_service),
                       bytes_text(rank.bytes_by_rank));
        }
    }
    print_files(job);
    if (job.operations.empty()) {
        fmt::print("\n  No operation is open for longer than a moment.\n");
        return;
    }
    constexpr size_t kShownMax = 20;
    fmt::print("\n  {:>8}  {:<14} {:<18} {}\n", "OPEN FOR", "OPERATION", "GROUP", "STATE");
    for (size_t i = 0; i < std::min(job.operations.size(), kShownMax); ++i) {
        const OperationState& op = job.operations[i];
        const std::string line =
            fmt::format("  {:>8}  {:<14} {:<18} {}\n", op.open_s ? fmt::format("{:.0f} s", *op.open_s) : "-",
                        fmt::format("{} {}", rules_of(op.collective).name, op.sequence),
                        op.size == job.size ? fmt::format("{}, all ranks", group_name(op.group))
                                            : fmt::format("{}, {} ranks", group_name(op.group), op.size),
                        waits_text(op));
        fmt::print("{}", wrapped(line, columns));
    }
    if (job.operations.size() > kShownMax)
        fmt::print("  {:>8}  and {} more (see --json)\n", "", job.operations.size() - kShownMax);
}

using Json = nlohmann::ordered_json;

Json worker_json(const Worker& worker) {
    Json json{{"node", worker.node}, {"pid", worker.pid}, {"state", state_of(worker.pid)}};
    if (worker.is_service) {
        json["service"] = worker.index;
    } else {
        json["rank"] = worker.rank ? Json(*worker.rank) : Json();
    }
    return json;
}

Json operation_json(const OperationState& op) {
    Json json{{"collective", rules_of(op.collective).name},
              {"sequence", op.sequence},
              {"group", group_name(op.group)},
              {"group_size", op.size},
              {"open_s", op.open_s ? Json(*op.open_s) : Json()},
              {"late", op.late},
              {"entered", Json::array()},
              {"missing", Json::array()},
              {"claims_held_by", Json::array()}};
    for (const auto& [name, workers] :
         {std::pair{"entered", &op.entered}, std::pair{"missing", &op.missing}}) {
        for (const Worker& worker : *workers) {
            json[name].push_back(worker_json(worker));
            json[name].back()["group_rank"] = worker.group_rank;
        }
    }
    for (const Worker& worker : op.holders) json["claims_held_by"].push_back(worker_json(worker));
    return json;
}

Json job_json(const JobState& job) {
    Json json{{"program", program_of(job, 4096)},   {"ranks", job.size},      {"node_count", job.node_count},
              {"wait_report_s", job.wait_report_s}, {"nodes", Json::array()}, {"operations", Json::array()}};
    for (const NodeState& node : job.nodes) {
        Json one{{"node", node.node},
                 {"supervisor", node.supervisor},
                 {"services", Json::array()},
                 {"ranks", Json::array()}};
        for (const ServiceView& sp : node.services) {
            one["services"].push_back({{"service", sp.service},
                                       {"pid", sp.pid},
                                       {"state", state_of(sp.pid)},
                                       {"core", sp.core < 0 ? Json() : Json(sp.core)},
                                       {"starts", sp.incarnation},
                                       {"busy_s", seconds(sp.busy_ns)},
                                       {"copy_s", seconds(sp.copy_ns)},
                                       {"network_s", seconds(sp.network_ns)},
                                       {"idle_s", seconds(sp.idle_ns)},
                                       {"cpu_s", seconds(sp.cpu_ns)},
                                       {"sleeps", sp.sleeps},
                                       {"bytes_moved", sp.bytes_moved},
                                       {"bytes_between_nodes", sp.bytes_between_nodes},
                                       {"moves_taken", sp.taken}});
        }
        for (const RankView& rank : node.ranks) {
            one["ranks"].push_back({{"rank", rank.rank ? Json(*rank.rank) : Json()},
                                    {"pid", rank.pid},
                                    {"state", state_of(rank.pid)},
                                    {"attached", rank.attached},
                                    {"service", rank.service},
                                    {"open_operations", rank.open},
                                    {"bytes_by_service", rank.bytes_by_service},
                                    {"bytes_by_rank", rank.bytes_by_rank}});
        }
        for (const FilesView& files : node.files) {
            one["files"].push_back({{"pid", files.pid},
                                    {"files", files.files},
                                    {"bytes", files.bytes},
                                    {"waiting_bytes", files.waiting_bytes},
                                    {"bound_bytes", files.bound_bytes},
                                    {"waiting_for_s", seconds(files.since_ns)},
                                    {"rank_waited_s", files.waited_s},
                                    {"files_by_rank", files.passed},
                                    {"writer_is_lost", files.is_lost}});
        }
        json["nodes"].push_back(std::move(one));
    }
    for (const OperationState& op : job.operations) json["operations"].push_back(operation_json(op));
    return json;
}

void print_json(const std::vector<JobState>& jobs, const std::vector<Process>& processes) {
    Json all{{"jobs", Json::array()}, {"processes", Json::array()}};
    for (const JobState& job : jobs) all["jobs"].push_back(job_json(job));
    for (const Process& one : processes) {
        all["processes"].push_back({{"pid", one.pid},
                                    {"role", one.role},
                                    {"started", local_time(one.started)},
                                    {"command", one.command_line}});
    }
    fmt::print("{}\n", all.dump(2, ' ', false, Json::error_handler_t::replace));
}

// Those of which no job says anything: just started, about to end, or not readable.
std::vector<Process> not_of(const std::vector<JobState>& jobs, std::vector<Process> processes) {
    std::erase_if(processes, [&](const Process& one) {
        for (const JobState& job : jobs) {
            for (const NodeState& node : job.nodes) {
                if (node.supervisor == one.pid) return true;
                for (const ServiceView& sp : node.services) {
                    if (sp.pid == static_cast<uint32_t>(one.pid)) return true;
                }
            }
        }
        return false;
    });
    return processes;
}

int status(bool json) {
    const std::vector<Process> processes = find_processes();
    std::vector<int> supervisors;
    for (const Process& one : processes) {
        if (one.role == "supervisor") supervisors.push_back(one.pid);
    }
    const std::vector<JobState> jobs = find_jobs(supervisors);
    if (json) {
        print_json(jobs, processes);
        return kOk;
    }
    if (processes.empty()) {
        fmt::print(
            "No service process of yours runs on this machine.\n"
            "That is normal between jobs: 'longshore run' starts them, and they end with\ntheir job.\n");
    }
    for (size_t i = 0; i < jobs.size(); ++i) {
        if (i != 0) fmt::print("\n");
        print_job(jobs[i], processes);
    }
    const std::vector<Process> others = not_of(jobs, processes);
    if (!others.empty()) {
        fmt::print("{}{:>8}  {:<12} {:<20} {}\n", jobs.empty() ? "" : "\n", "PID", "ROLE", "STARTED",
                   "COMMAND");
        for (const Process& one : others) {
            fmt::print("{:>8}  {:<12} {:<20} {}\n", one.pid, one.role, local_time(one.started),
                       one.command_line);
        }
    }
    return kOk;
}

}  // namespace

void add_status(CLI::App& app, const Words*, int* exit_code) {
    const auto json = std::make_shared<bool>(false);
    CLI::App* command = app.add_subcommand("status", "Show your jobs on this machine and what they wait for");
    set_usage(command, "longshore status [--json]");
    command->add_flag("--json", *json, "as JSON");
    command->footer(
        R"(Columns of a service process (SP): CORE, its own, or -; STARTS, 1 unless it was lost; BUSY, of its time; MOVED,
bytes in all; BETWEEN, of these from other nodes; TAKEN, blocks that it moved for another SP of the node. Of a
rank: OPEN, its operations under way; bytes that service processes (FROM SP) and ranks (FROM RANKS) have moved
to it. Of a rank that writes behind: FILES and bytes BEHIND so far; WAITING for the disk, of AT MOST, FOR how
long something has waited; how long the rank WAITS in all; files that it wrote itself (BY RANK). Last,
operations that are open for longer than a moment, and what they wait for.

Examples:
  longshore status
  longshore status --json

Exit code: 0, also when none runs.)");
    command->callback([=] { *exit_code = status(*json); });
}

}  // namespace longshore::tools
