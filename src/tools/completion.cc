// longshore completion: what bash completes on a command line.
#include <fmt/core.h>

#include <string>

#include "tools/command.h"
#include "tools/other_programs.h"
#include "tools/paths.h"
#include "tools/run/launch.h"

namespace longshore::tools {
namespace {

constexpr const char* kHead =
    R"~(# Completion of longshore's command line in bash, printed by 'longshore completion'.
_longshore_words() { COMPREPLY=($(compgen -W "$1" -- "$word")); }
_longshore_files() { compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen "$1" -- "$word"); }

# Where the command begins that a subcommand starts: at the first word that is no option and no option's value.
_longshore_command_at() {
    local i
    for ((i = 2; i <= COMP_CWORD; ++i)); do
        if [[ ${COMP_WORDS[i]} == -- ]]; then echo $((i + 1)); return; fi
        if [[ " $1 " == *" ${COMP_WORDS[i]} "* ]]; then ((++i)); continue; fi
        if [[ ${COMP_WORDS[i]} != -* ]]; then echo "$i"; return; fi
    done
    echo $((COMP_CWORD + 1))
}
)~";

constexpr const char* kTail = R"~(
_longshore() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then _longshore_words '{} --help --version'
    elif declare -F "_longshore_${COMP_WORDS[1]}" >/dev/null; then "_longshore_${COMP_WORDS[1]}"; fi
}
complete -F _longshore longshore
)~";

int completion(const CLI::App& app) {
    std::string names;
    fmt::print("{}", kHead);
    print_completions(app);
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        names += (names.empty() ? "" : " ") + command->get_name();
        // A program of its own knows its options.
        if (command->get_options().empty())
            fmt::print("{}", capture({other_program(command->get_name()), "completion"}).text);
    }
    std::string tail = kTail;
    tail.replace(tail.find("{}"), 2, names);
    fmt::print("{}", tail);
    return kOk;
}

}  // namespace

void add_completion(CLI::App& app, const Words*, int* exit_code) {
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
