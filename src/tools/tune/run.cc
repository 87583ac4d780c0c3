#include "tools/tune/run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tools/interruption.h"
#include "tools/tune/table.h"

namespace longshore::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLook = std::chrono::milliseconds(50);
constexpr double kStartLimitS = 60, kRowSlackS = 10;
constexpr auto kEndLimit = std::chrono::seconds(10);

// A folder of its own, gone with this.
class Scratch {
  public:
    Scratch() {
        const char* folder = getenv("TMPDIR");
        path_ = std::string(folder != nullptr && *folder != 0 ? folder : "/tmp") + "/longshore-tune-XXXXXX";
        if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make a folder like " + path_);
    }
    ~Scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    std::string file(const char* name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

pid_t start(const std::vector<std::string>& words, const std::vector<std::string>& environment,
            const std::string& log, ChildSignals* signals) {
    fflush(nullptr);
    const pid_t child = fork();
    if (child != 0) {
        signals->in_parent(child);
        return child;
    }
    signals->in_child();
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int output = open(log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    dup2(nothing, 0);
    dup2(output, 1);
    dup2(output, 2);
    for (const std::string& entry : environment) putenv(const_cast<char*>(entry.c_str()));
    std::vector<char*> pointers;
    for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    execvp(pointers[0], pointers.data());
    _exit(127);
}

std::string text_of(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

// What the benchmark or the MPI said, if it is a complaint: its own line first, else the last one.
std::string complaint(const std::string& log) {
    std::istringstream lines(text_of(log));
    std::string own, last;
    for (std::string line; std::getline(lines, line);) {
        if (own.empty() && line.find("longshore") == 0) own = line;
        if (!line.empty() && line[0] != '-' && line[0] != '#') last = line;
    }
    return own.empty() ? last : own;
}

std::vector<std::string> words_of(const TuneLaunch& launch, const std::string& json) {
    std::vector<std::string> words = launch.command;
    const auto add = [&](const char* option, const std::string& value) {
        words.emplace_back(option);
        words.push_back(value);
    };
    add("--collectives", fmt::format("{}", fmt::join(launch.collectives, ",")));
    add("--contenders", fmt::format("{}", fmt::join(launch.contenders, ",")));
    add("--sizes", fmt::format("{}", fmt::join(launch.sizes, ",")));
    add("--samples", std::to_string(launch.samples));
    add("--iterations", std::to_string(launch.iterations));
    add("--time-limit", fmt::format("{}", launch.time_limit_s));
    add("--progress", "none");
    add("--json", json);
    return words;
}

void read_rows(const std::string& path, TuneResult* result) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
        if (object.is_discarded()) continue;  // cut off
        if (object.value("type", "") == "machine")
            result->machine = std::move(object);
        else if (object.value("type", "") == "row")
            result->rows.push_back(std::move(object));
    }
}

size_t count_rows(const std::string& path) {
    const std::string text = text_of(path);
    size_t rows = 0;
    for (size_t at = 0; (at = text.find("\"type\":\"row\"", at)) != text.npos; ++at) ++rows;
    return rows;
}

}  // namespace

TuneResult run_launch(const TuneLaunch& launch, const std::function<void(size_t)>& on_row) {
    const Scratch scratch;
    const std::string json = scratch.file("rows"), log = scratch.file("log");
    const double rows = static_cast<double>(launch.collectives.size() * launch.sizes.size());
    const double limit_s = kStartLimitS + rows * (kRowSlackS + 3 * launch.time_limit_s);
    TuneResult result;
    ChildSignals signals;
    const pid_t child = start(words_of(launch, json), launch.environment, log, &signals);
    if (child < 0) {
        result.problem = "cannot start a process";
        return result;
    }
    const auto begin = Clock::now();
    auto killed = Clock::time_point::max();
    int status = 0;
    size_t seen = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        std::this_thread::sleep_for(kLook);
        const auto now = Clock::now();
        if (const size_t count = count_rows(json); count != seen) on_row(seen = count);
        if (killed == Clock::time_point::max() &&
            (signals.seen() || std::chrono::duration<double>(now - begin).count() > limit_s)) {
            if (!signals.seen()) kill(child, SIGTERM);  // mpirun ends its ranks
            killed = now;
        } else if (killed != Clock::time_point::max() && now - killed > kEndLimit) {
            kill(child, SIGKILL);
        }
    }
    signals.child_ended();
    signals.throw_if_interrupted();
    read_rows(json, &result);
    on_row(result.rows.size());
    result.ok = killed == Clock::time_point::max() && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (killed != Clock::time_point::max())
        result.problem = fmt::format("did not end within {:.0f} s", limit_s);
    else if (!result.ok)
        result.problem = complaint(log);
    return result;
}

std::vector<double> turn_medians(const nlohmann::json& row, const char* key) {
    std::vector<double> medians;
    const auto samples = row.value(key, std::vector<double>{});
    const size_t per_turn = row.value("iterations_per_turn", size_t{0});
    for (size_t at = 0; per_turn > 0 && at + per_turn <= samples.size(); at += per_turn)
        medians.push_back(median_of({samples.begin() + static_cast<ptrdiff_t>(at),
                                     samples.begin() + static_cast<ptrdiff_t>(at + per_turn)}));
    return medians;
}

}  // namespace longshore::tools
