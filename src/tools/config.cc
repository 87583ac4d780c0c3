// longshore config: the settings table with its current values, for people, programs and the manual page.
#include <fmt/core.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/settings.h"
#include "tools/run/launch.h"
#include "tools/terminal.h"
#include "tools/tools.h"

namespace longshore::tools {
namespace {

struct ConfigOptions {
    bool json = false, man = false, markdown = false, algorithms = false;
};

std::string shown_default(const SettingInfo& info) {
    return *info.default_value != 0 ? info.default_value : "empty";
}

constexpr const char* kOfEachProcess = "Each process reads its own: give all the same.";

std::string scope_of(const SettingInfo& info) {
    return info.of_each_process ? fmt::format(" {}", kOfEachProcess) : "";
}

void print_text(const Settings& settings) {
    for (const SettingInfo& info : setting_table()) {
        const std::string value = setting_value(settings, info);
        const char* changed = value != info.default_value ? "  (set)" : "";
        fmt::print("{}",
                   wrapped(fmt::format("{}={}{}\n    {}{}\n    Must be {}. Default: {}{}{}.\n", info.name,
                                       value, changed, info.meaning, scope_of(info), info.allowed,
                                       shown_default(info), *info.unit != 0 ? " " : "", info.unit),
                           terminal_columns(stdout)));
    }
}

void print_json(const Settings& settings) {
    auto list = nlohmann::ordered_json::array();
    for (const SettingInfo& info : setting_table()) {
        list.push_back({{"name", info.name},
                        {"value", setting_value(settings, info)},
                        {"default", info.default_value},
                        {"unit", info.unit},
                        {"allowed", info.allowed},
                        {"meaning", info.meaning},
                        {"of_each_process", info.of_each_process}});
    }
    fmt::print("{}\n", list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

// The body of the SETTINGS section of longshore(1).
void print_man() {
    for (const SettingInfo& info : setting_table()) {
        fmt::print(".It Ev {}\n{}\n{}Must be {}.\nDefault: {}{}{}.\n", info.name, info.meaning,
                   info.of_each_process ? fmt::format("{}\n", kOfEachProcess) : "", info.allowed,
                   shown_default(info), *info.unit != 0 ? " " : "", info.unit);
    }
}

void print_markdown() {
    fmt::print("| Variable | Default | Unit | Allowed | Meaning |\n|---|---|---|---|---|\n");
    for (const SettingInfo& info : setting_table()) {
        fmt::print("| `{}` | {} | {} | {} | {}{} |\n", info.name, shown_default(info), info.unit,
                   info.allowed, info.meaning, scope_of(info));
    }
}

// Itself a table that can be edited and read back.
void print_algorithms(const Settings& settings, const Selection& selection) {
    fmt::print("# {}\n", settings.algorithms_path.empty() ? "Built in." : "From " + settings.algorithms_path);
    fmt::print("# collective, conditions, algorithm: see docs/selection.md\n");
    const auto names = forced_algorithm_names();
    for (size_t i = 0; i < kSelectedCount; ++i) {
        const auto& forced = settings.forced_algorithms.of[i];
        if (forced)
            fmt::print("# {} forces {} for {}.\n", names[i], carrier_name(static_cast<Selected>(i), *forced),
                       selected_name(static_cast<Selected>(i)));
    }
    fmt::print("{}", format_selection(selection));
}

int config(const ConfigOptions& options) {
    Settings settings;
    std::vector<SettingError> errors;
    bool valid = parse_settings(environ, &settings, &errors);
    if (options.algorithms) {
        Selection selection = built_in_selection();
        valid &= load_algorithms(settings, &selection);
        print_algorithms(settings, selection);
    } else if (options.json) {
        print_json(settings);
    } else if (options.man) {
        print_man();
    } else if (options.markdown) {
        print_markdown();
    } else {
        print_text(settings);
    }
    if (options.man || options.markdown) return kOk;  // these do not show the environment
    for (const SettingError& error : errors) fmt::print(stderr, "longshore: {}\n", error.message);
    return valid ? kOk : kUsage;
}

}  // namespace

void add_config(CLI::App& app, const Words*, int* exit_code) {
    const auto options = std::make_shared<ConfigOptions>();
    CLI::App* command =
        app.add_subcommand("config", "List every setting with its value here, default and meaning");
    set_usage(command, "longshore config [--json | --man | --markdown | --algorithms]");
    CLI::Option* json = command->add_flag("--json", options->json, "as a JSON list");
    CLI::Option* man = command->add_flag("--man", options->man, "as the settings section of the manual page");
    CLI::Option* markdown = command->add_flag("--markdown", options->markdown, "as a Markdown table");
    markdown->excludes(json)->excludes(man);
    man->excludes(json);
    command
        ->add_flag("--algorithms", options->algorithms,
                   "instead: which algorithm carries which call, as a file that can be edited")
        ->excludes(json)
        ->excludes(man)
        ->excludes(markdown);
    command->footer(R"(Settings are environment variables. An unknown name is an error, with a suggestion.

Examples:
  longshore config
  longshore config --algorithms >algorithms
  LONGSHORE_CHUNK_BYTES=128K longshore config --json

Exit code: 0; 2 if a setting in the environment, or the file of algorithms, is bad or unknown.)");
    command->callback([=] { *exit_code = config(*options); });
}

}  // namespace longshore::tools
