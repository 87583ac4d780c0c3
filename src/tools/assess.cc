// longshore assess: runs a program without and with Longshore in turns, by a script that compares the two.
#include <fmt/core.h>

#include <memory>

#include "tools/paths.h"
#include "tools/pictures.h"
#include "tools/run/launch.h"
#include "tools/run/mpi_library.h"
#include "tools/tools.h"

namespace longshore::tools {
namespace {

constexpr unsigned kTurnsMax = 100;
constexpr unsigned kNodesMax = 4096;  // that can be simulated

struct AssessOptions {
    unsigned turns = 3, machine_nodes = 0;  // 0: as many as the ranks need, at least two
    std::vector<std::string> compare, settings;
    std::string setup, scratch, page, machine;
    bool folders = false;
};

int assess(const Words& words, const AssessOptions& options) {
    if (words.empty()) {
        fmt::print(
            stderr,
            "longshore assess: no COMMAND given\nFor example: longshore assess mpirun -np 4 ./program\n");
        return kNotReady;
    }
    if (!can_write("-o", options.page)) return kNotReady;
    const std::string script = script_path("assess.py");
    if (!is_file(script)) {
        fmt::print(stderr, "longshore assess: {} is not there; {}\n", script, missing_part_advice());
        return kNotReady;
    }
    std::vector<std::string> command = {find_python(), script,
                                        "--longshore", root_folder() + "/bin/longshore",
                                        "--turns",     std::to_string(options.turns)};
    for (const std::string& file : options.compare) command.insert(command.end(), {"--compare", file});
    for (const std::string& text : options.settings) command.insert(command.end(), {"--set", text});
    if (!options.setup.empty()) command.insert(command.end(), {"--setup", options.setup});
    if (!options.scratch.empty()) command.insert(command.end(), {"--scratch", options.scratch});
    if (!options.page.empty()) command.insert(command.end(), {"--output", absolute(options.page)});
    if (!options.machine.empty()) command.insert(command.end(), {"--machine", options.machine});
    if (options.machine_nodes != 0)
        command.insert(command.end(), {"--machine-nodes", std::to_string(options.machine_nodes)});
    if (options.folders) command.emplace_back("--folders");
    command.emplace_back("--");
    command.insert(command.end(), words.begin(), words.end());
    return execute(command);
}

}  // namespace

void add_assess(CLI::App& app, const Words* words, int* exit_code) {
    const auto options = std::make_shared<AssessOptions>();
    CLI::App* command =
        app.add_subcommand("assess", "Run a program without and with Longshore: does it pay, and why");
    set_usage(command, "longshore assess [OPTIONS] [--] COMMAND [ARGUMENTS]");
    command->add_option("--turns", options->turns, "runs without and with, in turns (default: 3 of each)")
        ->check(CLI::Range(1u, kTurnsMax))
        ->type_name("N");
    command
        ->add_option("--compare", options->compare,
                     "a file that each run writes and that must not differ; may be repeated")
        ->type_name("FILE")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    command->add_option("--setup", options->setup, "a command of the shell before each run")
        ->type_name("CMD");
    command->add_flag("--folders", options->folders, "start each run in an empty folder of its own");
    command
        ->add_option(
            "--scratch", options->scratch,
            "where runs may write, shared by the machines of all ranks (default: the current folder)")
        ->type_name("DIR");
    command->add_option("-o,--output", options->page, "also write one page for a browser (HTML)")
        ->type_name("FILE");
    auto* machine =
        command
            ->add_option(
                "--machine", options->machine,
                "also say what the collectives would take on this machine (see 'longshore simulate')")
            ->type_name("MACHINE");
    command
        ->add_option("--machine-nodes", options->machine_nodes,
                     "nodes of it (default: as many as the ranks need, not fewer than here, at least 2)")
        ->check(CLI::Range(2u, kNodesMax).description(""))
        ->type_name("N")
        ->needs(machine);
    add_set_option(command, &options->settings);
    command->footer(
        R"(The program runs 2 N times, and its output goes to stderr. Where it lost outside of MPI, it runs N times more
without shared memory, to find the reason. Relative names in COMMAND are from the current folder, or with
--folders from each run's own.

Examples:
  longshore assess mpirun -np 4 ./program
  longshore assess --turns 5 --compare result.dat -o report.html mpirun -np 4 ./program
  longshore assess --machine mpcdf-bf3 --machine-nodes 2 mpirun -np 4 ./program
  longshore assess --setup 'rm -f restart' mpirun -np 4 ./program

Exit code: 0, whatever the verdict; 1 a run failed, or files differ; 125 a bad option, or a part is missing.)");
    command->callback([=] { *exit_code = assess(*words, *options); });
}

}  // namespace longshore::tools
