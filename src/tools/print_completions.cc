// What bash completes on a command line, from the tables that --help prints: a function for each subcommand.
#include <fmt/core.h>

#include <algorithm>

#include "base/settings.h"
#include "tools/command.h"

namespace longshore::tools {
namespace {

// The names of an option, "-n" and "--ranks", joined by `separator` and each after `before`.
std::string names_of(const CLI::Option& option, const std::string& before, const std::string& separator) {
    std::string text;
    const auto add = [&](const std::string& name) {
        text += (text.empty() ? "" : separator) + before + name;
    };
    for (const std::string& name : option.get_snames()) add("-" + name);
    for (const std::string& name : option.get_lnames()) add("--" + name);
    return text;
}

bool takes_value(const CLI::Option& option) {
    return option.get_items_expected_max() > 0;
}

// Options that begin with a minus; CLI11 counts arguments as options, too.
std::vector<const CLI::Option*> named_options(const CLI::App& command) {
    std::vector<const CLI::Option*> named;
    for (const CLI::Option* option : command.get_options())
        if (!option->get_positional() && !names_of(*option, "", "").empty()) named.push_back(option);
    return named;
}

std::string words(const std::vector<std::string>& list) {
    std::string text;
    for (const std::string& word : list) text += (text.empty() ? "" : " ") + word;
    return text;
}

// "--set" takes a setting as NAME=VALUE, where NAME may do without LONGSHORE_ and in lower case.
std::string setting_names() {
    std::vector<std::string> names;
    for (const SettingInfo& info : setting_table()) {
        std::string name = std::string(info.name).substr(sizeof "LONGSHORE_" - 1);
        std::transform(name.begin(), name.end(), name.begin(),
                       [](unsigned char letter) { return static_cast<char>(tolower(letter)); });
        names.push_back(name + "=");
    }
    return words(names);
}

// What to do for the value of an option, as a line of bash: by the type that its help shows,
// "MPI:{openmpi,mpich}" where only some words are allowed.
std::string value_line(const std::string& type) {
    const size_t open = type.find('{'), close = type.find('}');
    if (open != type.npos && close != type.npos && open < close) {
        std::string choices = type.substr(open + 1, close - open - 1);
        std::replace(choices.begin(), choices.end(), ',', ' ');
        return "_longshore_words '" + choices + "'";
    }
    if (type.starts_with("FILE")) return "_longshore_files -f";
    if (type.starts_with("FOLDER")) return "_longshore_files -d";
    if (type.starts_with("NAME=VALUE"))
        return "compopt -o nospace 2>/dev/null; _longshore_words '" + setting_names() + "'";
    return ":";
}

// After the options of 'run' and 'assess' stands a command, which bash completes as if it stood alone.
constexpr const char* kCommand = R"~(    local at=$(_longshore_command_at '{}')
    if ((at <= COMP_CWORD)); then
        if declare -F _command_offset >/dev/null; then _command_offset "$at"
        elif ((at == COMP_CWORD)); then mapfile -t COMPREPLY < <(compgen -c -f -- "$word" | sort -u)
        else _longshore_files -f; fi
        return
    fi
)~";

void print_command(const CLI::App& command) {
    std::vector<std::string> options;
    for (const CLI::Option* option : named_options(command))
        if (takes_value(*option)) options.push_back(names_of(*option, "", " "));
    std::string text = kCommand;
    text.replace(text.find("{}"), 2, words(options));
    fmt::print("{}", text);
}

void print_values(const CLI::App& command) {
    fmt::print("    case $before in\n");
    for (const CLI::Option* option : named_options(command)) {
        if (!takes_value(*option)) continue;
        fmt::print("    {}) {}; return ;;\n", names_of(*option, "'", "'|") + "'",
                   value_line(option->get_type_name()));
    }
    fmt::print("    esac\n");
}

void print_options(const CLI::App& command) {
    std::vector<std::string> list;
    for (const CLI::Option* option : named_options(command)) list.push_back(names_of(*option, "", " "));
    std::vector<std::string> inner;
    for (const CLI::App* one : command.get_subcommands({})) inner.push_back(one->get_name());
    const char* otherwise = inner.empty() ? "_longshore_files -f" : "_longshore_words";
    const std::string argument = inner.empty() ? "" : " '" + words(inner) + "'";
    fmt::print("    if [[ $word == -* ]]; then _longshore_words '{}'; else {}{}; fi\n", words(list),
               otherwise, argument);
}

}  // namespace

void print_completions(const CLI::App& app) {
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        const std::string& name = command->get_name();
        if (command->get_options().empty()) continue;  // not even --help: a program of its own
        fmt::print("\n_longshore_{}() {{\n", name);
        if (name == "run" || name == "assess") print_command(*command);
        print_values(*command);
        print_options(*command);
        fmt::print("}}\n");
    }
}

}  // namespace longshore::tools
