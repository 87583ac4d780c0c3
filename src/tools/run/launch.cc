#include "tools/run/launch.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/output_file.h"
#include "base/settings.h"
#include "tools/paths.h"
#include "tools/terminal.h"
#include "tools/tools.h"

namespace longshore::tools {
namespace {

void set_variable(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
}

// NAME may be written as in the environment, or without LONGSHORE_, in any case: service_count=2.
std::string full_name(std::string name) {
    for (char& letter : name) letter = static_cast<char>(toupper(static_cast<unsigned char>(letter)));
    return name.starts_with("LONGSHORE_") ? name : "LONGSHORE_" + name;
}

bool export_setting(const std::string& text) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == text.npos) {
        fmt::print(stderr, "longshore: --set {}: write it as NAME=VALUE, for example --set chunk_bytes=64K\n",
                   text);
        return false;
    }
    set_variable(full_name(text.substr(0, equals)), text.substr(equals + 1));
    return true;
}

// As ld.so reads LD_PRELOAD.
bool is_listed(const std::string& list, const std::string& path) {
    for (size_t at = 0; at < list.size();) {
        const size_t end = std::min(list.find_first_of(" :", at), list.size());
        if (list.compare(at, end - at, path) == 0) return true;
        at = end + 1;
    }
    return false;
}

constexpr size_t kPatternsMax = 16;  // of io/layout.h

// However a file is written: ./out, folder/../out, or through a link. Empty: no file, as /dev/null is none.
std::string true_name(const std::string& path) {
    if (path.empty() || path == "-" || place_of_output(path).empty()) return "";
    std::error_code error;
    const auto whole = std::filesystem::weakly_canonical(absolute(path), error);
    return error ? absolute(path) : whole.string();
}

// Two results under one name would be taken for each other. Asked of the settings, whether they come from
// options, from --set or from the environment.
bool differ(const Settings& settings) {
    const std::pair<const char*, std::string> files[] = {
        {"--stats (LONGSHORE_STATS)", true_name(settings.stats_path)},
        {"--trace (LONGSHORE_TRACE)", true_name(settings.trace_path)},
        {"--algorithms (LONGSHORE_ALGORITHMS_FILE)", true_name(settings.algorithms_path)}};
    for (const auto& [option, name] : files) {
        for (const auto& [other, same] : files) {
            if (option == other || name.empty() || name != same) continue;
            fmt::print(stderr, "longshore: {} and {} name the same file, {}: give each its own\n", option,
                       other, name);
            return false;
        }
    }
    return true;
}

// Patterns as the setting has them: of absolute paths, joined by colons. False, after saying why.
bool join_patterns(const std::vector<std::string>& patterns, std::string* out) {
    size_t count = 0;
    for (const std::string& pattern : patterns) {
        const auto refuse = [&](const char* why) {
            fmt::print(stderr, "longshore: --write-behind '{}': {}\n", pattern, why);
            return false;
        };
        const bool is_strict = pattern == "strict";
        if (pattern.empty()) return refuse("name files, for example '/scratch/run7/*.ckpt'");
        if (pattern.find(':') != pattern.npos) return refuse("a pattern cannot have a colon");
        if (pattern.back() == '/')
            return refuse("it names a folder; name its files, for example with '*' behind it");
        count += is_strict ? 0 : 1;
        if (count > kPatternsMax) return refuse("there are more patterns than 16");
        *out += (out->empty() ? "" : ":") + (is_strict ? pattern : absolute(pattern));
    }
    if (count == 0 && !patterns.empty()) {
        fmt::print(stderr, "longshore: --write-behind strict: name files, too, by --write-behind PATTERN\n");
        return false;
    }
    return true;
}

class UsageFormatter : public CLI::Formatter {
  public:
    explicit UsageFormatter(std::string usage) : usage_(std::move(usage)) {}
    std::string make_usage(const CLI::App*, std::string) const override {
        return "\nUsage: " + usage_ + "\n";
    }
    std::string make_help(const CLI::App* command, std::string name, CLI::AppFormatMode mode) const override {
        return wrapped(CLI::Formatter::make_help(command, std::move(name), mode), terminal_columns(stdout));
    }
    // Without what CLI11 adds, as in "N:INT in [1 - 16] ... Needs: --other": an error says what is allowed.
    std::string make_option_opts(const CLI::Option* option) const override {
        std::string words = option->get_option_text();
        if (words.empty() && option->get_positional())
            words = option->get_items_expected_max() > 1 ? "..." : "";
        else if (words.empty() && option->get_type_size() != 0)
            words = option->get_type_name().substr(0, option->get_type_name().find(':'));
        return words.empty() ? "" : " " + words;
    }
    // As written: CLI11 would add blank lines around it.
    std::string make_footer(const CLI::App* command) const override { return command->get_footer() + "\n"; }

  private:
    std::string usage_;
};

}  // namespace

// Asked before the job starts, whose results would be lost at its end; where mpirun starts this command once
// for each rank, all ask at once. Not asked of LONGSHORE_STATS and LONGSHORE_TRACE in the environment, which
// may name a folder that only rank 0's machine has.
bool can_write(const char* option, const std::string& path) {
    if (path.empty() || path == "-") return true;
    // A folder that only the job can name.
    if (path.substr(0, path.rfind('/') + 1).find('%') != path.npos) return true;
    std::string why;
    if (can_write_output_file(path, &why)) return true;
    fmt::print(stderr, "longshore: {} {}: it cannot be written ({}); name a file in a folder of yours\n",
               option, path, why);
    return false;
}

std::string absolute(const std::string& path) {
    if (path.empty() || path == "-") return path;
    std::error_code error;
    const auto whole = std::filesystem::absolute(path, error);
    return error ? path : whole.string();
}

void set_usage(CLI::App* command, const std::string& usage) {
    const auto formatter = std::make_shared<UsageFormatter>(usage);
    formatter->column_width(32);
    command->formatter(formatter);
}

void add_set_option(CLI::App* command, std::vector<std::string>* settings) {
    command->add_option("--set", *settings, "any setting, may be repeated; 'longshore config' lists them")
        ->type_name("NAME=VALUE")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_launch_options(CLI::App* command, LaunchOptions* options) {
    command->add_option("--service", options->service, "service processes per node (LONGSHORE_SERVICE_COUNT)")
        ->type_name("N");
    command->add_option("--nodes", options->nodes, "emulate this many nodes (LONGSHORE_NODES_COUNT)")
        ->type_name("K");
    command
        ->add_option("--placement", options->placement,
                     "contiguous or strided: ranks on emulated nodes (LONGSHORE_NODES_PLACEMENT)")
        ->type_name("HOW");
    command
        ->add_option(
            "--stats", options->stats,
            "write a summary of the job, - for stderr (LONGSHORE_STATS); %j job, %h host, %p process")
        ->type_name("FILE");
    command->add_option("--trace", options->trace, "write a timeline of the job (LONGSHORE_TRACE)")
        ->type_name("FILE");
    command
        ->add_option("--algorithms", options->algorithms,
                     "which algorithm carries which call (LONGSHORE_ALGORITHMS_FILE)")
        ->type_name("FILE");
    command
        ->add_option("--write-behind", options->write_behind,
                     "write such files at the side; may be repeated (LONGSHORE_WRITE_BEHIND)")
        ->type_name("PATTERN")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    command->add_option("--log", options->log, "warn, info, debug or trace (LONGSHORE_LOG)")
        ->type_name("LEVEL");
    add_set_option(command, &options->settings);
}

int export_settings(const LaunchOptions& options) {
    if (!can_write("--stats", options.stats) || !can_write("--trace", options.trace)) return kUsage;
    std::string patterns;
    if (!join_patterns(options.write_behind, &patterns)) return kUsage;
    const std::pair<const char*, std::string> values[] = {
        {"LONGSHORE_WRITE_BEHIND", patterns},
        {"LONGSHORE_SERVICE_COUNT", options.service},
        {"LONGSHORE_NODES_COUNT", options.nodes},
        {"LONGSHORE_NODES_PLACEMENT", options.placement},
        {"LONGSHORE_STATS", absolute(options.stats)},
        {"LONGSHORE_TRACE", absolute(options.trace)},
        {"LONGSHORE_LOG", options.log},
        {"LONGSHORE_ALGORITHMS_FILE", absolute(options.algorithms)},
    };
    for (const auto& [name, value] : values) {
        if (!value.empty()) set_variable(name, value);
    }
    for (const std::string& text : options.settings) {
        if (!export_setting(text)) return kUsage;
    }
    Settings settings;
    std::vector<SettingError> errors;
    const bool valid = parse_settings(environ, &settings, &errors);
    for (const SettingError& error : errors) fmt::print(stderr, "longshore: {}\n", error.message);
    Selection selection = built_in_selection();
    return differ(settings) && load_algorithms(settings, &selection) && valid ? kOk : kUsage;
}

bool load_algorithms(const Settings& settings, Selection* selection) {
    std::string error;
    if (settings.algorithms_path.empty() || load_selection(settings.algorithms_path, selection, &error))
        return true;
    fmt::print(stderr, "longshore: LONGSHORE_ALGORITHMS_FILE: {}\n", error);
    return false;
}

// Puts a library into LD_PRELOAD. Returns kOk, or kNotReady after saying why.
static int preload(const std::string& shim) {
    if (!is_file(shim)) {
        fmt::print(stderr, "longshore: {} is not there; {}\n", shim, missing_part_advice());
        return kNotReady;
    }
    if (shim.find_first_of(" :") != shim.npos) {
        fmt::print(stderr,
                   "longshore: {}: LD_PRELOAD cannot hold a path with a space or a colon; move the folder\n",
                   shim);
        return kNotReady;
    }
    // Behind what is there: a library that looks for the next MPI_X finds ours. Tools that call PMPI_X work
    // in either order.
    const char* before = getenv("LD_PRELOAD");
    const std::string preloaded = before ? before : "";
    if (!is_listed(preloaded, shim))
        set_variable("LD_PRELOAD", preloaded.empty() ? shim : preloaded + ":" + shim);
    return kOk;
}

int export_shim() {
    if (const int code = preload(library_folder() + "/liblongshore.so"); code != kOk) return code;
    const char* const patterns = getenv("LONGSHORE_WRITE_BEHIND");
    if (patterns == nullptr || *patterns == 0) return kOk;
    return preload(library_folder() + "/liblongshore-io.so");
}

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates) {
    std::string nearest;
    const size_t letters = word.size() - std::min(word.size(), word.find_first_not_of('-'));
    size_t nearest_steps = letters / 3 + 1;  // more wrong letters than a third: not what was meant
    for (const std::string& candidate : candidates) {
        const size_t steps = edit_distance(word, candidate);
        if (steps >= nearest_steps) continue;
        nearest = candidate;
        nearest_steps = steps;
    }
    // The beginning of one candidate alone, as "stat" of "status".
    const auto begins = [&](const std::string& candidate) { return candidate.starts_with(word); };
    if (nearest.empty() && letters >= 3 && std::count_if(candidates.begin(), candidates.end(), begins) == 1)
        nearest = *std::find_if(candidates.begin(), candidates.end(), begins);
    return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

}  // namespace longshore::tools
