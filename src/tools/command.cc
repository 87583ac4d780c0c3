#include "tools/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <regex>

#include "tools/interruption.h"
#include "tools/other_programs.h"
#include "tools/paths.h"
#include "tools/run/launch.h"
#include "tools/tools.h"

namespace longshore::tools {
namespace {

constexpr const char* kFooter = R"(Examples:
  longshore doctor                          can this machine do it?
  longshore run mpirun -np 4 ./program      run a program, unmodified
  longshore assess mpirun -np 4 ./program   does it pay for this one?
  longshore config                          what can be set

'longshore SUBCOMMAND --help' tells more; so does longshore(1).
Exit codes: 0 done, 1 failed, 2 bad option or setting, 125 a part is missing; run gives its command's, and 125
for all errors of its own.)";

// CLI11 says "--nodes: 1 required K missing", and for a number that is none the largest that there is.
std::string plain_words(const std::string& said) {
    std::smatch found;
    static const std::regex missing("(.*): 1 required (.*) missing");
    static const std::regex no_number("(.*): Value (.*) not in range 0\\.0+ to 1797.*");
    if (std::regex_match(said, found, missing))
        return fmt::format("{} needs a value: {}", found.str(1), found.str(2));
    if (std::regex_match(said, found, no_number))
        return fmt::format("{}: {} is no number from 0 on", found.str(1), found.str(2));
    return said;
}

// CLI11's own codes start at 100 and its messages do not say what was meant.
int report(const CLI::App& app, const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::string used = "longshore";
    const CLI::App* command = &app;
    for (const CLI::App* one : app.get_subcommands()) command = one;
    if (command != &app) used += " " + command->get_name();

    std::vector<std::string> known;
    const std::vector<std::string> extra = app.remaining(true);
    const std::string word = extra.empty() ? "" : extra.front();
    for (const CLI::Option* one : command->get_options()) {
        for (const std::string& name : one->get_lnames()) known.push_back("--" + name);
    }
    for (const CLI::App* one : command->get_subcommands({})) known.push_back(one->get_name());
    if (!word.empty()) {
        const char* kind = word.starts_with('-') ? "option" : command == &app ? "subcommand" : "argument";
        fmt::print(stderr, "{}: unknown {} {}{}\n", used, kind, word,
                   suggestion(word.substr(0, word.find('=')), known));
    } else {
        fmt::print(stderr, "{}: {}\n", used, plain_words(error.what()));
    }
    fmt::print(stderr, "See '{} --help'.\n", used);
    return used == "longshore run" || used == "longshore assess" ? kNotReady : kUsage;
}

bool takes_value(const CLI::App* command, const std::string& word) {
    const auto options = command->get_options();
    return std::any_of(options.begin(), options.end(), [&](const CLI::Option* one) {
        return one->check_name(word) && one->get_items_expected_max() > 0;
    });
}

bool has_subcommand(const CLI::App* command, const std::string& word) {
    const auto commands = command->get_subcommands([](const CLI::App*) { return true; });
    return std::any_of(commands.begin(), commands.end(),
                       [&](const CLI::App* one) { return one->get_name() == word; });
}

// A command to be started has options of its own, which CLI11 must not see: cuts it off the arguments. It
// starts after "--", or at the first word that is neither an option nor an option's value, nor the name of
// one of the command's own subcommands.
Words split_words(const CLI::App* command, std::vector<std::string>* arguments) {
    for (size_t i = 1; i < arguments->size(); ++i) {
        const std::string& word = (*arguments)[i];
        const bool mark = word == "--";
        if (i == 1 && has_subcommand(command, word)) continue;
        if (!mark && word.starts_with('-') && word != "-") {
            if (takes_value(command, word)) ++i;
            continue;
        }
        Words words(arguments->begin() + static_cast<ptrdiff_t>(i + mark), arguments->end());
        arguments->resize(i);
        return words;
    }
    return {};
}

bool is_there(const Subcommand& one) {
    return one.add != nullptr || is_file(other_program(one.name));
}

// Takes the place of this process; comes back only where that fails.
int start_other(const Subcommand& one, const std::vector<std::string>& arguments) {
    const std::string program = other_program(one.name);
    if (!is_there(one)) {
        fmt::print(stderr, "longshore {}: {} is missing: {}\n", one.name, program, missing_part_advice());
        return kNotReady;
    }
    std::vector<std::string> command{program};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return execute(command);
}

int run_subcommand(std::span<const Subcommand> subcommands, int argc, char** argv) {
    int exit_code = kOk;
    CLI::App app("Longshore offloads MPI collectives of unmodified programs to service processes.",
                 "longshore");
    app.set_version_flag("--version", "longshore " LONGSHORE_VERSION, "show the version");
    app.set_help_flag("-h,--help", "show this help");
    set_usage(&app, "longshore [--version] [--help] SUBCOMMAND ...");
    app.footer(kFooter);
    Words words;
    for (const Subcommand& one : subcommands) {
        if (one.add != nullptr)
            one.add(app, &words, &exit_code);
        else if (is_there(one))
            app.add_subcommand(one.name, about(one.name))->set_help_flag();
    }
    std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
    // 'longshore help run' is 'longshore run --help'.
    if (!arguments.empty() && arguments[0] == "help") {
        arguments.erase(arguments.begin());
        arguments.resize(std::min<size_t>(arguments.size(), 1));
        if (arguments == std::vector<std::string>{"help"}) arguments.clear();
        // What is no subcommand stays alone, and is said to be none.
        if (arguments.empty() || has_subcommand(&app, arguments[0])) arguments.emplace_back("--help");
    }
    const auto chosen = std::find_if(subcommands.begin(), subcommands.end(), [&](const Subcommand& one) {
        return !arguments.empty() && arguments[0] == one.name;
    });
    if (chosen != subcommands.end() && chosen->add == nullptr) return start_other(*chosen, arguments);
    // So 'longshore completion' asks the program of a subcommand.
    if (chosen == subcommands.end() && arguments == std::vector<std::string>{"completion"}) {
        print_completions(app);
        return kOk;
    }
    // An unknown subcommand is one with --help, too.
    if (chosen == subcommands.end() && !arguments.empty() && !arguments[0].starts_with('-'))
        arguments.resize(1);
    if (chosen != subcommands.end() && chosen->starts_command)
        words = split_words(app.get_subcommand(arguments[0]), &arguments);
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    try {
        app.parse(arguments);
    } catch (const CLI::ParseError& error) {
        return report(app, error);
    }
    if (app.get_subcommands().empty()) {
        fmt::print(stderr, "{}", app.help());
        return kUsage;
    }
    return exit_code;
}

// What was printed may have found a full disk: then nothing is done, whatever the subcommand says.
int written(int exit_code) {
    std::cout.flush();
    if (fflush(stdout) == 0 && ferror(stdout) == 0 && std::cout.good()) return exit_code;
    fmt::print(stderr, "longshore: the output could not be written{}{}\n", errno != 0 ? ": " : "",
               errno != 0 ? strerror(errno) : "");
    return exit_code == kOk ? kFailed : exit_code;
}

}  // namespace

int run_command(std::span<const Subcommand> subcommands, int argc, char** argv) {
    try {
        return written(run_subcommand(subcommands, argc, argv));
    } catch (const Interrupted& by) {
        fmt::print(stderr, "longshore: interrupted\n");
        return 128 + by.signal;
    } catch (const std::exception& error) {
        fmt::print(stderr, "longshore: {}\n", error.what());
        return kFailed;
    }
}

}  // namespace longshore::tools
