// longshore completion: what bash completes on a command line, from the table that --help prints.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/settings.h"
#include "tools/tools.h"

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

constexpr const char* kHead =
    R"~(# Completion of longshore's command line in bash, printed by 'longshore completion'.
_longshore_words() { COMPREPLY=($(compgen -W "$1" -- "$word")); }
_longshore_files() { compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen "$1" -- "$word"); }

# Where the command begins that 'longshore run' starts: at the first word that is no option and no option's value.
_longshore_command_at() {
    local i
    for ((i = 2; i <= COMP_CWORD; ++i)); do
        if [[ ${COMP_WORDS[i]} == -- ]]; then echo $((i + 1)); return; fi
        if [[ " $1 " == *" ${COMP_WORDS[i]} "* ]]; then ((++i)); continue; fi
        if [[ ${COMP_WORDS[i]} != -* ]]; then echo "$i"; return; fi
    done
    echo $((COMP_CWORD + 1))
}

_longshore() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} at
    COMPREPLY=()
)~";

constexpr const char* kCommand = R"~(    if [[ $command == run ]]; then
        at=$(_longshore_command_at '{}')
        if ((at <= COMP_CWORD)); then
            if declare -F _command_offset >/dev/null; then _command_offset "$at"
            elif ((at == COMP_CWORD)); then mapfile -t COMPREPLY < <(compgen -c -f -- "$word" | sort -u)
            else _longshore_files -f; fi
            return
        fi
    fi
)~";

void print_values(const CLI::App& command) {
    for (const CLI::Option* option : named_options(command)) {
        if (!takes_value(*option)) continue;
        fmt::print("    {}) {}; return ;;\n", names_of(*option, "'" + command.get_name() + " ", "'|") + "'",
                   value_line(option->get_type_name()));
    }
}

void print_options(const CLI::App& command) {
    std::vector<std::string> list;
    for (const CLI::Option* option : named_options(command)) list.push_back(names_of(*option, "", " "));
    std::vector<std::string> inner;
    for (const CLI::App* one : command.get_subcommands({})) inner.push_back(one->get_name());
    const char* otherwise = inner.empty() ? "_longshore_files -f" : "_longshore_words";
    const std::string argument = inner.empty() ? "" : " '" + words(inner) + "'";
    fmt::print("    {}) if [[ $word == -* ]]; then _longshore_words '{}'; else {}{}; fi ;;\n",
               command.get_name(), words(list), otherwise, argument);
}

int completion(const CLI::App& app) {
    const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
    std::vector<std::string> names, value_options;
    for (const CLI::App* command : commands) names.push_back(command->get_name());
    for (const CLI::Option* option : named_options(*app.get_subcommand("run")))
        if (takes_value(*option)) value_options.push_back(names_of(*option, "", " "));
    fmt::print("{}", kHead);
    fmt::print("    if ((COMP_CWORD == 1)); then _longshore_words '{} --help --version'; return; fi\n",
               words(names));
    std::string run = kCommand;
    run.replace(run.find("{}"), 2, words(value_options));
    fmt::print("{}    case \"$command $before\" in\n", run);
    for (const CLI::App* command : commands) print_values(*command);
    fmt::print("    esac\n    case $command in\n");
    for (const CLI::App* command : commands) print_options(*command);
    fmt::print("    esac\n}}\ncomplete -F _longshore longshore\n");
    return kOk;
}

}  // namespace

void add_completion(CLI::App& app, int* exit_code) {
    CLI::App* command =
        app.add_subcommand("completion", "Print what lets bash complete longshore's arguments");
    set_usage(command, "longshore completion");
    command->footer(
        R"~(An installation has it as share/bash-completion/completions/longshore, which bash finds by itself
where PREFIX is one of the system's. Elsewhere:
  eval "$(longshore completion)"

Exit code: 0.)~");
    command->callback([&app, exit_code] { *exit_code = completion(app); });
}

}  // namespace longshore::tools
