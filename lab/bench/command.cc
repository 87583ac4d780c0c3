// longshore bench: runs the benchmark of one MPI flavour under its mpirun, offloaded or not.
#include "tools/command.h"

#include <fmt/core.h>
#include <unistd.h>

#include <memory>

#include "tools/other_programs.h"
#include "tools/paths.h"
#include "tools/pictures.h"
#include "tools/run/launch.h"
#include "tools/run/mpirun.h"
#include "tools/terminal.h"
#include "tools/tools.h"

namespace longshore::tools {
namespace {

constexpr size_t kWideColumns = 180;  // of the longest rows

struct BenchOptions {
    LaunchOptions launch;
    std::string mpi;
    unsigned ranks = 0;
    bool host_only = false, breakdown = false;
    std::string plot;
    bool help = false;
};

int help(const CLI::App* command, const BenchOptions& options) {
    fmt::print("{}", command->help());
    for (const char* flavour : kFlavours) {
        if (!options.mpi.empty() && options.mpi != flavour) continue;
        if (!is_file(flavoured_program(kBenchProgram, flavour))) continue;
        fmt::print("\nBench arguments, after --:\n\n");
        return execute({flavoured_program(kBenchProgram, flavour), "--help"});
    }
    fmt::print("\nThe benchmark is not built yet ('make build'), so its own arguments are not shown.\n");
    return kOk;
}

std::vector<std::string> launch_of(const std::string& flavour, const Words& words,
                                   const BenchOptions& options) {
    std::vector<std::string> launch =
        mpirun_command(flavour, options.ranks != 0 ? options.ranks : default_ranks());
    launch.push_back(flavoured_program(kBenchProgram, flavour));
    // What ranks cannot know, who write into a pipe of the launcher's.
    const size_t columns = terminal_columns(stdout);
    if (columns != 0 && columns < kWideColumns) launch.emplace_back("--narrow");
    if (isatty(STDERR_FILENO) != 0)
        launch.insert(launch.end(), {"--progress", isatty(STDOUT_FILENO) != 0 ? "bar-among-rows" : "bar"});
    launch.insert(launch.end(), words.begin(), words.end());
    return launch;
}

// One launch for each MPI; their results go into one file.
int copy_limit(const std::vector<std::string>& flavours, Words words, const BenchOptions& options) {
    words.insert(words.begin(), "--copy-limit");
    for (const std::string& flavour : flavours) {
        if (flavour != flavours.front()) {
            words.emplace_back("--json-append");
            fmt::print("\n");
        }
        if (const int code = run_and_wait(launch_of(flavour, words, options)); code != kOk) return code;
    }
    return kOk;
}

// The file that the benchmark is told to write, or "".
std::string json_file(const Words& words) {
    const std::string option = "--json";
    for (size_t i = 0; i < words.size(); ++i) {
        if (words[i] == option && i + 1 < words.size()) return words[i + 1];
        if (words[i].starts_with(option + "=")) return words[i].substr(option.size() + 1);
    }
    return "";
}

int breakdown(const std::string& flavour, Words words, const BenchOptions& options) {
    words.insert(words.begin(), "--breakdown");
    if (options.plot.empty()) return execute(launch_of(flavour, words, options));
    const std::string script = script_path("breakdown.py");
    if (const int code = can_draw("bench", script); code != kOk) return code;
    const ResultsFile results(json_file(words));
    if (results.is_temporary()) words.insert(words.end(), {"--json", results.name()});
    if (const int code = run_and_wait(launch_of(flavour, words, options)); code != kOk) return code;
    return run_and_wait({find_python(), script, results.name(), "--output", options.plot});
}

int bench(const CLI::App* command, const Words& words, const BenchOptions& options) {
    if (options.help) return help(command, options);
    const std::vector<std::string> flavours = ready_flavours("bench", kBenchProgram, options.mpi);
    if (flavours.empty()) return kNotReady;
    if (const int code = export_settings(options.launch); code != kOk) return code;
    if (!options.host_only) {
        if (const int code = export_shim(); code != kOk) return code;
    }
    if (command->got_subcommand("copy-limit")) return copy_limit(flavours, words, options);
    if (options.breakdown) return breakdown(flavours.front(), words, options);
    return execute(launch_of(flavours.front(), words, options));
}

void add_bench(CLI::App& app, const Words* words, int* exit_code) {
    const auto options = std::make_shared<BenchOptions>();
    CLI::App* command = app.add_subcommand("bench", about("bench"));
    set_usage(command, "longshore bench [copy-limit] [OPTIONS] [-- BENCH ARGUMENTS]");
    // Its own help flag: CLI11's would end before the benchmark can add its part.
    command->set_help_flag();
    command->add_flag("-h,--help", options->help, "show this help and that of the benchmark");
    command
        ->add_subcommand("copy-limit",
                         "what one core copies, and the least time a library could take: see below")
        ->fallthrough();
    command
        ->add_option("--mpi", options->mpi,
                     "openmpi or mpich (default: the first that is there; of copy-limit: both)")
        ->check(CLI::IsMember({"openmpi", "mpich"}))
        ->type_name("MPI");
    command
        ->add_option("-n,--ranks", options->ranks, "number of ranks (default: one for each core, at least 2)")
        ->check(CLI::Range(1, 4096))
        ->type_name("RANKS");
    command->add_flag("--host-only", options->host_only, "the MPI alone, without Longshore, to compare with");
    auto* breakdown_option =
        command->add_flag("--breakdown", options->breakdown, "where the time of Longshore's operations goes");
    command->add_option("--plot", options->plot, "... as a picture, too (PNG)")
        ->needs(breakdown_option)
        ->option_text("FILE");
    add_launch_options(command, &options->launch);
    command->footer(R"(Examples:
  longshore bench
  longshore bench --mpi mpich -n 4 --service 1
  longshore bench -n 4 --nodes 2 -- BENCH ARGUMENTS
  longshore bench --host-only -n 4
  longshore bench -n 2 --breakdown --plot breakdown.png
  longshore bench copy-limit -n 2 -- --json limit.json

copy-limit prints what one core copies by memcpy and by process_vm_readv, and then, with every MPI that is there, how
far that MPI and Longshore are from ranks that copy out of memory they all have mapped.

Exit code: that of mpirun; 2 bad option or setting; 125 an MPI, the benchmark, the shim or
matplotlib is missing.)");
    command->callback([=] { *exit_code = bench(command, *words, *options); });
}

}  // namespace
}  // namespace longshore::tools

int main(int argc, char** argv) {
    using namespace longshore::tools;
    const Subcommand command{"bench", add_bench, true};
    return run_command({&command, 1}, argc, argv);
}
